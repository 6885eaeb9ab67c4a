#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The bundle has what a server needs, and needs nothing of the server.

. "$(dirname "$0")/../../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

cd "$work" || exit

kernel=$(default_kernel)
bundle() { "$LAB/bundle" -o "$1" "$kernel" >path 2>err || { cat err; return 1; }; }
ok "a bundle" bundle "$work/a.tar.gz"
ok "... says where it is" grep -qx "$work/a.tar.gz" path
ok "... is the same the next time" bash -c '"$0/bundle" -o b.tar.gz "$1" && cmp a.tar.gz b.tar.gz' "$LAB" "$kernel"
ok "... leaves nothing half-written" test "$(echo ./*.tar.gz*)" = "./a.tar.gz ./b.tar.gz"
mkdir server
tar -C server --strip-components=1 -xf a.tar.gz
cd server || exit
ok "the script lists its cases" bash -c '[ "$(env -i PATH=/usr/bin:/bin sh ./measure -l | wc -l)" = 15 ]'
for test in execute_perf_test nx_huge_pages_dirty_log_test access_tracking_perf_test; do
	ok "$test explains itself, without libraries" bash -c '! ldd ./"$0" 2>/dev/null && ./"$0" -h 2>&1 | grep -qi "usage\|skip"' $test
done
ok "it tells which commit it is of" test -s commit
ok "no such kernel" refuses 2 "no such kernel: '5.15'" "$LAB/bundle" 5.15
# As a device would be, which must not be at stake here.
mkfifo "$work/fifo"
ok "another thing than a file in its place" refuses 2 "can't write" "$LAB/bundle" -o "$work/fifo" "$kernel"
ok "... is left there" test -p "$work/fifo"
ok "a folder in its place" refuses 2 "can't write" "$LAB/bundle" -o "$work" "$kernel"
ok "no place for it" refuses 2 "can't write" "$LAB/bundle" -o /proc/none/x.tar.gz "$kernel"
done_testing
