#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# KVM compiles with the series in the ways that its maintainers ask for.

. "$(dirname "$0")/../../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

# The kernels to test, if not all: prove FILE :: KERNEL...
# shellcheck disable=SC2086 # a list
[ $# -gt 0 ] || set -- $KERNELS
for kernel; do
	check_kernel "$kernel"
	for flavour in modules nosmm i386; do
		msg "$kernel, $flavour"
		ok "$kernel, $flavour" "$LAB/objects" "$kernel" patched "$flavour"
	done
done
done_testing
