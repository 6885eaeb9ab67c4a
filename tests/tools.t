#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What the tools say and leave behind when something is wrong.

. "$(dirname "$0")/../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

need git:git

tree=$TOP/tools/lab/tree
for tool in source tree patches refresh lint; do
	ok "$tool -h" bash -c '"$0" -h | grep -q ^usage:' "$TOP/tools/lab/$tool"
	ok "$tool with a wrong option" bash -c '"$0" -Z 2>/dev/null; [ $? = 2 ]' "$TOP/tools/lab/$tool"
	ok "$tool without a kernel" bash -c '"$0" 2>/dev/null; [ $? = 2 ]' "$TOP/tools/lab/$tool"
	ok "$tool with an unknown kernel" refuses 2 "no such kernel: '5.15'" "$TOP/tools/lab/$tool" 5.15
done
ok "make help names each target" bash -c 'cd "$0" && make -s help | grep -q "make check"' "$TOP"

ok "a cache with a space" refuses 2 "does not build below" env XDG_CACHE_HOME="$work/a b" "$tree" 6.12
ok "a cache that is a file" refuses 2 "can't write to the cache" env XDG_CACHE_HOME=/proc/version "$tree" 6.12
ok "no home" refuses 2 "set HOME or XDG_CACHE_HOME" env -u HOME -u XDG_CACHE_HOME "$tree" 6.12

# No network: apt is told of a proxy that nobody listens at.
echo 'Acquire::http::Proxy "http://127.0.0.1:9"; Acquire::https::Proxy "http://127.0.0.1:9"; Acquire::Retries "0";' >"$work/apt.conf"
ok "no network" refuses 1 "reading the archive's lists of" env XDG_CACHE_HOME="$work/offline" APT_CONFIG="$work/apt.conf" "$tree" 6.12
ok "... leaves nothing half-fetched" test -z "$(find "$work/offline" -name '*.deb' -o -name 'source.apt*' -o -name '6.12.apt*')"

# small COMMAND [ARG]...: run it with a cache that has no room, if such a disk may be
# mounted here. COMMAND alone sees it, and however this ends, nothing stays mounted.
small()
{
	unshare --mount sh -c 'mount -t tmpfs -o size=1m tmpfs "$0" && XDG_CACHE_HOME=$0 exec "$@"' "$work/small" "$@"
}
mkdir "$work/small"
if small true 2>/dev/null; then
	ok "no room" refuses 1 "GB are needed" small "$tree" 6.12
else
	ok "no room # SKIP no permission to mount a small disk" true
fi

# A tree that was stopped while it was made is nobody's work, whatever git says of it.
half=$(XDG_CACHE_HOME=$work/half bash -c '. "$0/tools/lab/lib.sh"; . "$LAB/series.sh"; clone_trees' "$TOP")
git init -q "$half/6.12.new"
git -C "$half/6.12.new" -c user.name=t -c user.email=t@localhost commit -q --allow-empty -m base
touch "$half/6.12.new/Makefile"
git -C "$half/6.12.new" add Makefile
ok "a tree that is half made is no work" env XDG_CACHE_HOME="$work/half" "$TOP/tools/lab/clean"
ok "... and is removed" test ! -e "$half"

# Missing packages: without root, the command that installs them; elsewhere, the tools.
mkdir "$work/bin"
printf '#!/bin/sh\necho 1000\n' >"$work/bin/id"
printf '#!/bin/sh\nexit 1\n' >"$work/bin/sudo"
printf '#!/bin/sh\nexit 1\n' >"$work/bin/apt-get"
chmod +x "$work/bin"/*
lib() { bash -c '. "$0/tools/lab/lib.sh"; PATH=$1; need nosuchtool:nosuchpackage' "$TOP" "$@"; }
ok "missing packages, no root" refuses 2 "run: sudo apt-get install nosuchpackage" lib "$work/bin:$PATH"
rm "$work/bin/apt-get"
for tool in id sudo grep basename; do
	[ -e "$work/bin/$tool" ] || ln -s "$(command -v "$tool")" "$work/bin/$tool"
done
ok "missing packages, no apt" refuses 2 "missing: nosuchtool" lib "$work/bin"
done_testing
