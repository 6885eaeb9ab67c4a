#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs in the lab: what access_tracking_perf_test marks and counts, refuses and puts
# back. Needs 2 CPUs, and memory that ends off a multiple of 64 pages; comes first, while
# the last pages are free. The kernel's own test, if it is here as `kernels_own`, must
# fail where memory ends like that.
#
#   access_tracking.sh lru_gen|page_idle    what is to be used where the multi-gen LRU is on

test=access_tracking_perf_test
. ./perf.sh

lru_gen=/sys/kernel/mm/lru_gen/enabled
cgroups=/tmp/cgroups

measure() { ./access_tracking_perf_test -w off "$@" >$out 2>&1; }

# unit N: 1 tracked units, 2 pages, 3 tails, 4 HugeTLB, 5 off LRU, 6 unread, 7 absent.
unit() { sed -n 's/^Tracked units *: //p' $out | sed 's/[^0-9][^0-9]*/ /g' | awk -v n="$1" '{ print $n + 0 }'; }

# expect WHAT GOT OPERATOR VALUE, the operator being one of test's.
expect() { test "$2" "$3" "$4" || not "$1: '$2', not $3 $4"; }

# form ROUNDS: the lines that others parse, and nothing else among them.
form()
{
	{
		echo 'Testing guest mode: @'
		echo 'guest physical test memory: @'
		echo 'guest physical test memory offset: 0x@'
		echo
		for line in 'Populating memory' 'Writing to populated memory' 'Reading from populated memory'; do
			printf '%-30s: @s\n' "$line"
		done
		i=0
		while [ $((i += 1)) -le "$1" ]; do
			for line in 'Mark memory idle' 'Writing to idle memory' 'Mark memory idle' 'Reading from idle memory'; do
				printf '%-30s: @s\n' "$line"
			done
		done
		echo
	} >/tmp/form
	# The library may have more to say ahead of them.
	sed -e '/^Random seed: /d' -e 's/: [0-9]*\.[0-9]\{9\}s$/: @s/' -e 's/offset: 0x[0-9a-f]*$/offset: 0x@/' \
		-e 's/^\(Testing guest mode\|guest physical test memory\): .*/\1: @/' $out |
		head -n "$(wc -l </tmp/form)" | cmp - /tmp/form || not "the lines are not in their form"
}

# accessed TIMES: each time all units were idle, and nearly none after the guest's access.
accessed()
{
	all=$(unit 1)
	expect 'accesses' "$(grep -c ' units before, ' $out)" -eq "$1"
	sed -n 's/^.*: \([0-9]*\) units before, \([0-9]*\) after.*/\1 \2/p' $out >/tmp/accesses
	while read -r idle still; do
		expect 'idle units' "$idle" -ge $((all - all / 50))
		expect 'still idle' "$still" -le $((all / 50))
	done </tmp/accesses
}

# Up to the last pages. What a machine that has just booted allocates first is there.
last=$(dmesg | sed -n 's/^.*last_pfn = \(0x[0-9a-f]*\) max.*/\1/p' | head -n 1)
[ $((last % 64)) != 0 ] || not "memory ends on a multiple of 64 pages, at $last"
if [ -x kernels_own ]; then
	for mib in 64 128 256; do
		./kernels_own -b ${mib}M >$out 2>&1 || break
	done
	grep -q 'pread from page_idle offset .* failed' $out || not "the kernel's own test does not fail at the last pages"
fi
measure -b 64M || not "64M: fails"
if [ "$(unit 6)" = 0 ]; then
	free=$(awk '$1 == "MemFree:" { print int($2 / 1024) }' /proc/meminfo)
	measure -b $((free * 3 / 4))M || not "most of the memory: fails"
fi
expect 'unreadable pages' "$(unit 6)" -gt 0
expect 'unreadable pages' "$(unit 6)" -lt 64
accessed 2

measure -b 16M || not "4KiB pages: fails"
form 1
expect 'pages' "$(unit 2)" -eq 4096
expect 'tails' "$(unit 3)" -eq 0
expect 'units' $(($(unit 1) + $(unit 5) + $(unit 6))) -eq 4096
accessed 2

