#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# make apply and unapply: the series on a branch of a user's own tree. The tree is one
# base, cut down to the files that the series edits.

. "$(dirname "$0")/../../tools/lab/lib.sh"
. "$TOP/tools/lab/series.sh"
. "$TOP/tests/tap.sh"

need git:git

base=6.12
export GIT_AUTHOR_NAME='A. Reviewer' GIT_AUTHOR_EMAIL=reviewer@localhost
export GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL
unset KDIR KERNEL
tree=$("$LAB/tree" $base 2>/dev/null)
mapfile -t edited < <(git -C "$tree" diff --name-only --diff-filter=M base HEAD)

kdir="$work/my kernel"
kgit() { git -C "$kdir" "$@"; }
fresh()
{
	rm -rf "$kdir"
	git init -q -b mine "$kdir"
	git -C "$tree" archive base -- Makefile "${edited[@]}" | tar -x -C "$kdir"
	kgit add -A -f
	kgit commit -qm 'my kernel'
}
commit() { kgit commit -qam "$@"; }

apply() { make -s -C "$TOP" apply KDIR="$kdir"; }
unapply() { make -s -C "$TOP" unapply KDIR="$kdir"; }
tool=$TOP/tools/lab/apply

# All that there is to see of a tree: files, refs, configuration, objects.
state()
{
	find "$kdir" -type f ! -path '*/.git/logs/*' ! -path '*/.git/index' -exec sha256sum {} + | sort
	kgit status --porcelain -b
}
unchanged() { diff "$work/before" <(state); }
# refused NAME STATUS TEXT: it is, and the tree is as it was.
refused()
{
	state >"$work/before"
	ok "$1" refuses "$2" "$3" "$tool" "$kdir"
	ok "... and the tree is as it was" unchanged
}
# The series' own change to the tree, as the base's tree has it.
series_diff() { git -C "$1" diff "$2" HEAD | grep -v -e '^index ' -e '^@@'; }

fresh
state >"$work/before"
files() { find "$kdir" -path '*/.git' -prune -o -type f -exec sha256sum {} +; }
files >"$work/files"
ok "apply" apply
ok "... makes a branch, which is checked out" [ "$(kgit symbolic-ref --short HEAD)" = kvm-nx-recovery ]
ok "... with the commits of the series" diff <(git -C "$tree" log --format=%s base..) <(kgit log --format=%s mine..)
ok "... and their changes" diff <(series_diff "$tree" base) <(series_diff "$kdir" mine)
ok "... by the user" [ "$(kgit log --format='%an %cn' mine.. | sort -u)" = "$GIT_AUTHOR_NAME $GIT_AUTHOR_NAME" ]
ok "... who signs them off" [ "$(kgit log --format=%B mine.. | grep -cxF 'Signed-off-by: A. Reviewer <reviewer@localhost>')" = \
	"$(kgit rev-list --count mine..)" ]
ok "... and nothing left to commit" [ -z "$(kgit status --porcelain)" ]
refused "a second time" 2 "has a branch 'kvm-nx-recovery' already"
echo '# mine' >>"$kdir/Makefile"
ok "unapply keeps edits" refuses 2 "are not committed" "$tool" -u "$kdir"
commit mine
ok "... and commits" refuses 2 "has got other commits since" "$tool" -u "$kdir"
kgit reset -q --hard HEAD^
ok "unapply" unapply
ok "... goes back" [ "$(kgit symbolic-ref --short HEAD) $(kgit branch --format='%(refname:short)')" = "mine mine" ]
ok "... to the very files" diff "$work/files" <(files)
ok "... and leaves no configuration" [ -z "$(kgit config --get-regexp '^branch')" ]
ok "unapply where nothing is applied" refuses 2 "has no branch" "$tool" -u "$kdir"

# A newer kernel, on no branch: the one next to it is tried first, then the others.
kgit checkout -q --detach
sed -i 's/^VERSION = .*/VERSION = 7/; s/^PATCHLEVEL = .*/PATCHLEVEL = 9/' "$kdir/Makefile"
commit newer
head=$(kgit rev-parse HEAD)
ok "by content where the version is another" apply
ok "... with the same changes" diff <(series_diff "$tree" base) <(series_diff "$kdir" "$head")
ok "unapply goes back to no branch" unapply
ok "... but the commit" [ "$(kgit rev-parse HEAD) $(kgit symbolic-ref -q HEAD)" = "$head " ]

# Context has moved.
fresh
sed -i 's,^obj-\$(CONFIG_TEST_OBJAGG) .*,& # mine,' "$kdir/lib/Makefile"
commit 'move context'
ok "what does not apply as it is is merged" apply
ok "... and both changes are there" [ "$(grep -c -e '# mine$' -e kvm_nx_recovery_kunit.o "$kdir/lib/Makefile")" = 2 ]
ok "... nothing else" [ "$(kgit show mine:lib/Makefile | diff - "$kdir/lib/Makefile" | grep -c '^[<>]')" = 1 ]
ok "... in sound commits" kgit fsck --strict
ok "unapply after a merge" unapply
fresh

sed -i '/ratio = READ_ONCE(nx_huge_pages_recovery_ratio);/,+1d' "$kdir/arch/x86/kvm/mmu/mmu.c"
commit 'no such code'
refused "a conflict" 1 "arch/x86/kvm/mmu/mmu.c"
kgit reset -q --hard HEAD^

echo 'mine' >"$kdir/arch/x86/kvm/.kunitconfig"
refused "a file of the user's in the way" 1 "arch/x86/kvm/.kunitconfig"
kgit add -f arch/x86/kvm/.kunitconfig
refused "edits" 2 "are not committed"
kgit rm -q --cached arch/x86/kvm/.kunitconfig
rm "$kdir/arch/x86/kvm/.kunitconfig"

sed -i 's/^VERSION = .*/VERSION = 5/' "$kdir/Makefile"
commit 'too old'
refused "too old a kernel" 2 "is too old"
kgit reset -q --hard HEAD^
ok "nobody's commits" env -u EMAIL -u GIT_AUTHOR_NAME -u GIT_AUTHOR_EMAIL -u GIT_COMMITTER_NAME -u GIT_COMMITTER_EMAIL \
	HOME="$work" XDG_CACHE_HOME="${LAB_CACHE%/*}" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null \
	bash -c '. "$0/tests/tap.sh"; refuses 2 "git config --global user.name" "$0/tools/lab/apply" "$1"' "$TOP" "$kdir"
mkdir "$work/empty" "$kdir/sub"
ok "no KDIR" refuses 2 "KDIR=DIR" "$tool" ''
ok "a folder that is not there" refuses 2 "no such folder" "$tool" "$work/nothing"
ok "no git tree" refuses 2 "is no git tree" "$tool" "$work/empty"
ok "a part of a git tree" refuses 2 "is part of the git tree" "$tool" "$kdir/sub"
git init -q "$work/empty"
ok "no kernel" refuses 2 "is not a kernel tree" "$tool" "$work/empty"
done_testing
