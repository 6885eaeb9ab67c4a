#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What tools/lab/measure changes on a host and puts back, whatever ends it: on a stand-in
# for /sys and /proc, by a stand-in for execute_perf_test. There is nothing measured here.

. "$(dirname "$0")/../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

measured=
trap '[ -z "$measured" ] || kill "$measured" || :; rm -rf "$work"' EXIT
cd "$work" || exit

export SYSFS_ROOT=$work/root
kvm=$SYSFS_ROOT/sys/module/kvm/parameters
huge=$SYSFS_ROOT/sys/kernel/mm/hugepages/hugepages-2048kB
state=$SYSFS_ROOT/run/kvm-nx-recovery.state

# put FILE TEXT
put()
{
	mkdir -p "$(dirname "$SYSFS_ROOT$1")"
	printf '%s\n' "$2" >"$SYSFS_ROOT$1"
}

host()
{
	rm -rf "$SYSFS_ROOT"
	put /dev/kvm ''
	put /proc/cpuinfo $'processor\t: 0\nmodel name\t: Test CPU @ 2.0GHz\nflags\t\t: fpu vmx ept'
	put /proc/meminfo 'MemAvailable:   8000000 kB'
	put /proc/self/schedstat '0 0 0'
	put /proc/sys/kernel/random/boot_id this-boot
	put /sys/devices/system/cpu/vulnerabilities/itlb_multihit 'KVM: Mitigation: VMX disabled'
	put /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor powersave
	put /sys/kernel/mm/transparent_hugepage/enabled 'always [madvise] never'
	put /sys/kernel/mm/lru_gen/enabled 0x0007
	put /sys/kernel/mm/page_idle/bitmap ''
	put /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages 3
	put /sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages 1
	put /sys/module/kvm/parameters/nx_huge_pages N
	put /sys/module/kvm/parameters/nx_huge_pages_recovery_period_ms 0
	put /sys/module/kvm/parameters/nx_huge_pages_recovery_ratio 60
	put /sys/module/kvm/parameters/tdp_mmu Y
	put /sys/module/kvm/srcversion 0123456789ABCDEF
	put /sys/module/kvm_intel/parameters/ept Y
	settings >settings.before
}

