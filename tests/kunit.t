#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The verdict on the policy: kunit.py under UML on every base, under QEMU x86_64 on one.

. "$(dirname "$0")/../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

kunit="$TOP/tools/testing/kunit/kunit.py"
# As many as the suite has in userspace, where the parameters are counted by the compiler.
need gcc:gcc /usr/include/stdio.h:libc6-dev
gcc -w -I "$TOP/tests/shim" -o "$work/suite" "$TOP/lib/kvm_nx_recovery_kunit.c"
cases=$("$work/suite" | sed -n 's/^1\.\.//p')

# passes KERNEL [ARG]...: the suite passes, and all of it has run.
passes()
{
	local kernel=$1
	shift

	KERNEL=$kernel "$kunit" run "$@" >"$work/log" 2>"$work/err" || { tail "$work/err" "$work/log"; return 1; }
	grep -q "Ran $cases tests: passed: $cases\$" "$work/log" || { tail "$work/log"; return 1; }
}

# The last one first: other tests begin with the first, and a tree builds one thing at a time.
for kernel in $(tr ' ' '\n' <<<"$KERNELS" | tac); do
	msg "KUnit on $kernel"
	start=$SECONDS
	ok "$kernel, UML: $cases cases pass" passes "$kernel"
	diag "$((SECONDS - start)) s"
done
msg "KUnit on 6.12 under QEMU"
ok "6.12, QEMU x86_64: $cases cases pass" passes 6.12 --arch x86_64 --build_dir="$(KERNEL=6.12 "$LAB/tree" -p 6.12)/.kunit-x86_64"

# Options, files and exit statuses pass through.
export KERNEL=6.12
cd "$work" || exit
ok "--raw_output" bash -c '"$0" exec --raw_output 2>/dev/null | tee raw | grep -q "^ *ok 1 kvm_nx_recovery"' "$kunit"
ok "parse, from a pipe" bash -c '"$0" parse 2>/dev/null <raw | grep -q "passed: $1"' "$kunit" "$cases"
ok "parse, a file of the caller's" bash -c '"$0" parse raw 2>/dev/null | grep -q "passed: $1"' "$kunit" "$cases"
sed 's/\bok 1 - slot_flags_each_bit\|\bok 2 slot_flags_each_bit/not &/' raw >failed
ok "parse, of a failed run, fails" bash -c '! "$0" parse failed >/dev/null 2>&1' "$kunit"
ok "--list_tests" bash -c '"$0" exec --list_tests 2>/dev/null | grep -qx kvm_nx_recovery.slot_flags' "$kunit"
ok "a glob" bash -c '"$0" exec "kvm_nx_recovery.quota_rounds_*" 2>/dev/null | grep -q "passed: 2$"' "$kunit"
ok "a glob that fits nothing fails" bash -c '! "$0" exec nosuchsuite >/dev/null 2>&1' "$kunit"
ok "--json, to a file of the caller's" bash -c '"$0" exec --json=out.json >/dev/null 2>&1 && grep -q kvm_nx_recovery out.json' "$kunit"
ok "python3 kunit.py" bash -c 'python3 "$0" exec 2>/dev/null | grep -q "passed: $1$"' "$kunit" "$cases"
ok "an unknown option is kunit.py's to refuse" bash -c '"$0" run --nosuchoption 2>&1 | grep -q "kunit.py.*: error: unrecognized"' "$kunit"
ok "an unknown KERNEL" env KERNEL=6.13 bash -c '. "$1/tests/tap.sh"; refuses 2 "no such kernel" "$0" run' "$kunit" "$TOP"

# As a module: built, not loaded, which takes no second UML.
module()
{
	local tree

	need_build um
	tree=$("$LAB/tree" -p 6.12)
	lock "$tree.build.lock"
	mkdir -p "$tree/.kunit-module"
	printf '%s\n' CONFIG_MODULES=y CONFIG_KUNIT=m CONFIG_KVM_NX_RECOVERY_KUNIT_TEST=m >"$tree/.kunit-module/.config"
	rm -f "$tree/.kunit-module/lib/kvm_nx_recovery_kunit.ko"
	make -s -C "$tree" ARCH=um O=.kunit-module olddefconfig || return
	make -s -j"$(nproc)" -C "$tree" ARCH=um O=.kunit-module KBUILD_MODPOST_WARN=1 \
		lib/kvm_nx_recovery_kunit.ko || return
	modinfo -F license "$tree/.kunit-module/lib/kvm_nx_recovery_kunit.ko" | grep -qx GPL
}
need modinfo:kmod
ok "as a module" module

# In a tree with the series, the kernel's own command does it alone.
tree=$("$LAB/tree" -p 6.12)
need_build um
ok "in the tree, without this project" bash -c \
	'cd "$0" && ./tools/testing/kunit/kunit.py run --kunitconfig=arch/x86/kvm 2>/dev/null | grep -q "passed: $1$"' "$tree" "$cases"
done_testing