measure -b 8M -v 2 -x 4 -r 2 || not "2 vCPUs, 4 slots, 2 rounds: fails"
form 2
expect 'pages of 2 vCPUs' "$(unit 2)" -eq 4096
accessed 4

measure -b 8M -v 2 -o -t 2 -s shmem || not "overlap, 2 threads, shmem: fails"
expect 'pages of overlapping vCPUs' "$(unit 2)" -eq 4096
accessed 2

measure -b 32M -s anonymous_thp || not "THP: fails"
expect 'units and tails' $(($(unit 1) + $(unit 3) + $(unit 5) + $(unit 6))) -eq 8192
expect 'tails of THPs' "$(unit 3)" -ge 7665
accessed 2

# Neither Linux nor we can mark these.
echo 16 >/proc/sys/vm/nr_hugepages
measure -b 32M -s anonymous_hugetlb_2mb
[ $? = 4 ] && grep -q '8192 are HugeTLB' $out || not "HugeTLB: does not skip"

refuses_vms
refuses 1 '-r must be from 1' -r 0
refuses 1 '-t must be from 1' -t 0
refuses 1 '-a has no choice' -a foo
refuses 1 '-w has no choice' -w foo

# state: what a run with the multi-gen LRU on is to put back.
state()
{
	cat $lru_gen $cgroups/cgroup.subtree_control
	find $cgroups -mindepth 1 -type d | sort
	cat /proc/self/cgroup
}

# restores OPTION...: cut off once it has changed that, the test puts it back.
restores()
{
	for signal in INT TERM; do
		./access_tracking_perf_test -b 8M -r 1000000 "$@" >$out 2>&1 &
		while kill -0 $! 2>/dev/null; do
			[ "$(state)" = "$before" ] || ! grep -q '^Mark memory idle' $out || break
			sleep 0.1
		done
		kill -$signal $! || not "$*: ended by itself"
		wait $! 2>/dev/null
		[ "$(state)" = "$before" ] || not "$*: SIG$signal leaves changed: $(state)"
	done
}

refuses 4 'The multi-gen LRU is off' -b 2M -a lru_gen
if [ -e $lru_gen ]; then
	mkdir $cgroups
	mount -t cgroup2 none $cgroups
	[ -d /sys/kernel/debug/kvm ] || mount -t debugfs none /sys/kernel/debug
	echo y >$lru_gen
	before=$(state)

	measure -b 16M || not "with the multi-gen LRU: fails"
	grep -q "Mechanism *: $1, the multi-gen LRU is" $out || not "does not use $1"
	form 1
	expect 'units' $(($(unit 1) + $(unit 5) + $(unit 6))) -ge 4000
	accessed 2
	[ "$(state)" = "$before" ] || not "leaves changed: $(state)"
	restores

	measure -b 8M -a page_idle || not "page_idle with the multi-gen LRU: fails"
	grep -q 'Mechanism *: page_idle, .*off for this run' $out || not "does not turn the multi-gen LRU off"
	accessed 2
	restores -a page_idle

	[ "$1" = lru_gen ] ||
		{ measure -b 8M -a lru_gen; [ $? = 4 ] && grep -q "SKIP: lru_gen can't be used: it doesn't see" $out; } ||
		not "-a lru_gen: does not skip"
	umount /sys/kernel/debug
	measure -b 8M || not "without debugfs: fails"
	grep -q 'Mechanism *: page_idle, .*: there is no /sys/kernel/debug/lru_gen' $out ||
		not "without debugfs: does not use page_idle"
	[ "$(state)" = "$before" ] || not "at last: leaves changed: $(state)"
	echo n >$lru_gen
fi

# Without privileges, and with the files but without the page frames.
unprivileged()
{
	su nobody -s /bin/sh -c './access_tracking_perf_test -b 2M' >$out 2>&1
	[ $? = 4 ] && grep -q "$1" $out || not "unprivileged: does not skip with '$1'"
}
chmod 666 /dev/kvm
unprivileged 'run as root'
chmod 666 /sys/kernel/mm/page_idle/bitmap
chmod 444 /proc/kpageflags
unprivileged 'CAP_SYS_ADMIN'

exit $failed
