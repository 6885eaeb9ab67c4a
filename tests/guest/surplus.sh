#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs in the lab, ahead of what changes the number of huge pages: surplus ones that are in
# use stay surplus, and do not become the pool's for good.

test=nx_huge_pages_dirty_log_test
. ./perf.sh

pool=/sys/kernel/mm/hugepages/hugepages-2048kB
state() { cat $pool/nr_hugepages $pool/surplus_hugepages; }

echo 0 >$pool/nr_hugepages
echo 4 >$pool/nr_overcommit_hugepages
mkdir /tmp/huge
mount -t hugetlbfs none /tmp/huge
fallocate -l 8M /tmp/huge/file
before=$(state)
[ "$(cat $pool/surplus_hugepages)" = 4 ] || not "no surplus pages: $before"
./$test -t logged_slot >"$out" 2>&1 || not "fails"
[ "$(state)" = "$before" ] || not "leaves the pool changed: $(state)"
rm /tmp/huge/file
[ "$(cat $pool/nr_hugepages)" = 0 ] || not "leaves a larger pool"
echo 0 >$pool/nr_overcommit_hugepages

exit "$failed"
