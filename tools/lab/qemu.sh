# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# What the machines that QEMU makes have in common. They say what $qemu is.

need qemu-system-x86_64:qemu-system-x86

machine_prepare()
{
	emulator=(qemu-system-x86_64 "${qemu[@]}" -smp "$cpus" -m "${memory}M"
		-nodefaults -no-user-config -display none -no-reboot
		-kernel "$image" -initrd "$work/initrd" -append "$cmdline"
		-serial "file:$console" -serial "file:$stdout" -serial "file:$stderr"
		-serial "file:$result")
}
