#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A maintainer may stop after any commit of the series: with the commits up to it, KUnit
# passes, the kernel builds and boots, and the selftests pass that are there by then.

. "$(dirname "$0")/../../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

# The kernels to test, if not all: prove FILE :: KERNEL...
# shellcheck disable=SC2086 # a list
[ $# -gt 0 ] || set -- $KERNELS
for kernel; do
	check_kernel "$kernel"
done

# Its series grows.
clone=$work/clone
copy_project "$clone"
series=("$TOP"/series/*/)
functional=nx_huge_pages_dirty_log_test

boots()
{
	local command=(true) tests

	tests=$(echo "$1"/tools/testing/selftests/kvm/x86*/$functional.c)
	[ ! -e "$tests" ] || command=("./$functional")
	[ "$kernel-${command[0]}" != 7.3-./$functional ] || command+=(-d 1)
	"$clone/tools/lab/run" -k "$kernel" -- "${command[@]}"
}

for kernel; do
	rm -rf "${clone:?}"/series/*/
	before=
	for folder in "${series[@]}"; do
		name=$(basename "$folder")
		cp -a "$folder" "$clone/series/$name"
		ok "$kernel, $name: applies" "$clone/tools/lab/tree" "$kernel"
		tree=$("$clone/tools/lab/tree" -p "$kernel")
		# Not every kernel has something to edit.
		[ "$(git -C "$tree" rev-parse HEAD)" != "$before" ] || continue
		before=$(git -C "$tree" rev-parse HEAD)
		msg "$kernel, $name"
		ok "$kernel, $name: KUnit passes" env KERNEL="$kernel" "$clone/tools/testing/kunit/kunit.py" run
		ok "$kernel, $name: the kernel builds, boots, and passes" boots "$tree"
	done
done
"$clone/tools/lab/clean"
done_testing
