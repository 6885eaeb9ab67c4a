#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The KUnit suite catches every single-token change of the policy. The suite is built
# for userspace, once for each, against tests/shim.

. "$(dirname "$0")/../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

need gcc:gcc /usr/include/stdio.h:libc6-dev

header=arch/x86/kvm/mmu/nx_recovery.h
suite=lib/kvm_nx_recovery_kunit.c

# The changes that change nothing, with the reason. One that is no longer made is an error.
equivalent=(
	'		if (ratio >= 3600)'	# 3600 becomes 3600
	'		if (ratio > 3599)'	# the same
	'			ratio = 3599;'	# 3600000 / 3599 is 1000, too
	'		period_ms += 3600 * 1000 / ratio;'	# to what is zero
	'		period_ms |= 3600 * 1000 / ratio;'
	'		return 0;'		# other names for false and true
	'	return 1;'
	'	return ~(true);'
	# What narrows the flags still has bit 0, and that is the one which counts.
	'static inline bool should_recover_nx_page(__u16 slot_flags)'
	'static inline bool should_recover_nx_page(__u8 slot_flags)'
)

# build_and_run FOLDER: 0 if the suite passes with the header in FOLDER, 1 if it
# fails, crashes or hangs, 2 if that header does not compile.
build_and_run()
{
	gcc -w -O1 -pipe -I "$TOP/tests/shim" \
		-o "$1/suite" "$1/$suite" 2>/dev/null || return 2
	# The shell has a word for a crash, which is as good as any failure.
	{ timeout 10 "$1/suite" || return 1; } >/dev/null 2>&1
}

# A folder with the suite and a header that reads TEXT in line LINE.
mutate()
{
	mkdir -p "$1/lib" "$1/${header%/*}"
	cp "$TOP/$suite" "$1/lib/"
	awk -v line="$2" -v text="$3" 'NR == line { $0 = text } { print }' "$TOP/$header" >"$1/$header"
}

one()
{
	local status=0

	mutate "$work/$1" "$2" "$3"
	build_and_run "$work/$1" || status=$?
	printf '%s\t%s\t%s\n' "$status" "$2" "$3" >"$work/$1.result"
	rm -rf "${work:?}/$1"
}

mkdir "$work/plain"
cp -r --parents -t "$work/plain" "$TOP/$suite" "$TOP/$header" 2>/dev/null
mutate "$work/plain" 0 ''
ok "the suite passes in userspace, unchanged" build_and_run "$work/plain"

awk -f "$TOP/tests/mutants.awk" "$TOP/$header" >"$work/list"
nr=0
while IFS= read -r change; do
	nr=$((nr + 1))
	one "$nr" "${change%%$'\t'*}" "${change#*$'\t'}" &
	[ $((nr % $(nproc))) != 0 ] || wait
done <"$work/list"
wait

caught=$(cat "$work"/*.result | grep -c '^1' || :)
invalid=$(cat "$work"/*.result | grep -c '^2' || :)
diag "$nr changes: $caught caught, $invalid do not compile, ${#equivalent[@]} are equivalent"
ok "there are changes to catch" [ "$caught" -gt 100 ]

# A change that is not caught is one of the equivalent ones, and each of those is there.
cat "$work"/*.result | sed -n 's/^0\t//p' >"$work/survivors"
printf '%s\n' "${equivalent[@]}" >"$work/equivalent"
new=$(cut -f 2- "$work/survivors" | grep -vxFf "$work/equivalent" || :)
[ -z "$new" ] || grep -F "$new" "$work/survivors" | sed "s,^,# survived: $header:,"
ok "no change survives" [ -z "$new" ]
ok "each equivalent change is made, and changes nothing" \
	[ -z "$(grep -vxFf <(cut -f 2- "$work/survivors") "$work/equivalent")" ]

done_testing