settings() { cat "$kvm"/* "$huge/nr_hugepages"; }
unchanged() { [ "$(settings)" = "$(cat settings.before)" ] || { settings; return 1; }; }
put_back() { unchanged && [ ! -e "$state" ]; }

# The test's stand-in: sets what it is told, and puts it back, but not after kill -9.
cat >execute_perf_test <<'END'
#!/bin/sh
kvm=$SYSFS_ROOT/sys/module/kvm/parameters
old=$(cat $kvm/nx_huge_pages_recovery_period_ms)
trap 'echo $old >$kvm/nx_huge_pages_recovery_period_ms' EXIT
trap 'exit 143' TERM
echo 1000 >$kvm/nx_huge_pages_recovery_period_ms
echo "nx $(cat $kvm/nx_huge_pages), huge pages $(cat $SYSFS_ROOT/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages)"
[ ! -e slow ] || { echo $$ >pid; i=0; while [ -e slow ] && [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done; }
[ ! -e fail ] || { echo "something is wrong" >&2; exit 1; }
END
chmod +x execute_perf_test

measure() { sh "$LAB/measure" -p "$work/execute_perf_test" "$@"; }

# says TEXT: a line of out or err holds it.
says() { grep -qF -- "$1" out err || { cat out err; return 1; }; }

host
status=0
measure -y -r 2 -o results seed-none seed-all >out 2>err </dev/null || status=$?
ok "measures" test "$status" = 0
ok "... tells the CPU" says 'cpu: Test CPU @ 2.0GHz'
ok "... the mitigation's state" says 'itlb_multihit: KVM: Mitigation: VMX disabled'
ok "... KVM's parameters" says 'ept: Y'
ok "... the huge pages" says 'hugepages_2048kB: 3, free: 1'
ok "... THP" says 'thp: madvise'
ok "... the build of KVM, which tells the kernels apart" grep -q '"side": ".*, kvm 0123456789ABCDEF",$' results/run-1/run.json
ok "... the governor, with a warning" says 'warning: the CPU frequency varies'
ok "... what is changed" says 'nx_huge_pages: N -> force'
ok "... and how far" says 'nr_hugepages: 3 -> 38'
ok "... which is so while the test runs" grep -qx 'nx force, huge pages 38' results/run-1/output
ok "... and put back" put_back
ok "a folder for each run" test -e results/run-1/run.json -a -e results/run-2/run.json -a ! -e results/run-2.partial
ok "... with its cases" test "$(grep -c '^# status 0' results/run-2/output)" = 2
ok "... which the report knows" refuses 2 ' alone' "$LAB/report" results
ok "... kept" refuses 2 'no results are overwritten' measure -y -o results seed-all

host
ok "nobody to ask" refuses 2 'no terminal to ask on' measure -o new seed-all
ok "... changes nothing" put_back
ok "... leaves no results" test ! -e new
# answer TEXT FOLDER: on a terminal.
answer() { script -qec "sh $LAB/measure -p $work/execute_perf_test -r 1 -o $2 seed-all" /dev/null <<<"$1" >out 2>&1; }
ok "who says no" refuses 1 '' answer n new
ok "... changes nothing" put_back
ok "... leaves no results" test ! -e new
ok "who says yes" answer y new
ok "... has results" test -e new/run-1

# Somebody else's settings stay.
host
put /sys/module/kvm/parameters/nx_huge_pages Y
put /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages 600
put /sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages 600
settings >settings.before
measure -y -r 1 -o enough >out 2>err </dev/null
ok "nothing to change" grep -qx 'nx Y, huge pages 600' enough/run-1/output
ok "... nothing changed" put_back
ok "... all cases" test "$(grep -c '^# status 0' enough/run-1/output)" = 15

host
touch fail
ok "a test that fails" refuses 1 'fail.out/run-1.partial does not count' measure -y -o fail.out seed-all
rm fail
ok "... all put back" put_back
ok "... is marked" test -e fail.out/run-1.partial -a ! -e fail.out/run-1

# start FOLDER: in a process group of its own, with the test under way.
start()
{
	local i
	rm -f pid
	touch slow
	set -m
	# No function: the signals are for the script itself.
	# Under nohup, too.
	env --default-signal=HUP sh "$LAB/measure" -p "$work/execute_perf_test" -y -o "$1" seed-all >out 2>err </dev/null &
	measured=$!
	set +m
	for ((i = 0; i < 300; i++)); do
		[ ! -s pid ] || return 0
		sleep 0.1
	done
	cat out err
	return 1
}

# ended: wait until what was started has ended, with all that has its lock, return its status.
ended()
{
	local pid=$measured status=0

	measured=
	wait "$pid" 2>/dev/null || status=$?
	flock -w 10 "$state.lock" true
	return "$status"
}

# gone PID: within 10 s.
gone()
{
	local i
	for ((i = 0; i < 100; i++)); do
		kill -0 "$1" 2>/dev/null || return 0
		sleep 0.1
	done
	return 1
}

n=0
for signal in INT TERM HUP; do
	case $signal in
	INT) status=130 ;;
	TERM) status=143 ;;
	HUP) status=129 ;;
	esac
	for whom in script group; do
		host
		n=$((n + 1))
		start cut-$n
		ok "SIG$signal to the $whom: the settings are changed by then" bash -c '! diff "$0" <(cat "$1"/* "$2/nr_hugepages")' \
			settings.before "$kvm" "$huge"
		target=$measured
		[ "$whom" = script ] || target=-$measured
		# Not in a subshell, whose child this would not be.
		status_seen=0
		kill "-$signal" -- "$target"
		ended || status_seen=$?
		ok "... ends it, with its status" test "$status_seen" = "$status"
		ok "... and the test" gone "$(cat pid)"
		ok "... all put back" put_back
		ok "... the run is marked" test -e cut-$n/run-1.partial -a ! -e cut-$n/run-1
		rm slow
	done
done

# Killed, there is nobody left to put anything back, but the next one.
host
start killed
ok "a second one meanwhile" refuses 2 'another run is on' measure -y -o second seed-all
kill -KILL "$measured"
ended || :
ok "SIGKILL: the test ends, too" gone "$(cat pid)"
rm slow
ok "... the state is kept" test -e "$state"
ok "... the settings are as they were set" test "$(cat "$kvm/nx_huge_pages")" = force
ok "... --restore puts all back" measure --restore
ok "... all" put_back
ok "... once" measure --restore
ok "... the run is marked" test -e killed/run-1.partial

host
start killed2
# The test, too, before it can put back what it has set itself.
kill -KILL "$(cat pid)" "$measured"
ended || :
rm slow
ok "SIGKILL to the test as well: its setting stays" test "$(cat "$kvm/nx_huge_pages_recovery_period_ms")" = 1000
measure -y -r 1 -o next seed-all >out 2>err </dev/null
ok "... the next run puts it back first" says 'putting back what a run that was killed has left changed'
ok "... finds what was" says 'nx_huge_pages: N -> force'
ok "... and leaves it so" put_back

# After a power cut the settings are the boot's.
host
mkdir -p "$SYSFS_ROOT/run"
printf 'boot another-boot\n/sys/module/kvm/parameters/nx_huge_pages Y\n' >"$state"
ok "a state from before a boot" measure --restore
ok "... is not put back, and gone" put_back

# What can't be put back is said, and kept for another try.
host
start stuck
rm "$kvm/nx_huge_pages"
mkdir "$kvm/nx_huge_pages"
kill -TERM "$measured"
ended || :
rm slow
ok "what can't be put back is named" says "can't put /sys/module/kvm/parameters/nx_huge_pages back to N"
ok "... all else is put back" test "$(cat "$huge/nr_hugepages")" = 3
ok "... the state is kept" test -e "$state"
rmdir "$kvm/nx_huge_pages"
put /sys/module/kvm/parameters/nx_huge_pages Y
ok "... for another try" measure --restore
ok "... that puts it back" put_back

# Hosts that won't do
host
mkdir -p "$SYSFS_ROOT/proc/77/fd"
ln -s anon_inode:kvm-vm "$SYSFS_ROOT/proc/77/fd/9"
measure -y -r 1 -o vms seed-all >out 2>err </dev/null
ok "other VMs: a warning" says 'warning: 1 other VMs are running'
host
rm "$SYSFS_ROOT/dev/kvm"
ok "no KVM" refuses 2 'there is no /dev/kvm' measure -y -o won seed-all
host
put /sys/module/kvm/parameters/nx_huge_pages never
ok "never" refuses 2 "nx_huge_pages is 'never'" measure -y -o won seed-all
host
rm -r "$huge"
ok "no huge pages" refuses 2 'no huge pages of 2 MiB' measure -y -o won seed-all
host
put /proc/meminfo 'MemAvailable:   200000 kB'
ok "no memory" refuses 1 'MiB of memory are needed, 195 are available' measure -y -o won seed-all
ok "no program" refuses 2 'no such program' sh "$LAB/measure" -y -p ./none -o won seed-all
ok "no such case" refuses 2 "no such case: 'seed.all'" measure -y -o won seed.all
ok "no runs" refuses 2 "not '0'" measure -y -r 0 -o won seed-all
ok "none of them left results" test ! -e won
# From its input: another user may not be let into this folder.
nobody=(env -u SYSFS_ROOT)
[ "$(id -u)" != 0 ] || nobody=(setpriv --reuid 65534 --clear-groups "${nobody[@]}")
ok "not root" refuses 2 'run it as root' bash -c 'cd / && exec "${@:1}" sh -s -- -y <"$0"' "$LAB/measure" "${nobody[@]}"
done_testing
