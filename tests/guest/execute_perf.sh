#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs in the lab: what execute_perf_test counts, refuses and puts back.
#
#   execute_perf.sh zapped|kept    what is to become of dirty-tracked NX huge pages

test=execute_perf_test
. ./perf.sh

kvm=/sys/module/kvm/parameters
echo force >$kvm/nx_huge_pages
echo 34 >/proc/sys/vm/nr_hugepages

parameters() { cat $kvm/nx_huge_pages_recovery_*; }
before=$(parameters)

measure() { ./execute_perf_test -s anonymous_hugetlb_2mb -b 32M -p 100 -r 1 "$@" >$out 2>&1; }

# Field N of the row NAME: 1 faults, 2 pages_4k, 3 pages_2m, 5 nx_lpage_splits.
field() { sed -n "s/^$1 *: *[0-9.]*s//p" $out | awk -v n="$2" '{ print $n }'; }

# expect NAME N OPERATOR VALUE, the operator being one of test's.
expect()
{
	got=$(field "$1" "$2")
	test "$got" "$3" "$4" || not "$1: field $2 is '$got', not $3 $4"
}

# 16 huge pages in 16 slots, and what 1 in N of them logged leaves of the 4KiB ones.
for log in none all 2; do
	measure -x 16 -d $log || not "-d $log fails"
	case $1-$log in
	kept-all) zapped=0 ;;
	kept-2) zapped=8 ;;
	*) zapped=16 ;;
	esac
	expect 'Populating memory' 3 -ge 16
	expect 'Executing from huge pages' 2 -ge $((16 * 512))
	expect 'Executing from huge pages' 5 -eq 16
	expect 'Executing again' 1 -eq 0
	expect 'Recovering huge pages' 5 -eq 0
	expect 'Recovering huge pages' 2 -lt $(((17 - zapped) * 512))
	expect 'Recovering huge pages' 2 -ge $(((16 - zapped) * 512))
	expect 'Executing after recovery' 1 -eq $((zapped * 512))
	grep -qE '^kvm-nx-lpage-re:se.sum_exec_runtime +: [0-9]+\.[0-9]{6}$' $out || not "no CPU time of the worker"
done
measure -v 2 -x 4 -i 2 -c 0,1 || not "two vCPUs fail"
expect 'Executing from huge pages' 2 -ge $((32 * 512))
expect 'Executing again, 2' 1 -eq 0
measure -v 2 -b 16M -o -x 1 || not "two overlapping vCPUs fail"
expect 'Executing from huge pages' 5 -eq 16

# By the host's own parameters it takes longer than the test waits for.
./execute_perf_test -s anonymous_hugetlb_2mb -b 32M >$out 2>&1 || not "the host's own parameters: fails"
grep -q '^Not waiting for recovery' $out || not "waits for recovery"
! grep -q 'after recovery' $out || not "measures recovery that it did not wait for"
expect 'Executing once more' 1 -eq 0

refuses_vms
refuses 1 '-c needs a CPU' -v 2 -c 0 -b 2M
refuses 1 "can't run on CPU 77" -c 77 -b 2M

# Ended or cut off in the middle, the parameters are as they were.
[ "$(parameters)" = "$before" ] || not "leaves the parameters changed"
for signal in INT TERM; do
	./execute_perf_test -s anonymous_hugetlb_2mb -b 32M -i 1000000 -p 100 -r 7 >$out 2>&1 &
	while kill -0 $! 2>/dev/null && [ "$(cat $kvm/nx_huge_pages_recovery_ratio)" != 0 ]; do
		sleep 0.1
	done
	kill -$signal $! || not "ended by itself"
	wait $!
	[ "$(parameters)" = "$before" ] || not "SIG$signal leaves the parameters changed"
done

# Without privileges for what it is asked to set.
chmod 666 /dev/kvm
su nobody -s /bin/sh -c './execute_perf_test -b 2M -p 100' >$out 2>&1
[ $? = 4 ] && grep -q 'run as root' $out || not "unprivileged with -p: does not skip"
su nobody -s /bin/sh -c './execute_perf_test -b 2M' >$out 2>&1 || not "unprivileged: fails"

exit $failed
