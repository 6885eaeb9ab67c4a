#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What make modules refuses, and what the script that builds them, here and by DKMS, makes
# sure of. The compiler's part is played by a stub: tests/full/deb.t builds real ones.

. "$(dirname "$0")/../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

need xz:xz-utils patch:patch
unset KDIR

modules=$LAB/modules
kernel=6.1.0-57-amd64
for tool in modules deb; do
	ok "$tool -h" bash -c '"$0" -h | grep -q ^usage:' "$LAB/$tool"
	ok "$tool with a wrong option" bash -c '"$0" -Z 2>/dev/null; [ $? = 2 ]' "$LAB/$tool"
	ok "$tool for a tree of one's own" refuses 2 "KDIR: the modules are made of" env KDIR=/ "$LAB/$tool"
done
ok "deb to where it can't be" refuses 2 "can't write to /proc/x" "$LAB/deb" -o /proc/x
for name in 6.12.117+deb12-amd64 6.18.1 6.20.0 7.3.4+deb13-amd64 10.1; do
	ok "$name needs no modules" refuses 2 "$name: Linux 6.12 and later" "$modules" "$name"
done
for name in 6.1.0-57-cloud-amd64 6.1.0-1025-oem 6.1.192 6.1.0-57-amd64-mine 6.1.0--amd64; do
	ok "$name is another's" refuses 2 "$name: this is not a kernel of Debian 12" "$modules" "$name"
done
for name in 5.10.0-28-amd64 6.2.0-1-amd64 6.11.10; do
	ok "$name is not 6.1" refuses 2 "$name: this Linux is not 6.1" "$modules" "$name"
done

# What is installed, as dpkg-query tells it.
mkdir "$work/bin"
cat >"$work/bin/dpkg-query" <<'END'
#!/bin/sh
for package; do :; done
sed -n "s/^$package //p" "$(dirname "$0")/installed" | grep .
END
chmod +x "$work/bin/dpkg-query"
suits() { PATH=$work/bin:$PATH "$TOP/tools/dkms/suits" "$@"; }
has() { printf '%s\n' "$@" >"$work/bin/installed"; }
has
ok "no headers" refuses 1 "linux-headers-$kernel is not installed" suits $kernel
has "linux-headers-$kernel installed 6.1.192-3"
ok "no source" refuses 1 "that of linux-source-6.1 is unknown" suits $kernel
has "linux-headers-$kernel installed 6.1.192-3" 'linux-source-6.1 installed 6.1.190-1'
ok "the source of another version" refuses 1 "is 6.1.192-3, that of linux-source-6.1 is 6.1.190-1" suits $kernel
has "linux-headers-$kernel config-files 6.1.192-3" 'linux-source-6.1 installed 6.1.192-3'
ok "headers that were removed" refuses 1 "is not installed" suits $kernel
has "linux-headers-$kernel installed 6.1.192-3" 'linux-source-6.1 unpacked 6.1.192-3'
ok "the source, if only unpacked" [ "$(suits $kernel)" = 6.1.192-3 ]

# Secure Boot
mkdir -p "$work/sys/firmware/efi/efivars"
secure_boot() { printf '\6\0\0\0%b' "\\0$1" >"$work/sys/firmware/efi/efivars/SecureBoot-1"; }
mokutil() { printf '#!/bin/sh\necho "$2 is %s"\n' "$1" >"$work/bin/mokutil"; chmod +x "$work/bin/mokutil"; }
export SYSFS_ROOT=$work
secure_boot 1
mokutil 'not enrolled'
ok "Secure Boot without DKMS's key" refuses 1 "mokutil --import /var/lib/dkms/mok.pub; reboot" suits $kernel
mokutil 'already enrolled'
ok "... and with it" suits $kernel
mokutil 'not enrolled'
secure_boot 0
ok "Secure Boot is off" suits $kernel

# A source with a line for the series to change, and headers with two symbols of kvm.
build=$work/build
mkdir -p "$build" "$work/headers" "$work/linux-source-6.1"/{arch/x86/kvm/{vmx,svm},virt/kvm}
cp "$TOP/tools/dkms/build" "$build"
echo 0.1 >"$build/version"
(
	cd "$work/linux-source-6.1" || exit
	echo 'include $(srctree)/virt/kvm/Makefile.kvm' >arch/x86/kvm/Makefile
	echo old >arch/x86/kvm/mmu.c
	touch arch/x86/kvm/vmx/vmx.c arch/x86/kvm/svm/svm.c virt/kvm/kvm_main.c
)
tar -C "$work" -cJf "$work/source.tar.xz" linux-source-6.1
printf -- '--- a/arch/x86/kvm/mmu.c\n+++ b/arch/x86/kvm/mmu.c\n@@ -1 +1 @@\n-old\n+new\n' >"$build/series.patch"
symvers() { printf '%s\t%s\t%s\tEXPORT_SYMBOL_GPL\t\n' "$@"; }
symvers 0x11 kvm_a arch/x86/kvm/kvm 0x22 kvm_b arch/x86/kvm/kvm 0x33 other drivers/other >"$work/headers/Module.symvers"
# The compiler: it wants the series, the version and the Makefile as they have to be.
cat >"$work/bin/make" <<'END'
#!/bin/sh
for arg; do
	case $arg in
	M=*) cd "${arg#M=}" ;;
	esac
done
grep -qx new mmu.c && grep -q '^include $(src)/../../../virt/kvm/' Makefile &&
	grep -q '^MODULE_VERSION("0.1")' vmx/vmx.c svm/svm.c ../../../virt/kvm/kvm_main.c || exit
cp "$SYMVERS" Module.symvers
touch kvm.ko kvm-intel.ko kvm-amd.ko
END
printf '#!/bin/sh\n' >"$work/bin/strip"
chmod +x "$work/bin"/*
export SYMVERS=$work/symvers
build() { PATH=$work/bin:$PATH "$build/build" "$work/headers" 6.1.192-3 <"$work/source.tar.xz"; }
# refuses_build TEXT: refused, and there are no modules.
refuses_build() { refuses 1 "$1" build && [ -z "$(find "$build" -maxdepth 1 -name '*.ko')" ]; }
symvers 0x22 kvm_b "$work/kvm" 0x11 kvm_a "$work/kvm" >"$SYMVERS"
ok "the CRCs are the packaged ones" build
ok "... and the modules are there" [ -e "$build/kvm.ko" ]
ok "... without their source" [ ! -e "$build/src" ]
symvers 0x22 kvm_b "$work/kvm" 0x12 kvm_a "$work/kvm" >"$SYMVERS"
ok "a CRC differs" refuses_build '1 symbols have another CRC than in the packaged kvm.ko, or only one of both has them: kvm_a'
symvers 0x22 kvm_b "$work/kvm" >"$SYMVERS"
ok "a symbol is missing" refuses_build 'only one of both has them: kvm_a'
symvers 0x22 kvm_b "$work/kvm" 0x11 kvm_a "$work/kvm" 0x44 kvm_c "$work/kvm" >"$SYMVERS"
ok "a symbol is new" refuses_build 'only one of both has them: kvm_c'
: >"$SYMVERS"
ok "nothing is exported" refuses_build '2 symbols have another CRC'
sed -i s/-old/-older/ "$build/series.patch"
ok "the series does not apply" refuses_build 'the series does not apply to Linux 6.1.192-3'
echo broken >"$work/source.tar.xz"
ok "no source to unpack" refuses_build "the source of KVM can't be unpacked"
done_testing
