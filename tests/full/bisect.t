#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A maintainer may stop after any commit of the series: with the commits up to it, KUnit
# passes, the kernel builds and boots, and the selftests pass that are there by then.

. "$(dirname "$0")/../../tools/lab/lib.sh"
. "$LAB/boot.sh"
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
LAB=$clone/tools/lab

# boots TREE: and each of our selftests that it has passes.
boots()
{
	local tests=$1/tools/testing/selftests/kvm commands=('./nx_huge_pages_test.sh || ./nx_huge_pages_test.sh') command status=0

	! ls "$tests"/x86*/"$functional".c >/dev/null 2>&1 || commands+=("$(functional_command "$kernel")")
	[ ! -e "$tests/execute_perf_test.c" ] || commands+=("sh execute_perf.sh kept")
	! grep -q nx_perf_util "$tests/access_tracking_perf_test.c" ||
		commands+=("sh access_tracking.sh $([ "$kernel" = 6.1 ] && echo page_idle || echo lru_gen)")
	boot "$work/out" "$kernel" patched amd '' "${commands[@]}" || status=$?
	for command in "${commands[@]}"; do
		grep -qxF "status 0: $command" "$work/out" || status=1
	done
	[ "$status" = 0 ] || { cat "$work/out"; tail -n 30 "$work/out.err"; return 1; }
	diag "passed: ${commands[*]}"
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
