# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# An emulated AMD machine: SVM with nested paging, without any hardware for it.
# Its clock runs freely, or counts instructions: then a nanosecond is one.

need qemu-system-x86_64:qemu-system-x86
if [ -n "$icount" ]; then
	[ "${cpus:-1}" = 1 ] || usage_die "-i counts the instructions of one CPU, not of $cpus"
	cpus=1
fi

# On a busy host the emulated timer is late enough for the kernel to think it broken:
# no_timer_check.
machine_prepare()
{
	emulator=(qemu-system-x86_64 -accel tcg -cpu max -smp "$cpus" -m "${memory}M"
		-nodefaults -no-user-config -display none -no-reboot
		-kernel "$image" -initrd "$work/initrd" -append "no_timer_check $cmdline")
	[ -z "$icount" ] || emulator+=(-icount 'shift=0,sleep=off')
	emulator+=(-serial "file:$console" -serial "file:$stdout" -serial "file:$stderr"
		-serial "file:$result")
}
