# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Run several tests in one boot. Sourced after lib.sh.

functional=nx_huge_pages_dirty_log_test

# functional_command KERNEL: the functional test's command. Stock 7.3.4 has a race that its churn
# runs into, the more often the longer it takes: a vCPU's fault isn't for the page that is
# mapped by then, and KVM warns. That's not what is tested here.
functional_command()
{
	[ "$1" != 7.3 ] && echo "./$functional" || echo "./$functional -d 1"
}

# More options of tools/lab/run.
boot_args=()

# A page of 1GiB: words for the command line, and options. There is room above 4GiB only.
# shellcheck disable=SC2034 # its users'
page_1g='hugepagesz=1G hugepages=1' page_1g_args=(-M 5G)

# boot OUT KERNEL SIDE MACHINE CMDLINE COMMAND...: run each COMMAND in the guest, with those
# of our selftests that the series has, and tests/guest/ beside it. Their output goes to
# OUT, each followed by a line 'status N: COMMAND', the lab's own words to OUT.err. Returns
# tools/lab/run's status.
boot()
{
	local out=$1 kernel=$2 side=$3 machine=$4 cmdline=$5 name status try args=("${boot_args[@]}") have
	shift 5

	have=$("$LAB/selftests" -l "$kernel" patched 2>"$out.err") || return
	for name in "$functional" execute_perf_test access_tracking_perf_test; do
		grep -qxF "$name" <<<"$have" || continue
		args+=(-a "$("$LAB/selftests" "$kernel" patched "$name" 2>"$out.err")") || return
	done
	for name in "$TOP"/tests/guest/*.sh; do
		args+=(-a "$name")
	done
	# shellcheck disable=SC2016 # the guest's
	args+=(-- sh -c 'for command; do
			sh -c "$command"
			echo "status $?: $command"
		done' sh "$@")
	for try in 1 2 3 4 5 6 7 8; do
		status=0
		"${leash[@]}" "$LAB/run" -k "$kernel" -s "$side" -m "$machine" -c "$cmdline" -t 900 \
			"${args[@]}" >"$out" 2>"$out.err" || status=$?
		[ "$kernel-$status" = 7.3-123 ] && known_warning "$out" || break
		msg "attempt $try: the kernel warned in kvm_tdp_mmu_map()"
	done
	return "$status"
}

# That warning, from the churn, and nothing else is wrong.
known_warning()
{
	local log

	log=$(sed -n 's/^run: console log: //p' "$1.err")
	grep -qa 'WARNING: .*tdp_mmu.c:[0-9]* at kvm_tdp_mmu_map' "$log" &&
		[ "$(grep -acE 'WARNING: |BUG: |INFO: |Kernel panic' "$log")" = 1 ] &&
		grep '^not ok' "$1" | grep -qx 'not ok [0-9]* churn' &&
		[ "$(grep -c '^not ok' "$1")" = 1 ] &&
		! grep '^status [^0]' "$1" | grep -qvF "$functional"
}
