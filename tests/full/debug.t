#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The functional test on a debug kernel: no finding of lockdep, KASAN or their kind,
# each of which fails the run.

. "$(dirname "$0")/../../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

# The kernels to test, if not all: prove FILE :: KERNEL...
# shellcheck disable=SC2086 # a list
[ $# -gt 0 ] || set -- $KERNELS
for kernel; do
	check_kernel "$kernel"
	for mode in '' kvm.tdp_mmu=0 kvm_amd.npt=0; do
		msg "$kernel debug, ${mode:-default}"
		ok "$kernel, ${mode:-default}" "$LAB/run" -k "$kernel" -f debug -M 3G -t 900 -c "$mode" -- \
			./nx_huge_pages_dirty_log_test
	done
done
done_testing
