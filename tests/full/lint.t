#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# make lint finds nothing in the series, on any kernel, and does find what is wrong.

. "$(dirname "$0")/../../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

need git:git
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for kernel in $KERNELS; do
	ok "$kernel: nothing is found" "$LAB/lint" "$kernel"
done

# A copy with something for each of them.
(cd "$TOP" && git ls-files -co --exclude-standard -z | xargs -0 cp -a --parents -t "$work")
git -C "$work" init -q
cat >>"$work/arch/x86/kvm/mmu/nx_recovery.h" <<'END'

/**
 * nx_spoiled() - Not what it is
 */
static inline unsigned int nx_spoilt(unsigned int nr)
{
	unsigned int unused;

	return nr ;
}
END
sed -i '/MODULE_LICENSE/i int kvm_nx_spoilt;' "$work/lib/kvm_nx_recovery_kunit.c"
ok "a copy that is spoilt fails" bash -c '! "$0/tools/lab/lint" 6.12 >"$0/said" 2>&1' "$work"
for what in 'checkpatch: .*SPACING' 'kernel-doc: .*nx_spoil' 'gcc.*unused' 'gcc.*kvm_nx_spoilt'; do
	ok "... with: $what" grep -q "^$what" "$work/said"
done
ok "... in a line at the end" grep -q '^lint: 6.12: .* findings$' "$work/said"
"$work/tools/lab/clean"
done_testing
