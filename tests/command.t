#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The package's command, kvm-nx-recovery: what it says, refuses, and does when a step
# fails. Modules, and what handles them, are stand-ins in a folder of the test's.

. "$(dirname "$0")/../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

export SYSFS_ROOT=$work/root
root=$SYSFS_ROOT
kernel=6.1.0-57-amd64
sys=$root/sys/module
mkdir "$work/bin"
PATH=$work/bin:$PATH
command() { sh "$TOP/tools/dkms/kvm-nx-recovery" "$@"; }

# stub NAME: a program, its lines on stdin.
stub() { { echo "#!/bin/bash"; echo "k=$kernel"; cat "$work/stubs"; cat; } >"$work/bin/$1"; chmod +x "$work/bin/$1"; }
cat >"$work/stubs" <<'END'
sys=$SYSFS_ROOT/sys/module
echo "${0##*/} $*" >>"$SYSFS_ROOT/calls"
# loads MODULE VERSION
loads()
{
	mkdir -p "$sys/$1/parameters" "$sys/$1/holders"
	echo live >"$sys/$1/initstate"
	echo 0 >"$sys/$1/refcnt"
	rm -f "$sys/$1/version"
	[ -z "$2" ] || echo "$2" >"$sys/$1/version"
	[ "$1" != kvm ] || { echo N >"$sys/kvm/parameters/nx_huge_pages"; echo 60 >"$sys/kvm/parameters/nx_huge_pages_recovery_ratio"; echo 0 >"$sys/kvm/parameters/nx_huge_pages_recovery_period_ms"; chmod 644 "$sys"/kvm/parameters/*; }
	[ "$1" != kvm_amd ] || touch "$SYSFS_ROOT/dev/kvm"
}
fails() { [ -e "$SYSFS_ROOT/fail-$1" ]; }
END
stub uname <<'END'
echo $k
END
stub modinfo <<'END'
cat "$SYSFS_ROOT/next"
END
stub modprobe <<'END'
case $1 in
-r)
	! fails "unload-$2" || exit
	rm -rf "${sys:?}/$2"
	[ "$2" = kvm ] || rm -f "$SYSFS_ROOT/dev/kvm" ;;
--show-depends)
	echo "insmod /lib/modules/$k/kernel/virt/lib/irqbypass.ko"
	echo "insmod /lib/modules/$k/updates/dkms/kvm.ko ignore_msrs=1"
	echo "insmod /lib/modules/$k/updates/dkms/kvm-amd.ko nested=0" ;;
*)
	[ ! -e "$sys/$1" ] || exit 0
	loads irqbypass ''
	next=$(cat "$SYSFS_ROOT/next")
	if fails kvm-version; then loads kvm older; else loads kvm "$next"; fi
	! fails load || exit
	if fails version; then loads "$1" older; else loads "$1" "$next"; fi
	! fails device || rm "$SYSFS_ROOT/dev/kvm" ;;
esac
END
stub insmod <<'END'
! fails insmod || exit
name=$(basename "$1" .ko | tr - _)
case $1 in
*/updates/*) loads "$name" "$(cat "$SYSFS_ROOT/next")" ;;
*) loads "$name" '' ;;
esac
END

# host: with the packaged modules loaded, and fixed ones installed.
host()
{
	rm -rf "$root"
	mkdir -p "$root"/{dev,proc/1/fd,sys/devices/system/cpu/vulnerabilities}
	echo 'flags		: fpu svm lm' >"$root/proc/cpuinfo"
	echo 'Not affected' >"$root/sys/devices/system/cpu/vulnerabilities/itlb_multihit"
	: >"$root/next"
	modprobe kvm_amd
	echo 0.2 >"$root/next"
	: >"$root/calls"
}
versions() { [ "$(cat "$sys/kvm/version" 2>/dev/null) $(cat "$sys/kvm_amd/version" 2>/dev/null)" = "$1 $1" ] && [ -e "$root/dev/kvm" ]; }
untouched() { ! grep -q -e 'modprobe -r' -e insmod "$root/calls"; }
status_says() { command status | grep -qx "$1"; }

ok "no command" refuses 2 'each change of kernels calls it' command
ok "an unknown command" refuses 2 'each change of kernels calls it' command reboot

host
ok "status: packaged" status_says 'loaded: *packaged'
ok "... the next is not" status_says 'next load: *fixed, 0.2'
ok "... the mitigation" status_says 'itlb_multihit: *Not affected'
ok "... recovery" status_says 'recovery: *ratio 60, period 0 ms'
ok "... no VMs" status_says 'VMs: *0'
ok "... changes nothing" untouched
rm -r "$sys"/kvm*
ok "status: none" status_says 'loaded: *none'
mkdir "$sys/kvm"
ok "status: built-in" status_says 'loaded: *built-in'
ok "built-in: no reload" refuses 1 "KVM is built into this kernel" command reload

host
echo 7 >"$sys/kvm/parameters/nx_huge_pages_recovery_ratio"
ok "reload" command reload
ok "... loads the fixed modules" versions 0.2
ok "... with what was set" [ "$(cat "$sys/kvm/parameters/nx_huge_pages_recovery_ratio")" = 7 ]
ok "... and status says so" status_says 'loaded: *fixed, 0.2'
echo older >"$sys/kvm_amd/version"
ok "status: one module is another" status_says ' *but kvm_amd is fixed, older'
host
command reload 2>/dev/null
ok "revert" command revert
ok "... loads the packaged modules" versions ''
ok "... from their place, with their options" grep -qx "insmod $root/lib/modules/$kernel/kernel/arch/x86/kvm/kvm-amd.ko nested=0" "$root/calls"

# In use
host
ln -s anon_inode:kvm-vm "$root/proc/1/fd/7"
ok "a VM runs" refuses 1 '1 VMs are running' command reload
ok "... and stays" untouched
ok "... status counts it" status_says 'VMs: *1'
ok "a VM runs: no revert" refuses 1 '1 VMs are running' command revert
host
echo 1 >"$sys/kvm_amd/refcnt"
ok "/dev/kvm is open" refuses 1 'kvm_amd is in use' command reload
ok "... and stays" untouched
host
mkdir "$sys/kvm/holders/kvmgt"
ok "another module uses it" refuses 1 'kvm is in use by the module kvmgt' command reload
ok "... and stays" untouched
host
: >"$root/next"
ok "no fixed modules" refuses 1 "there are no fixed modules for $kernel" command reload
ok "... nothing is unloaded" untouched
host
sed -i 's/ svm//' "$root/proc/cpuinfo"
ok "no virtualization" refuses 1 'this CPU has no virtualization' command reload

# What fails
host
touch "$root/fail-unload-kvm_amd"
ok "can't unload" refuses 1 "can't unload the modules that are loaded: still packaged" command reload
ok "... they are still there" versions ''
for what in load version kvm-version device; do
	host
	echo 7 >"$sys/kvm/parameters/nx_huge_pages_recovery_ratio"
	touch "$root/fail-$what"
	ok "$what fails" refuses 1 'going back to the packaged ones' command reload
	ok "... the packaged ones are loaded" versions ''
	ok "... with what was set" [ "$(cat "$sys/kvm/parameters/nx_huge_pages_recovery_ratio")" = 7 ]
done
touch "$root/fail-insmod"
ok "all fails" refuses 1 "can't load the packaged modules either: see dmesg" command reload
done_testing
