#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Every shell script of ours passes shellcheck.

. "$(dirname "$0")/../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

need shellcheck:shellcheck git:git
cd "$TOP" || exit
while read -r file; do
	ok "$file" shellcheck -x "$file"
done < <(git ls-files -co --exclude-standard | while read -r file; do
	case $file in
	*.py) ;;
	*.sh) echo "$file" ;;
	*) [ ! -f "$file" ] || ! head -n 1 "$file" | grep -q '^#!/bin/\(ba\)\?sh' || echo "$file" ;;
	esac
done)
done_testing
