#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# make lint finds nothing in the series for 6.12; and by 'prove FILE :: full' nothing in that
# for the other kernels, but does find what is wrong.

. "$(dirname "$0")/../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

need git:git

ok "6.12: nothing is found" "$LAB/lint" 6.12
if [ "${1:-}" != full ]; then
	done_testing
	exit
fi
for kernel in $KERNELS; do
	[ "$kernel" = 6.12 ] || ok "$kernel: nothing is found" "$LAB/lint" "$kernel"
done

# A copy with something for each of them.
clone=$work/clone
copy_project "$clone"
cd "$work" || exit
cat >>"$clone/arch/x86/kvm/mmu/nx_recovery.h" <<'END'

/**
 * nx_spoiled() - Not what it is
 */
static inline unsigned int nx_spoilt(unsigned int nr)
{
	unsigned int unused;

	return nr ;
}
END
sed -i '/MODULE_LICENSE/i int kvm_nx_spoilt(int nr) { switch (nr) { default: nr++; }; return nr; }' \
	"$clone/lib/kvm_nx_recovery_kunit.c"
printf '\nA title\n====\n' >>"$clone/Documentation/virt/kvm/x86/nx-huge-page-recovery.rst"
ok "a copy that is spoilt fails" bash -c '! "$0/tools/lab/lint" 6.12 >said 2>&1' "$clone"
for what in 'checkpatch: .*SPACING' 'kernel-doc: .*nx_spoil' 'gcc.*unused' 'gcc.*kvm_nx_spoilt' \
	'coccicheck: .*semicolon' 'htmldocs: .*underline'; do
	ok "... with: $what" grep -q "^$what" said
done
ok "... in a line at the end" grep -q '^lint: 6.12: .* findings$' said

# What only one configuration can't compile is a finding as well.
for file in arch/x86/kvm/mmu/nx_recovery.h lib/kvm_nx_recovery_kunit.c \
	Documentation/virt/kvm/x86/nx-huge-page-recovery.rst; do
	cp "$TOP/$file" "$clone/$file"
done
printf '\n#ifdef CONFIG_X86_32\n#error spoilt\n#endif\n' >>"$clone/arch/x86/kvm/mmu/nx_recovery.h"
ok "a copy that does not compile for i386 fails" bash -c '! "$0/tools/lab/lint" 6.12 >said 2>&1' "$clone"
ok "... with that, and no more" grep -qx 'lint: 6.12: 1 findings' said
ok "... by name" grep -qx 'gcc: does not compile (i386)' said
"$clone/tools/lab/clean"
done_testing
