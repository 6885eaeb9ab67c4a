#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The series, end to end on the emulated machines: nx_huge_pages_dirty_log_test passes
# with it in every paging mode on amd, and on intel, next to the kernel's own
# nx_huge_pages_test, and so do the perf tests by what they count. Without it, 6.1
# fails, at the first case and for the right reason.

. "$(dirname "$0")/../tools/lab/lib.sh"
. "$LAB/boot.sh"
. "$TOP/tests/tap.sh"

# lab_says STATUS: the lab found no fault with the boot, or the one that is expected.
lab_says()
{
	[ "$status" = "$1" ] || { tail -n 15 "$work/out" "$work/out.err"; echo "status $status"; return 1; }
}

# command_says STATUS COMMAND
command_says()
{
	grep -qxF "status $1: $2" "$work/out" || { cat "$work/out"; return 1; }
}

# On stock 6.1, no more than what the change is about may fail.
fails_at_logged_slot()
{
	command_says 1 "./$functional" &&
		grep -q '^not ok 1 logged_slot' "$work/out" &&
		grep -q 'zapped [1-9][0-9]* 4KiB mappings, [1-9][0-9]* of them in dirty logged slots' "$work/out" "$work/out.err" &&
		grep -q '^ok [0-9]* skips' "$work/out"
}

# The kernels to test, if not all: prove FILE :: KERNEL...
# shellcheck disable=SC2086 # a list
[ $# -gt 0 ] || set -- $KERNELS
for kernel; do
	check_kernel "$kernel"
	status=0 left=kept
	[ "$kernel" != 6.1 ] || left=zapped
	test=$(functional_command "$kernel")
	# 6.1's multi-gen LRU does not look at what a guest accesses.
	aging=lru_gen
	[ "$kernel" != 6.1 ] || aging=page_idle
	msg "$kernel stock"
	boot "$work/out" "$kernel" stock amd '' "$test" "sh execute_perf.sh $left" || status=$?
	ok "$kernel stock: runs" lab_says 0
	if [ "$kernel" = 6.1 ]; then
		ok "6.1 stock: zaps dirty-tracked pages, and the test says so" fails_at_logged_slot
	else
		ok "$kernel stock: passes" command_says 0 "$test"
	fi
	ok "$kernel stock: execute_perf_test counts what is $left" command_says 0 "sh execute_perf.sh $left"

	# The kernel's own test gives recovery a fixed time, which a busy machine may need itself.
	kernels_own='./nx_huge_pages_test.sh || ./nx_huge_pages_test.sh'
	for mode in amd: amd:kvm.tdp_mmu=0 amd:kvm_amd.npt=0 intel:; do
		# With auto, the default, only a CPU with the erratum has the mitigation on.
		commands=("grep -x $([ $mode = intel: ] && echo Y || echo N) /sys/module/kvm/parameters/nx_huge_pages"
			  "$kernels_own" "$test")
		[ $mode != amd: ] ||
			commands=("sh access_tracking.sh $aging" "sh surplus.sh" "${commands[@]}" "sh execute_perf.sh kept")
		# Newer kernels have cgroup v1's memory controller only by an option.
		[ "$kernel-$mode" != 6.1-amd:kvm.tdp_mmu=0 ] || commands+=("sh access_tracking_v1.sh")
		status=0 boot_args=() more=
		[ $mode != amd:kvm.tdp_mmu=0 ] || boot_args=("${page_1g_args[@]}") more=" $page_1g"
		msg "$kernel patched, $mode"
		boot "$work/out" "$kernel" patched "${mode%:*}" "${mode#*:}$more" "${commands[@]}" || status=$?
		ok "$kernel patched, $mode runs" lab_says 0
		[ -z "$more" ] || ok "$kernel patched, $mode has a page of 1GiB" grep -q '^ok [0-9]* logging_off_1g' "$work/out"
		for command in "${commands[@]}"; do
			ok "$kernel patched, $mode $command" command_says 0 "$command"
		done
		diag "$(grep -c '^ok' "$work/out") cases, $(grep -c '# SKIP' "$work/out" || :) skipped"
	done
done
done_testing
