# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# What the tests of the perf tests have in common. Set: test, the name of the test.

failed=0
out=/tmp/out

# not COMPLAINT: note a failure, with what the test said.
not()
{
	echo "$test: $1"
	tail -n 20 $out
	failed=1
}

# refuses STATUS TEXT OPTION...: one line on stderr.
refuses()
{
	status=0 want=$1 text=$2
	shift 2
	"./$test" "$@" >/dev/null 2>$out || status=$?
	[ $status = "$want" ] && [ "$(wc -l <$out)" = 1 ] && grep -q -e "$text" $out ||
		not "$*: status $status"
}

# What makes no VM, by the options that all of them have.
refuses_vms()
{
	refuses 1 '-v must be from 1' -v 0
	refuses 1 '-v must be a number' -v -1
	refuses 1 '-v must be from 1' -v 99999999
	refuses 1 '-x must be from 1' -x 0
	refuses 1 '-x must be from 1' -x 100000
	refuses 1 '-b must be more' -b 0
	refuses 1 '-b must be a size' -b 12q
	refuses 1 '-b must be a size' -b 99999999T
	refuses 1 'multiple of' -b 10M -x 3
	refuses 1 'multiple of' -b 3M -s anonymous_hugetlb_2mb
	refuses 1 'fit into' -b 64G
	refuses 1 'no backing source' -s foo
	refuses 1 'belongs to no option' 17
	refuses 4 'free huge pages, .*nr_hugepages' -b 4G -s anonymous_hugetlb_1gb
	refuses 4 'guest mode' -m 99
}
