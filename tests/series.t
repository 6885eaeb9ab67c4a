#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The series mechanism: trees, patches, refresh. Each base is cut down to the files that
# its edits touch, and given as KDIR, so that a tree takes no time.

. "$(dirname "$0")/../tools/lab/lib.sh"
. "$TOP/tools/lab/series.sh"
. "$TOP/tests/tap.sh"

need git:git quilt:quilt python3:python3

# Its path has a space on purpose.
clone="$work/a clone"
fresh_clone()
{
	rm -rf "$clone"
	copy_project "$clone"
	git -C "$clone" add -A
	git -C "$clone" -c user.name=t -c user.email=t@localhost commit -qm clone
}

# What `git status` says of the clone: nothing, if nothing changed.
changes() { git -C "$clone" status --porcelain; }

tree() { (cd / && "$clone/tools/lab/tree" "$@" 2>/dev/null); }
refresh() { "$clone/tools/lab/refresh" "$@" >/dev/null 2>&1; }

git_in() { git -C "$1" -c user.name=t -c user.email=t@localhost "${@:2}"; }

# The kernel files that the series edits for BASE, and what makes them a kernel.
cut_down()
{
	local tree files

	tree=$("$LAB/tree" "$1" 2>/dev/null)
	mapfile -t files < <(cat "$TOP"/series/*/{all,"$1"}.patch 2>/dev/null | sed -n 's,^--- a/,,p' | sort -u)
	mkdir -p "$work/src/$1"
	git -C "$tree" archive base -- Makefile .gitignore arch/x86/kvm/mmu/mmu.c "${files[@]}" |
		tar -x -C "$work/src/$1"
}

for base in $KERNELS; do
	cut_down "$base"
done
fresh_clone
export XDG_CACHE_HOME=$work/cache

for base in $KERNELS; do
	export KDIR=$work/src/$base
	find "$KDIR" -type f -exec sha256sum {} + | sort >"$work/kdir.$base"

	t=$(tree "$base") || :
	ok "$base: a tree" test -d "$t/.git" -o -f "$t/.git"
	commits() { git -C "$t" log --reverse --format=%s base..; }
	subjects()
	{
		local folder

		while read -r folder; do
			[ -z "$(series_edits "$folder" "$base")$(series_files "$folder" "$base")" ] ||
				head -n 1 "$(series_message "$folder" "$base")"
		done < <(series_folders)
	}
	ok "$base: has one commit per folder" diff <(subjects) <(commits)
	ok "$base: KDIR is as it was" diff "$work/kdir.$base" <(find "$KDIR" -type f -exec sha256sum {} + | sort)

	head=$(git -C "$t" rev-parse HEAD)
	ok "$base: refresh of an unchanged tree" refresh "$base"
	ok "$base: ... leaves all as it was" test -z "$(changes)"
	ok "$base: ... and the tree, too" test "$head" = "$(git -C "$t" rev-parse HEAD)"

	# The round trip: without its edits, the series is made again from the tree, and
	# the tree from that.
	rm -f "$clone"/series/*/{all,"$base"}.patch "$clone"/series/*/message*
	for folder in "$clone"/series/*/; do
		git -C "$clone" show "HEAD:series/$(basename "$folder")/message" >"$folder/message"
	done
	ok "$base: refresh of a series without edits" refresh "$base"
	ok "$base: ... makes the same tree again" \
		test "$(git -C "$t" rev-parse "$head^{tree}")" = "$(git -C "$(tree "$base")" rev-parse 'HEAD^{tree}')"
	git -C "$clone" checkout -q .
	git -C "$clone" clean -fdq
	tree -f "$base" >/dev/null

	export GIT_AUTHOR_NAME='A. Reviewer' GIT_AUTHOR_EMAIL=reviewer@localhost
	export GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL
	ok "$base: patches" "$clone/tools/lab/patches" "$base" "$work/patches.$base"
	git clone -q --shared "$t" "$work/am.$base" 2>/dev/null
	git -C "$work/am.$base" checkout -q --detach "$(git -C "$t" rev-parse base)"
	ok "$base: git am takes them" git -C "$work/am.$base" am -q --empty=drop "$work/patches.$base"/*.patch
	ok "$base: ... and the tree is the one that was tested" \
		test "$(git -C "$t" rev-parse "$head^{tree}")" = "$(git -C "$work/am.$base" rev-parse 'HEAD^{tree}')"
	ok "$base: each is signed off by its author" \
		test "$(grep -lx 'Signed-off-by: A. Reviewer <reviewer@localhost>' "$work/patches.$base"/*.patch | wc -l)" = \
		"$(commits | wc -l)"

	cover=$work/patches.$base/0000-cover-letter.patch
	ok "$base: the cover letter has all places filled in" bash -c '! grep -F "***" "$1"' "$0" "$cover"
	ok "$base: ... the base's version" grep -qx "The series is on top of Linux $(kernel_version "$KDIR")\." "$cover"
	ok "$base: ... a diffstat" grep -q '^ arch/x86/kvm/mmu/nx_recovery.h *| ' "$cover"
	ok "$base: ... no results, where there are none" bash -c '! grep -q execute_perf_test\ on "$1"' "$0" "$cover"

	git -C "$work/am.$base" checkout -q --detach "$(git -C "$t" rev-parse base)"
	ok "$base: quilt takes them" env -C "$work/am.$base" QUILT_PATCHES="$work/patches.$base" quilt --quiltrc - push -aq
	ok "$base: ... and the tree is the same" env -C "$work/am.$base" bash -c '
		rm -rf .pc && git add -A -f && [ "$(git write-tree)" = "$1" ]' "$0" "$(git -C "$t" rev-parse "$head^{tree}")"
	unset GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL
done

# From here on one base is enough.
base=6.12
export KDIR=$work/src/$base
t=$(tree "$base")

# Recorded results are quoted, the newest ones of this very version, and nothing else.
patches() { GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@localhost GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@localhost "$clone/tools/lab/patches" "$@"; }
# record FOLDER VERSION CASE: the report's test data, as of that version, with that case.
record()
{
	local run

	for run in stock-1 patched-1; do
		mkdir -p "$clone/results/$1/$run"
		sed "s/\"version\": .*/\"version\": \"$2\",/" "$TOP/tests/report/$run/run.json" >"$clone/results/$1/$run/run.json"
		sed "s/seed-all/$3/" "$TOP/tests/report/$run/output" >"$clone/results/$1/$run/output"
	done
	echo '{}' >"$clone/results/$1/results.json"
}
version=$(kernel_version "$KDIR")
record new "$version" the-case
record newer 5.15 not-this-one
ok "results of another version are not quoted" patches "$base" "$work/quoting"
ok "... those of this one are" grep -q '^| the-case ' "$work/quoting/0000-cover-letter.patch"
ok "... and no others" bash -c '! grep -q not-this-one "$1"' "$0" "$work/quoting/0000-cover-letter.patch"
record broken "$version" broken-case
: >"$clone/results/broken/patched-1/output"
ok "a broken one is passed over" patches "$base" "$work/quoting"
ok "... and the older one taken" grep -q '^| the-case ' "$work/quoting/0000-cover-letter.patch"
rm -rf "$clone/results"

# A new commit makes a folder, with its new file and its edit, at its place.
echo '/* new */' >"$t/lib/new.c"
echo 'obj-y += new.o' >>"$t/lib/Makefile"
git_in "$t" add -f lib/new.c lib/Makefile
git_in "$t" commit -qm 'KVM: x86/mmu: Do a new thing' -m 'Do it.'
ok "refresh takes a new commit" refresh "$base"
new=$(echo "$clone"/series/*-do-a-new-thing)
ok "... as a folder" test -d "$new"
ok "... its message" grep -qx 'Do it.' "$new/message"
ok "... its edit" grep -qx '+obj-y += new.o' "$new/$base.patch"
ok "... its file, once" grep -qx '/\* new \*/' "$clone/lib/new.c"
ok "... named in files" grep -qx lib/new.c "$new/files"
ok "... and the tree is at its series" test "$(git -C "$t" rev-parse HEAD)" = \
	"$(git -C "$(tree "$base")" rev-parse HEAD)"

# A change of the series reaches the tree, and nothing but what it changes.
touch -d '2020-01-01' "$t/lib/Kconfig.debug"
echo '/* newer */' >"$clone/lib/new.c"
tree "$base" >/dev/null
ok "an edit here reaches the tree" grep -qx '/\* newer \*/' "$t/lib/new.c"
ok "... and only what it changes" test "$(date -r "$t/lib/Kconfig.debug" +%Y)" = 2020

# Work that stands only in the tree is never overwritten.
echo '/* newest */' >"$clone/lib/new.c"
echo '/* mine */' >>"$t/lib/new.c"
ok "uncommitted edits are not overwritten" refuses 1 "holds work that series/ has not" \
	"$clone/tools/lab/tree" "$base"
ok "... nor refreshed" refuses 1 "not committed" "$clone/tools/lab/refresh" "$base"
ok "... they are still there" grep -q mine "$t/lib/new.c"
git_in "$t" commit -qam 'KVM: x86/mmu: Mine'
ok "nor are commits" refuses 1 "holds work that series/ has not" "$clone/tools/lab/tree" "$base"
ok "a file that an earlier commit adds has one state" refuses 1 "squash it there" \
	"$clone/tools/lab/refresh" "$base"
ok "-f drops them" tree -f "$base"
ok "... and takes the series" grep -qx '/\* newest \*/' "$t/lib/new.c"

# An edit that does not apply is named.
sed -i '0,/^ \(.*\)/s// \1 not so/' "$clone/series/01-policy/$base.patch"
ok "an edit that does not apply: kernel, file, hunk" \
	refuses 1 "series/01-policy/$base.patch does not apply to $base: MAINTAINERS, hunk @@ -" \
	"$clone/tools/lab/tree" "$base"
git -C "$clone" checkout -q series/01-policy
mv "$clone/Kconfig" "$work/"
ok "a file that is not here is named" refuses 1 "series/01-policy/files names Kconfig" \
	"$clone/tools/lab/tree" "$base"
mv "$work/Kconfig" "$clone/"
ok "patches want an author" env -u EMAIL HOME="$work" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null \
	bash -c '. "$0/tests/tap.sh"; refuses 2 "git config --global user.name" "$0/tools/lab/patches" '"$base"' "$1"' "$clone" "$work/none"

# KDIR as git: tracked files as they are now, and nothing else.
git_in "$KDIR" init -q
git_in "$KDIR" add -A -f
git_in "$KDIR" commit -qm import
echo '# edited' >>"$KDIR/Makefile"
echo junk >"$KDIR/junk.o"
rm -rf "$clone/series/"*-do-a-new-thing "$clone/lib/new.c"
state() { find "$KDIR" -type f -printf '%P %s %T@\n' | sort; }
before=$(state)
t=$(tree -f "$base")
ok "KDIR in git: with its edits" grep -qx '# edited' "$t/Makefile"
ok "... without what it does not track" test ! -e "$t/junk.o"
ok "... and untouched" test "$before" = "$(state)"

ok "KDIR that is not there" refuses 2 "no such folder" env KDIR=/nonexistent "$clone/tools/lab/tree" 6.12
ok "KDIR that is no kernel" refuses 2 "is not a kernel tree" env KDIR="$work" "$clone/tools/lab/tree" 6.12
sed -i 's/^VERSION = .*/VERSION = 5/' "$KDIR/Makefile"
ok "KDIR that is too old" refuses 2 "is too old" "$clone/tools/lab/tree" 6.12
unset KDIR
ok "an unknown kernel" refuses 2 "there are: $KERNELS" "$clone/tools/lab/tree" 6.13
ok "neither stock nor patched" refuses 2 "'stock' or 'patched'" "$clone/tools/lab/tree" 6.12 both
done_testing
