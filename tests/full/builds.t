#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# KVM compiles with the series in the ways that its maintainers ask for.

. "$(dirname "$0")/../../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

for kernel in $KERNELS; do
	for flavour in modules nosmm i386; do
		msg "$kernel, $flavour"
		ok "$kernel, $flavour" "$LAB/objects" "$kernel" patched "$flavour"
	done
done
done_testing
