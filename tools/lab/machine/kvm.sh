# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# This machine's own virtualization, where it can be nested: fast, and on a real CPU.

# shellcheck source-path=SCRIPTDIR/.. source=qemu.sh
. "$LAB/qemu.sh"

[ -z "$icount" ] || usage_die "-i: a real CPU's clock counts no instructions"
[ -w /dev/kvm ] || usage_die "machine kvm: /dev/kvm is not there, or not this user's"
qemu=(-accel kvm -cpu host)
