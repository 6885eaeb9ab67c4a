# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# An emulated AMD machine: SVM with nested paging, without any hardware for it.
# Its clock runs freely, or counts instructions: then a nanosecond is one.

# shellcheck source-path=SCRIPTDIR/.. source=qemu.sh
. "$LAB/qemu.sh"

qemu=(-accel tcg -cpu max)
if [ -n "$icount" ]; then
	[ "${cpus:-1}" = 1 ] || usage_die "-i counts the instructions of one CPU, not of $cpus"
	cpus=1
	# Nor are the day, and what the CPU's random number generator says, to differ
	# from boot to boot.
	qemu+=(-icount 'shift=0,sleep=off' -rtc 'base=2026-01-01,clock=vm' -seed 1)
fi
