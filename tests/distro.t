#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Debian 12's own kernel: with its own modules it zaps dirty-tracked pages, with those of
# make modules it doesn't. They load as on a host, with their options.

. "$(dirname "$0")/../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

unset KDIR KERNEL
functional=nx_huge_pages_dirty_log_test
binary=$("$LAB/selftests" 6.1 patched $functional 2>"$work/err") || { cat "$work/err" >&2; exit 1; }

# boot SIDE STATUS: the test ends with STATUS there; the output in $work/SIDE.
boot()
{
	local status=0

	"$LAB/run" -k 6.1 -s "$1" -f distro -t 900 -c 'kvm.ignore_msrs=1 kvm_amd.nested=0' -a "$binary" -- sh -c '
		uname -r
		echo "version $(cat /sys/module/kvm/version)"
		echo "options $(cat /sys/module/kvm/parameters/ignore_msrs /sys/module/kvm_amd/parameters/nested | paste -sd " ")"
		exec ./'$functional >"$work/$1" 2>&1 || status=$?
	[ "$status" = "$2" ] || { tail -n 15 "$work/$1"; echo "status $status"; return 1; }
}
says() { grep -q "$2" "$work/$1" || { cat "$work/$1"; return 1; }; }

ok "stock: fails" boot stock 1
ok "... at the slot that is logged" says stock '^not ok 1 logged_slot'
ok "... with the packaged modules" says stock '^version $'
ok "... and their options" says stock '^options Y 0$'
ok "patched: passes" boot patched 0
ok "... at the slot that is logged" says patched '^ok 1 logged_slot'
ok "... with modules of this commit" says patched "^version 0\..*g$(git -C "$TOP" rev-parse --short=12 HEAD)"
ok "... and their options" says patched '^options Y 0$'
ok "... on the same kernel" [ "$(grep -x '6\.1\.0-.*' "$work/stock")" = "$(grep -x '6\.1\.0-.*' "$work/patched")" ]
done_testing
