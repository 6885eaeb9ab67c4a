#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs in the lab, where the memory controller still has a hierarchy of its own (cgroup
# v1): access_tracking_perf_test ages its memory in a cgroup there, and removes that.

test=access_tracking_perf_test
. ./perf.sh

lru_gen=/sys/kernel/mm/lru_gen/enabled
cgroups=/tmp/cgroups

state()
{
	cat $lru_gen /proc/self/cgroup
	find $cgroups -mindepth 1 -type d
}

umount /sys/fs/cgroup 2>/dev/null
mkdir $cgroups
mount -t cgroup -o memory none $cgroups || not "no hierarchy of the memory controller's own"
[ -d /sys/kernel/debug/kvm ] || mount -t debugfs none /sys/kernel/debug
echo y >$lru_gen
before=$(state)

# Only where the cgroup holds the guest's memory, and ages it, is this the reason.
./access_tracking_perf_test -w off -b 16M >"$out" 2>&1 || not "fails"
grep -q "Mechanism *: page_idle, .*: it doesn't see what a guest accesses" "$out" ||
	not "does not age the guest's memory"
[ "$(state)" = "$before" ] || not "leaves changed: $(state)"

exit "$failed"
