# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What a series/NN-name/ folder is to git. Sourced after lib.sh.
#
#   message, message.BASE   subject and changelog; the second where a base's differs
#   files                   what it adds: `[BASE,BASE: ]FROM[ => TO]` a line, FROM in this
#                           repository, TO in the kernel (the same path unless given)
#   all.patch, BASE.patch   the edit to files that the kernel has: what is the same for all
#                           bases, then what is BASE's own
#
# A folder that holds nothing for a base makes no commit there.

# The commits of a tree are the same wherever and whenever they are made, so that
# a tree can be compared with its series by one name.
series_identity()
{
	export GIT_AUTHOR_NAME=kvm-nx-recovery GIT_AUTHOR_EMAIL=kvm-nx-recovery@localhost
	export GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL
	export GIT_AUTHOR_DATE='@1700000000 +0000' GIT_COMMITTER_DATE='@1700000000 +0000'
}

# A name for a path that is fit for a file name.
digest() { printf %s "$1" | sha256sum | cut -c 1-8; }

# The folder of this clone's trees: outside it, as kbuild takes no path with a space.
clone_trees() { echo "$LAB_CACHE/tree/$(digest "$TOP")"; }

# at_series TREE: whether TREE has nothing but what the series made of it.
at_series()
{
	# One that was stopped while it was made has no work.
	[ "${1%.new}" = "$1" ] || return 0
	# New files are work, too, added or not.
	[ -z "$(git -C "$1" status --porcelain)" ] &&
		[ "$(git -C "$1" rev-parse HEAD)" = \
		  "$(git -C "$1" rev-parse -q --verify "refs/lab/${1#"$LAB_CACHE/tree/"}")" ]
}

series_folders()
{
	local dir

	for dir in "$TOP"/series/[0-9]*/; do
		[ -d "$dir" ] && echo "${dir%/}"
	done
}

# series_for FOLDER NAME BASE: the path of what FOLDER has under NAME for BASE.
series_message() { series_pick "$1/message.$2" "$1/message"; }
series_edits() { find "$1" \( -name all.patch -o -name "$2.patch" \) -size +0 | sort -r; }
series_pick()
{
	local file

	for file; do
		[ -e "$file" ] && { echo "$file"; return; }
	done
	return 0
}

# series_files FOLDER BASE: `FROM TO` for each file that FOLDER adds to BASE.
series_files()
{
	[ -e "$1/files" ] || return 0
	awk -v base="$2" '
		/^[ \t]*(#|$)/ { next }
		$1 ~ /:$/ {
			bases = "," substr($1, 1, length($1) - 1) ","
			if (!index(bases, "," base ","))
				next
			sub(/^[^:]*:[ \t]*/, "")
		}
		{ print $1, ($2 == "=>" ? $3 : $1) }' "$1/files"
}

# Name the kernel, the file and the hunk of an edit that does not apply, from
# what git apply said of it.
series_complain()
{
	local base=$1 edit=$2 said=$3 file line hunk

	file=$(sed -n 's/^error: patch failed: \(.*\):[0-9]*$/\1/p' <<<"$said" | head -n 1)
	line=$(sed -n 's/^error: patch failed: .*:\([0-9]*\)$/\1/p' <<<"$said" | head -n 1)
	if [ -n "$file" ]; then
		hunk=$(awk -v file="$file" -v line="$line" '
			/^--- / { here = $2 == "a/" file }
			here && /^@@ / { split($2, at, /[-,]/); if (at[2] == line) { print; exit } }' "$edit")
		die "${edit#"$TOP/"} does not apply to $base: $file, hunk $hunk"
	fi
	die "${edit#"$TOP/"} does not apply to $base: $(head -n 1 <<<"$said")"
}

# series_apply REPO INDEX FOLDER BASE: what FOLDER does to BASE, done to INDEX; print the tree.
series_apply()
{
	local repo=$1 folder=$3 base=$4 edit said from to mode blob
	local -x GIT_INDEX_FILE=$2

	while read -r edit; do
		said=$(git -C "$repo" apply --cached --whitespace=nowarn "$edit" 2>&1) ||
			series_complain "$base" "$edit" "$said"
	done < <(series_edits "$folder" "$base")
	while read -r from to; do
		[ -f "$TOP/$from" ] || die "${folder#"$TOP/"}/files names $from, which is not here"
		mode=100644
		[ ! -x "$TOP/$from" ] || mode=100755
		# A caller may have turned -e off.
		blob=$(git -C "$repo" hash-object -w --no-filters "$TOP/$from") || exit
		git -C "$repo" update-index --add --cacheinfo "$mode,$blob,$to" || exit
	done < <(series_files "$folder" "$base")
	git -C "$repo" write-tree
}

# series_build REPO COMMIT BASE: print the commit that the series, as it is now in
# this checkout, makes of COMMIT in REPO. Touches neither a work tree nor a branch.
# The last result is remembered: a kernel's index is large, and each step through it
# takes its time.
series_build()
{
	local repo=$1 tip=$2 base=$3 index memo

	memo=refs/series/$(series_inputs "$tip" "$base") || exit
	git -C "$repo" rev-parse -q --verify "$memo" && return
	index=$repo/index.$BASHPID
	tip=$(series_commits "$repo" "$tip" "$base" "$index") || exit
	rm -f "$index"
	git -C "$repo" update-ref "$memo" "$tip"
	echo "$tip"
}

# series_commits REPO COMMIT BASE INDEX: the same, by way of the file INDEX, not remembered.
# With SIGNOFF set, each commit is signed off by whoever makes it.
series_commits()
{
	local repo=$1 tip=$2 base=$3 index=$4 folder message tree signoff=()

	[ -z "${SIGNOFF:-}" ] ||
		signoff=(--trailer "Signed-off-by: $(git var GIT_COMMITTER_IDENT | sed 's/>.*/>/')")
	GIT_INDEX_FILE=$index git -C "$repo" read-tree "$tip" || exit
	while read -r folder; do
		message=$(series_message "$folder" "$base")
		[ -n "$message" ] && [ -r "$message" ] && [ -s "$message" ] ||
			die "${folder#"$TOP/"} has no message that can be read"
		tree=$(series_apply "$repo" "$index" "$folder" "$base") || exit
		[ "$tree" != "$(git -C "$repo" rev-parse "$tip^{tree}")" ] || continue
		tip=$(git interpret-trailers "${signoff[@]}" "$message" |
		      git -C "$repo" commit-tree "$tree" -p "$tip" -F -) || exit
	done < <(series_folders)
	echo "$tip"
}

# need_identity: see that commits and mails can have an author, the user, and not one
# whom git makes up from the names of the account and of the machine.
need_identity()
{
	local given=(-c user.useConfigOnly=true)

	[ -z "${EMAIL:-}" ] || given=()
	git "${given[@]}" var GIT_AUTHOR_IDENT >/dev/null 2>&1 &&
		git "${given[@]}" var GIT_COMMITTER_IDENT >/dev/null 2>&1 ||
		usage_die "the commits need an author: git config --global user.name 'Your Name'; git config --global user.email you@example.org"
}

# series_inputs COMMIT BASE: a name for all that series_build() reads.
series_inputs()
{
	local folder

	{
		echo "$@" "${SIGNOFF:-}"
		git var GIT_AUTHOR_IDENT
		git var GIT_COMMITTER_IDENT
		cd "$TOP" || exit
		while read -r folder; do
			series_files "$folder" "$2"
		done < <(series_folders) | cut -d ' ' -f 1 |
			xargs -d '\n' sh -c 'find series tools/lab/series.sh "$@" \
				-type f -printf "%m %p\n" -exec sha256sum {} +' sh 2>&1 | sort || :
	} | sha256sum | cut -c 1-40
}
