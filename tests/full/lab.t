#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tools/lab/run: what it passes on, what it refuses, what it leaves behind.

. "$(dirname "$0")/../../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

run=$TOP/tools/lab/run
kernel=6.1
# lab STATUS [OPTION]... -- COMMAND [ARG]...: the status that is wanted; output in $work.
lab()
{
	local want=$1 status=0
	shift

	"$run" -k "$kernel" "$@" >"$work/out" 2>"$work/err" || status=$?
	[ "$status" = "$want" ] || { echo "status $status, not $want"; tail "$work/err"; return 1; }
}
says() { grep -qF "$1" "$work/err" || { tail "$work/err"; return 1; }; }

msg "the lab on $kernel"
ok "a command's output and status" lab 0 -- echo hello
ok "... its output, nothing else" test "$(cat "$work/out")" = hello
ok "... the console's log is kept" grep -q 'Linux version' "$(sed -n 's/^run: console log: //p' "$work/err")"
ok "a status passes through" lab 7 -- sh -c 'exit 7'
ok "a signal is 128 and its number" lab 137 -- sh -c 'kill -9 $$'
ok "a command that is not there" lab 127 -- nosuchcommand
head -c 100000 /dev/urandom >"$work/noise"
ok "binary output" lab 0 -a "$work/noise" -- cat noise
ok "... arrives as it is" cmp "$work/noise" "$work/out"
ok "stderr is stderr" lab 0 -- sh -c 'echo complaint >&2'
ok "... and not stdout" test ! -s "$work/out"
ok "... complete" says complaint
ok "words reach the kernel's command line" lab 0 -c 'kvm_amd.npt=0 quiet' -- cat /sys/module/kvm_amd/parameters/npt
ok "... and take effect" test "$(cat "$work/out")" = N
ok "CPUs and memory" lab 0 -n 3 -M 512 -- nproc
ok "... are those asked for" test "$(cat "$work/out")" = 3

# The clock of instructions: the same work takes the same time.
count="t=\$(cut -d' ' -f1 /proc/self/schedstat); i=0; while [ \$i -lt 20000 ]; do i=\$((i+1)); done; cut -d' ' -f1 /proc/self/schedstat"
ok "-i" lab 0 -i -- sh -c "$count"
first=$(cat "$work/out")
ok "-i, again" lab 0 -i -- sh -c "$count"
ok "... repeats to 1 %" awk -v a="$first" -v b="$(cat "$work/out")" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a > 0 && d < a / 100) }'

ok "a WARN fails a run whose command passes" lab 123 -- sh -c 'echo "WARNING: made up" >/dev/kmsg; sleep 1'
ok "... and is printed" says 'WARNING: made up'
ok "a panic ends it" lab 123 -t 120 -c rdinit=/bin/false -- true
ok "... and is printed" says 'Kernel panic'
ok "a hang ends at its deadline" lab 124 -t 20 -- sleep 1000
ok "... which is named" says 'deadline of 20 s passed'

# interrupted SIGNAL GROUP: SIGNAL to GROUP (- for the whole, as a terminal does, or nothing
# for the script alone) ends all of it, and nothing stays in TMPDIR. The emulator has a group
# of its own: a word tells what belongs to this run, by a pattern that doesn't fit itself.
interrupted()
{
	local pid mark="[l]ab_mark=$BASHPID.$1"

	mkdir -p "$work/tmp"
	set -m
	TMPDIR=$work/tmp "$run" -k "$kernel" -t 200 -c "${mark/\[l\]/l}" -- sh -c 'echo up; sleep 1000' \
		>"$work/out" 2>"$work/err" &
	pid=$!
	set +m
	for _ in $(seq 600); do
		grep -q up "$work/out" && break
		sleep 0.1
	done
	grep -q up "$work/out" || { kill -TERM -- "-$pid"; return 1; }
	pgrep -f "qemu.*$mark" >/dev/null || { echo "no emulator to be seen"; return 1; }
	kill "-$1" -- "$2$pid"
	for _ in $(seq 100); do
		pgrep -f "$mark" >/dev/null || break
		sleep 0.1
	done
	! pgrep -af "$mark" && [ -z "$(ls "$work/tmp")" ]
}
need pgrep:procps
ok "Ctrl-C leaves nothing behind" interrupted INT -
ok "SIGTERM leaves nothing behind" interrupted TERM ''

ok "no command" bash -c '"$0" -k 6.1 2>/dev/null; [ $? = 2 ]' "$run"
ok "an unknown kernel" refuses 2 "no such kernel" "$run" -k 5.4 -- true
ok "an unknown machine" refuses 2 "no such machine" "$run" -m sparc -- true
ok "an unknown flavour" refuses 2 "no such flavour" "$TOP/tools/lab/kernel" 6.1 -f fast
ok "a file that is not there" refuses 2 "no such file" "$run" -a /nonexistent -- true
ok "no number of CPUs" refuses 2 "-n takes a number" "$run" -n two -- true
ok "a deadline of nothing" refuses 2 "-t takes a number" "$run" -t 0 -- true
ok "more memory than there is" refuses 1 "not enough memory" "$run" -M 900G -- true
ok "-m host runs here" bash -c '[ "$("$0" -m host -- uname -r 2>/dev/null)" = "$(uname -r)" ]' "$run"
ok "... says what it has found" bash -c '"$0" -m host -- true 2>&1 | grep -q "^  nx_huge_pages\|^  kernel: "' "$run"
ok "... and passes the status" bash -c '"$0" -m host -- sh -c "exit 9" 2>/dev/null; [ $? = 9 ]' "$run"
done_testing
