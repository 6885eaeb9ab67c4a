#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# make deb, where the package is used: a root of Debian 12 with a packaged kernel, in which
# apt installs it and DKMS builds the modules; the lab boots that kernel with them. Then
# a newer kernel, a full disk, a build that was killed, and the removal.

. "$(dirname "$0")/../../tools/lab/lib.sh"
. "$LAB/deb.sh"
. "$TOP/tests/tap.sh"

if [ "$(id -u)" != 0 ]; then
	echo '1..0 # SKIP only root can make a root of Debian'
	exit
fi
need mmdebstrap:mmdebstrap unshare:util-linux

deb=$("$LAB/deb" -o "$work/1") || exit
again=$("$LAB/deb" -o "$work/2") || exit
ok "two builds are one file" cmp "$deb" "$again"
version=$(dpkg -f "$deb" Version)
image=$(packaged_image 6.1) || exit
kernel=${image##*/vmlinuz-}
linux=$(source_version 6.1)
# The kernel before it, of another version: what a host has before an upgrade.
(
	apt_open "$work/lists" 6.1
	cp "$apt/sources.list" "$work/sources.list"
	apt_private apt-cache dumpavail | awk '
		$1 == "Package:" { name = $2 }
		$1 == "Version:" && name ~ /^linux-headers-6.1.0-[0-9]+-amd64$/ { print $2, name }' |
		sort -u -V | sed 's/linux-headers-//' | grep -B 1 " $kernel$" | head -n 1 >"$work/older"
) || exit
read -r old_linux old <"$work/older"
diag "$old ($old_linux), then $kernel ($linux)"

root=$work/root
export INITRD=No DEBIAN_FRONTEND=noninteractive
step "making a root of Debian 12" mmdebstrap --variant=minbase --skip=cleanup/apt/lists \
	--include="dkms,kmod,patch,xz-utils,linux-image-$old,linux-headers-$old" bookworm "$root" "$work/sources.list"
cp /etc/resolv.conf "$root/etc"
cp "$deb" "$root/package.deb"

# in_root COMMAND...: its mounts and processes are gone with it.
in_root()
{
	unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" chroot "$root" /usr/bin/env -i \
		PATH=/usr/sbin:/usr/bin:/sbin:/bin INITRD=No DEBIAN_FRONTEND=noninteractive "$@" </dev/null
}
apt() { in_root apt-get -o APT::Sandbox::User=root install -y --no-install-recommends "$@" >"$work/said" 2>&1 || { tail -n 20 "$work/said"; return 1; }; }
says() { grep -qF "$1" "$work/said" || { tail -n 30 "$work/said"; return 1; }; }
updates() { echo "$root/lib/modules/$1/updates/dkms"; }
# is_fixed KERNEL LINUX: all three are there, of that source, next in line, and signed.
is_fixed()
{
	local module

	for module in kvm kvm-intel kvm-amd; do
		[ "$(in_root modinfo -k "$1" -n $module)" = "/lib/modules/$1/updates/dkms/$module.ko" ] &&
			[ "$(in_root modinfo -k "$1" -F version $module)" = "$version" ] &&
			[ "$(in_root modinfo -k "$1" -F linux_package $module)" = "$2" ] &&
			[ "$(in_root modinfo -k "$1" -F signer $module)" = 'DKMS module signing key' ] ||
			{ in_root modinfo -k "$1" $module; return 1; }
	done
}
is_packaged() { [ "$(in_root modinfo -k "$1" -n kvm)" = "/lib/modules/$1/kernel/arch/x86/kvm/kvm.ko" ] && [ ! -e "$(updates "$1")/kvm.ko" ]; }
rebuild() { in_root kvm-nx-recovery rebuild >"$work/said" 2>&1; }
# left: all that a purge has to leave as it was.
left() { (cd "$root" && find usr/src usr/sbin usr/share/man/man8 var/lib/dkms lib/modules ! -name 'mok.*' ! -name 'modules.*' | sort); }

in_root depmod "$old"
left >"$work/before"
cp "$root/lib/modules/$old/modules.dep" "$work/modules.dep"
mkdir -p "$root/lib/modules/6.12.1-amd64/kernel"
# Secure Boot is on, and whether a key is enrolled up to this.
mkdir -p "$root/sys/firmware/efi/efivars"
printf '\6\0\0\0\1' >"$root/sys/firmware/efi/efivars/SecureBoot-1"
ok "apt installs the package" apt "linux-source-6.1=$old_linux" /package.deb
ok "... and says which kernel does not need it" says 'skipping 6.12.1-amd64: Linux 6.12 and later'
ok "... that DKMS's key is to be enrolled first" says 'mokutil --import /var/lib/dkms/mok.pub; reboot'
ok "... which is there" test -s "$root/var/lib/dkms/mok.pub" -a -s "$root/var/lib/dkms/mok.key"
ok "... nothing is built" is_packaged "$old"
printf '#!/bin/sh\necho "$2 is already enrolled"\n' >"$root/usr/bin/mokutil"
chmod +x "$root/usr/bin/mokutil"
ok "rebuild" rebuild
ok "... DKMS has built the modules, and signed them" is_fixed "$old" "$old_linux"
ok "rebuild: nothing to do" rebuild
ok "... it says" says "$old: up to date"
rm -r "$root/lib/modules/6.12.1-amd64"

# A full disk: the modules' folder has no room for them.
full='mount -t tmpfs -o size=1m tmpfs /lib/modules/$0/updates && { kvm-nx-recovery rebuild; echo "status $?"; find /lib/modules/$0/updates -name "*.ko"; }'
full() { rm -rf "$(updates "$old")"; in_root sh -c "$full" "$old" >"$work/said" 2>&1; }
ok "a full disk" full
ok "... is said" says "$old: failed: the packaged modules stay"
ok "... fails" says 'status 1'
ok "... leaves no part of the modules" bash -c '! grep -q "\.ko$" "$0"' "$work/said"

# Killed in the middle, with all that it has started.
killed()
{
	local pid child

	in_root kvm-nx-recovery rebuild >"$work/said" 2>&1 &
	pid=$!
	until [ -n "$(find "$root/var/lib/dkms/kvm-nx-recovery/$version/build/src" -name mmu.o 2>/dev/null)" ]; do
		kill -0 $pid && sleep 0.2 || return
	done
	read -r child <"/proc/$pid/task/$pid/children"
	kill -KILL "$child"
	wait $pid || :
	is_packaged "$old"
}
ok "a build that was killed leaves the packaged modules" killed
ok "... rebuild" rebuild
ok "... makes up for it" is_fixed "$old" "$old_linux"

ok "a newer kernel, with its source" apt "linux-image-$kernel=$linux" "linux-headers-$kernel=$linux" "linux-source-6.1=$linux"
ok "... has the modules as well" is_fixed "$kernel" "$linux"
ok "... the older one keeps its own" is_fixed "$old" "$old_linux"
ok "... and is skipped" says "skipping $old: this kernel's version is $old_linux, that of linux-source-6.1 is $linux"

boot()
{
	local test

	test=$("$LAB/selftests" 6.1 patched nx_huge_pages_dirty_log_test) || return
	"$LAB/run" -k 6.1 -s stock -f distro -t 900 -a "$(updates "$kernel")" -a "$root/usr/sbin/kvm-nx-recovery" -a "$root/bin/kmod" -a "$root/bin/dash" \
		-a "$test" -a "$TOP/tests/guest/kvm_nx_recovery.sh" -- sh kvm_nx_recovery.sh
}
ok "the kernel takes these modules, and the command handles them" boot

ok "purge" in_root apt-get purge -y kvm-nx-recovery-dkms
ok "... leaves nothing" diff "$work/before" <(left | grep -v -e "$kernel" -e "${kernel%-amd64}-common" -e linux-source)
for name in "$old" "$kernel"; do
	ok "... $name has its packaged modules" is_packaged "$name"
done
ok "... as they were" diff "$work/modules.dep" "$root/lib/modules/$old/modules.dep"
done_testing
