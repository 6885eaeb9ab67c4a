# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# An emulated Intel machine: VMX with EPT, and a CPU that has the erratum which the
# NX huge pages are for. One CPU; its clock always counts instructions.
# Without a sound card, Debian's Bochs crashes unless told to use none.

need bochs:bochs /usr/share/bochs/BIOS-bochs-latest:bochsbios /usr/share/vgabios/vgabios.bin:vgabios \
	/usr/lib/ISOLINUX/isolinux.bin:isolinux /usr/lib/syslinux/modules/bios/ldlinux.c32:syslinux-common \
	xorriso:xorriso
[ "${cpus:-1}" = 1 ] || usage_die "machine intel has one CPU, not $cpus"
cpus=1

machine_prepare()
{
	local cd=$work/cd

	mkdir "$cd"
	cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 "$cd"
	ln "$image" "$cd/linux" 2>/dev/null || cp "$image" "$cd/linux"
	mv "$work/initrd" "$cd/initrd"
	# The serial console is slow: warnings and worse only. A panic's restart by
	# triple fault ends the emulator, any other would begin all over again. Bit 28 is
	# hyperthreading: that CPU tells of more threads than it has, which kernels since
	# 6.9 warn of.
	cat >"$cd/isolinux.cfg" <<END
default linux
label linux
kernel linux
append initrd=initrd $cmdline loglevel=5 reboot=t clearcpuid=28
END
	xorriso -as mkisofs -quiet -o "$work/cd.iso" -b isolinux.bin -c boot.cat -no-emul-boot \
		-boot-load-size 4 -boot-info-table "$cd" 2>"$work/xorriso.log" ||
		die "can't make a boot image: $(tail -n 1 "$work/xorriso.log")"
	rm -rf "$cd"
	cat >"$work/bochsrc" <<END
cpu: model=broadwell_ult, count=1, ips=100000000, reset_on_triple_fault=0
clock: sync=none, time0=utc
megs: $memory
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.bin
display_library: rfb, options="timeout=0"
boot: cdrom
ata0-master: type=cdrom, path="$work/cd.iso", status=inserted
com1: enabled=1, mode=file, dev=$console
com2: enabled=1, mode=file, dev=$stdout
com3: enabled=1, mode=file, dev=$stderr
com4: enabled=1, mode=file, dev=$result
sound: driver=dummy
log: $work/bochs.log
panic: action=fatal
error: action=ignore
info: action=ignore
END
	echo c >"$work/debugger"
	emulator=(bochs -q -f "$work/bochsrc" -rc "$work/debugger")
}
