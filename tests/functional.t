#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The MMU change, end to end on the emulated AMD machine: nx_huge_pages_dirty_log_test
# passes with it in every paging mode, next to the kernel's own nx_huge_pages_test.
# Without it, 6.1 fails, at the first case and for the right reason.

. "$(dirname "$0")/../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

functional=nx_huge_pages_dirty_log_test

# run_test KERNEL SIDE CMDLINE COMMAND: its output in $work/out, its status the lab's.
run_test()
{
	msg "$1 $2 ${3:-default}: $4"
	"$LAB/run" -k "$1" -s "$2" -c "$3" -t 900 ${binary:+-a "$binary"} -- sh -c "$4" >"$work/out" 2>"$work/err"
}

passes() { run_test "$@" || { tail -n 15 "$work/out" "$work/err"; return 1; }; }

# On stock, no more than what the change is about may fail.
fails_at_logged_slot()
{
	local status=0

	run_test "$1" stock '' "./$functional" || status=$?
	[ "$status" = 1 ] || { tail "$work/out" "$work/err"; echo "status $status"; return 1; }
	grep -q '^not ok 1 logged_slot' "$work/out" &&
		grep -q 'zapped [1-9][0-9]* 4KiB mappings, [1-9][0-9]* of them in dirty logged slots' "$work/out" "$work/err" &&
		grep -q '^ok [0-9]* skips' "$work/out" || { cat "$work/out"; return 1; }
}

# The kernels to test, if not the one that gains the behavior: prove FILE :: KERNEL...
for kernel in "${@:-6.1}"; do
	check_kernel "$kernel"
	binary=$("$LAB/selftests" "$kernel" patched "$functional")
	if [ "$kernel" = 6.1 ]; then
		ok "6.1 stock: zaps dirty-tracked pages, and the test says so" fails_at_logged_slot 6.1
	else
		ok "$kernel stock: passes" passes "$kernel" stock '' "./$functional"
	fi
	for mode in '' kvm.tdp_mmu=0 kvm_amd.npt=0; do
		ok "$kernel patched, ${mode:-default}: passes, next to the kernel's own test" \
			passes "$kernel" patched "$mode" "./nx_huge_pages_test.sh && ./$functional"
		diag "$(grep -c '^ok' "$work/out") cases, $(grep -c '# SKIP' "$work/out" || :) skipped"
	done
done
done_testing
