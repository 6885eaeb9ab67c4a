# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# TAP for tests in bash, as prove reads it.

# A folder for the test, gone with it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# prove reads stderr, too, but waits for a line of TAP whenever there is something to read:
# it would begin no other test while this one tells of its progress, or has closed it.
[ -z "${PROVE_STDERR:-}" ] || exec {proves_own}>&2 2>&"$PROVE_STDERR"

tap_nr=0
tap_failed=0

diag() { printf '# %s\n' "$@"; }

# ok NAME COMMAND [ARG]...: the test passes if COMMAND does. Shows what a failed one said.
ok()
{
	local name=$1 said
	shift

	tap_nr=$((tap_nr + 1))
	if said=$("$@" 2>&1); then
		echo "ok $tap_nr - $name"
	else
		tap_failed=$((tap_failed + 1))
		echo "not ok $tap_nr - $name"
		# On stderr, which prove passes on.
		[ -z "$said" ] || tail -n 20 <<<"$said" | sed 's/^/#   /' >&2
	fi
}

# refuses STATUS TEXT COMMAND [ARG]...: COMMAND ends with STATUS and says so in one
# line that holds TEXT, the last one on stderr; before it there may be progress.
refuses()
{
	local want=$1 text=$2 said status=0
	shift 2

	said=$("$@" 2>&1 >/dev/null </dev/null) || status=$?
	[ "$status" = "$want" ] || { echo "status $status, not $want: $said"; return 1; }
	[[ $(tail -n 1 <<<"$said") == *"$text"* ]] || { echo "says: $said"; return 1; }
}

# copy_project FOLDER: a copy of this checkout, edits and all, to be spoiled. Its trees are
# its own: tools/lab/clean there removes them.
copy_project()
{
	mkdir "$1"
	(cd "$TOP" && git ls-files -co --exclude-standard -z | xargs -0 cp -a --parents -t "$1")
	git -C "$1" init -q
}

done_testing()
{
	echo "1..$tap_nr"
	[ "$tap_failed" = 0 ]
}
