# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What every tool of the lab starts with. Sourced by bash, sets -eu.
#
# Exit statuses of the lab's tools: 1 the work failed, 2 it could not be started
# (bad arguments, or something is missing on this machine).

set -eu
# What a user set for a shell or for git is not meant for the trees here.
unset CDPATH GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY

PROG=${0##*/}
LAB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
TOP=$(cd "$LAB/../.." && pwd -P)
KERNELS="6.1 6.12 7.3"

# How many of these tools have called one another: those far down say less.
export LAB_DEPTH=$((${LAB_DEPTH:-0} + 1))

msg() { printf '%s: %s\n' "$PROG" "$*" >&2; }
die() { msg "$@"; exit 1; }
usage_die() { msg "$@"; exit 2; }

[ -n "${XDG_CACHE_HOME:-${HOME:-}}" ] ||
	usage_die "no place for the cache: set HOME or XDG_CACHE_HOME"
LAB_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/kvm-nx-recovery
case $LAB_CACHE in
/*) ;;
*) LAB_CACHE=$PWD/$LAB_CACHE ;;
esac
# kbuild takes neither: say so before an hour of work, not after it.
case $LAB_CACHE in
*[[:space:]:]*) usage_die "the kernel does not build below '$LAB_CACHE' (space or colon): set XDG_CACHE_HOME to another folder" ;;
esac
mkdir -p "$LAB_CACHE" 2>/dev/null && [ -w "$LAB_CACHE" ] ||
	usage_die "can't write to the cache '$LAB_CACHE': set XDG_CACHE_HOME to a folder of yours"
# Clones share compiled objects: kernels are built with relative paths only.
export CCACHE_DIR=${CCACHE_DIR:-$LAB_CACHE/ccache} CCACHE_NOHASHDIR=1
# gcc notes what a file includes anyway: do not preprocess it a second time to ask.
export CCACHE_DEPEND=1

# check_kernel KERNEL: refuse a base that the series has no edits for.
check_kernel()
{
	local base

	for base in $KERNELS; do
		[ "$1" != "$base" ] || return 0
	done
	usage_die "no such kernel: '$1' (there are: $KERNELS)"
}

# number OPTION VALUE MIN MAX: refuse a VALUE that is no number from MIN to MAX.
number()
{
	case $2 in
	''|*[!0-9]*|0?*|????????*) ;;
	*) [ "$2" -lt "$3" ] || [ "$2" -gt "$4" ] || return 0 ;;
	esac
	usage_die "$1 takes a number from $3 to $4, not '$2'"
}

# configurations: of KVM and its kernel, by the names of their files in config/.
configurations()
{
	local file names=()

	for file in "$LAB"/config/*.config; do
		file=$(basename "$file" .config)
		[ "$file" = base ] || names+=("$file")
	done
	echo "${names[*]}"
}

# kernel_version DIR: of the kernel tree there, as its Makefile has it; nothing if it is none.
kernel_version()
{
	sed -n 's/^VERSION = //p; s/^PATCHLEVEL = /./p; s/^SUBLEVEL = /./p' "$1/Makefile" 2>/dev/null |
		head -n 3 | tr -d '\n'
}

# default_kernel: the base to use. KERNEL, or the one next to KDIR's version, or 6.12.
default_kernel()
{
	local version base nearest=6.1

	if [ -n "${KERNEL:-}" ] || [ -z "${KDIR:-}" ]; then
		echo "${KERNEL:-6.12}"
		return
	fi
	version=$(kernel_version "$KDIR")
	for base in $KERNELS; do
		[ "$(printf '%s\n' "$base" "$version" | sort -V | head -n 1)" != "$base" ] || nearest=$base
	done
	echo "$nearest"
}

# lock FILE: hold FILE until this process and all that it started have ended.
lock()
{
	local fd

	mkdir -p "$(dirname "$1")"
	exec {fd}>>"$1"
	flock -n "$fd" && return
	msg "waiting for another run that uses ${1%.lock}"
	flock "$fd"
}

# Ahead of a command: it ends with the process that has started it.
# shellcheck disable=SC2034 # its users'
leash=(setpriv --pdeathsig TERM)

# kill_tree PID: end PID and all that it has started, the last ones first.
kill_tree()
{
	local child children=

	read -r children <"/proc/$1/task/$1/children" 2>/dev/null || :
	for child in $children; do
		kill_tree "$child"
	done
	kill "$1" 2>/dev/null || :
}

# step TEXT COMMAND [ARG]...: run COMMAND quietly, with TEXT and its time as
# progress; if it fails, die with the last thing that it said, or apt's first error: the
# last one sums up.
step()
{
	local text=$1 log fd reason start=$SECONDS
	shift

	# Without a name it can't be left behind.
	log=$(mktemp)
	exec {fd}<>"$log"
	rm -f "$log"
	if ! "$@" >&"$fd" 2>&1; then
		cat "/proc/$BASHPID/fd/$fd" >"$LAB_CACHE/failed.log" 2>/dev/null || :
		reason=$(grep -a -m 1 '^E: ' "/proc/$BASHPID/fd/$fd" ||
			 grep -av '^$' "/proc/$BASHPID/fd/$fd" | tail -n 1) || :
		die "$text: failed: $reason (log: $LAB_CACHE/failed.log)"
	fi
	exec {fd}>&-
	msg "$text: $((SECONDS - start)) s"
}

# room GIGABYTES: die unless the cache's file system has them free.
room()
{
	local free

	free=$(df -Pk "$LAB_CACHE" | awk 'NR == 2 { print int($4 / 1048576) }')
	[ "$free" -ge "$1" ] ||
		die "$1 GB are needed in $LAB_CACHE, $free GB are free: make room, or set XDG_CACHE_HOME"
}

# need TOOL:PACKAGE...: see that each TOOL (a command, or a file by its absolute
# path) is there; install the Debian PACKAGEs of those that are not.
need()
{
	local spec tool tools=() packages=() sudo=()

	for spec; do
		tool=${spec%%:*}
		case $tool in
		/*) [ -e "$tool" ] && continue ;;
		*) command -v "$tool" >/dev/null && continue ;;
		esac
		tools+=("$tool")
		packages+=("${spec#*:}")
	done
	[ ${#tools[@]} -gt 0 ] || return 0

	command -v apt-get >/dev/null ||
		usage_die "missing: ${tools[*]}; install them with this distribution's package manager"
	if [ "$(id -u)" != 0 ]; then
		sudo=(sudo -n)
		sudo -n true 2>/dev/null ||
			usage_die "missing packages; run: sudo apt-get install ${packages[*]}"
	fi
	msg "installing ${packages[*]}"
	if ! apt-cache show "${packages[@]}" >/dev/null 2>&1; then
		step "reading the package lists" "${sudo[@]}" apt-get update
	fi
	step "installing packages" "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "${packages[@]}"
}

# need_build ARCH: what building a kernel for ARCH (um or x86_64) takes.
need_build()
{
	need gcc:gcc make:make flex:flex bison:bison bc:bc ccache:ccache git:git xz:xz-utils \
		python3:python3 perl:perl /usr/include/stdio.h:libc6-dev
	[ "$1" = um ] || need /usr/include/libelf.h:libelf-dev /usr/include/openssl/opensslv.h:libssl-dev
	# The compilers by their own names: nothing that builds has to know of ccache.
	PATH=/usr/lib/ccache:$PATH
}
