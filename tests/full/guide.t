#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What the lab's guide has a reader paste into a shell does what it says.

. "$(dirname "$0")/../../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

guide=$TOP/Documentation/lab.rst
copy_project "$work/clone"
cd "$work/clone" || exit
# Linux as a reader has it: a git tree.
git clone -q --shared -b base "$("$LAB/tree" 6.1 stock)" linux 2>/dev/null

# example NR: run the literal block with that number, as one script.
example()
{
	awk -v wanted="$1" '
		/::$/ { nr++; next }
		nr == wanted && /^    / { print substr($0, 5); shown = 1; next }
		shown && NF { exit }
		nr == wanted { print "" }' "$guide" >"example$1"
	bash -eux "example$1" >out
}
ok "the guide has three examples" test "$(grep -c '::$' "$guide")" = 3
ok "a test of one's own" example 1
ok "... prints what it is said to" grep -qx 'API 12' out
ok "a change of one's own" example 2
ok "... is in the kernel that runs" grep -q 'my own KVM' out
ok "the shadow MMU" example 3
ok "... prints what it is said to" grep -qx N out
tools/lab/clean
done_testing
