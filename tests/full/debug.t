#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The functional test on a debug kernel: no finding of lockdep, KASAN or their kind,
# each of which fails the run.

. "$(dirname "$0")/../../tools/lab/lib.sh"
. "$LAB/boot.sh"
. "$TOP/tests/tap.sh"

boot_args=(-f debug -M 3G)

passes()
{
	local status=0

	boot "$work/out" "$kernel" patched amd "$mode" "$(functional_command "$kernel")" || status=$?
	[ "$status" = 0 ] && grep -q '^status 0: ' "$work/out" || { cat "$work/out"; tail -n 30 "$work/out.err"; return 1; }
}

# The kernels to test, if not all: prove FILE :: KERNEL...
# shellcheck disable=SC2086 # a list
[ $# -gt 0 ] || set -- $KERNELS
for kernel; do
	check_kernel "$kernel"
	for mode in '' kvm.tdp_mmu=0 kvm_amd.npt=0; do
		msg "$kernel debug, ${mode:-default}"
		ok "$kernel, ${mode:-default}" passes
	done
done
done_testing
