#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs in the lab on a packaged kernel: the package's command, with modules that DKMS has
# built, and real ones to unload and load. They are in dkms/, next to this.

failed=0
kernel=$(uname -r)
kvm=/sys/module/kvm/parameters
updates=/lib/modules/$kernel/updates

# not COMPLAINT
not() { echo "not: $1"; failed=1; }

# says STATUS TEXT COMMAND...
says()
{
	status=0 want=$1 text=$2
	shift 2
	"$@" >/tmp/said 2>&1 || status=$?
	[ $status = "$want" ] && grep -q -e "$text" /tmp/said || { not "$*: status $status"; cat /tmp/said; }
}

# logged_slot keeps|zaps: what the loaded modules do.
logged_slot()
{
	./nx_huge_pages_dirty_log_test >/tmp/said 2>&1
	case $1 in
	keeps) ! grep '^not ok' /tmp/said && grep -q '^ok 1 logged_slot' /tmp/said || { not 'the functional test fails'; cat /tmp/said; } ;;
	zaps) grep -q '^not ok 1 logged_slot' /tmp/said || { not 'the functional test does not fail'; cat /tmp/said; } ;;
	esac
}

# A host's tools, not busybox' own of the same names, which its shell takes first.
for name in modprobe insmod modinfo depmod; do
	ln -s kmod $name
done
mkdir -p /etc/modprobe.d
echo 'options kvm_amd nested=1' >/etc/modprobe.d/kvm.conf

says 0 '^loaded: *packaged$' ./dash ./kvm-nx-recovery status
says 1 'there are no fixed modules' ./dash ./kvm-nx-recovery reload
mkdir "$updates"
cp -r dkms "$updates"
./depmod
says 0 '^next load: *fixed' ./dash ./kvm-nx-recovery status
echo 7 >$kvm/nx_huge_pages_recovery_ratio
sh -c "exec 3</dev/kvm; exec sleep 1000" &
until [ -e /proc/$!/fd/3 ]; do
	kill -0 $! || break
done
says 1 'in use: a process has /dev/kvm open' ./dash ./kvm-nx-recovery reload
kill $!
wait $!
says 0 'loaded: fixed' ./dash ./kvm-nx-recovery reload
says 0 '^loaded: *fixed' ./dash ./kvm-nx-recovery status
grep -qx 7 $kvm/nx_huge_pages_recovery_ratio || not 'the ratio is lost'
logged_slot keeps
says 0 'loaded: packaged' ./dash ./kvm-nx-recovery revert
[ ! -e /sys/module/kvm/version ] || not 'still the fixed modules'
grep -qx '[1Y]' /sys/module/kvm_amd/parameters/nested || not 'an option is lost'
logged_slot zaps

# What can't be loaded
head -c 100000 dkms/kvm-amd.ko >"$updates/dkms/kvm-amd.ko"
says 1 'going back to the packaged ones' ./dash ./kvm-nx-recovery reload
says 0 '^loaded: *packaged' ./dash ./kvm-nx-recovery status
[ -e /sys/module/kvm_amd ] && [ ! -e /sys/module/kvm/version ] || not 'the packaged modules are not back'
grep -qx 7 $kvm/nx_huge_pages_recovery_ratio || not 'the ratio is lost at last'
exit $failed
