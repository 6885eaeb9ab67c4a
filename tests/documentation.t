#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The tables of the documentation say what the policy does: each row's inputs are given
# to the header, compiled for userspace, and the row is printed anew from what it says.

. "$(dirname "$0")/../tools/lab/lib.sh"
. "$TOP/tests/tap.sh"

need gcc:gcc /usr/include/stdio.h:libc6-dev

doc=$TOP/Documentation/virt/kvm/x86/nx-huge-page-recovery.rst

# table COLUMN: the rows of the table whose first column has that title, a blank between cells.
table()
{
	awk -v column="$1" '
		/^ *=+ [ =]*$/ { rule = 1; next }
		!NF { here = 0 }
		rule && $1 == column { here = 1; rule = 0; next }
		{ rule = 0 }
		here { gsub(/\\-/, "-"); $1 = $1; print }' "$doc"
}

cat >"$work/policy.c" <<'END'
#include <stdio.h>
#include <string.h>

#include "../arch/x86/kvm/mmu/nx_recovery.h"

#define NR_PAGES	1000
#define OTHER_FLAGS	(~(__u32)(KVM_MEM_LOG_DIRTY_PAGES | KVM_MEM_READONLY))

/* nx_huge_pages ratio period_ms, anything */
static void print_parameters(void)
{
	unsigned int ratio, period_ms;
	char mitigation[8];

	while (scanf("%7s %u %u%*[^\n]", mitigation, &ratio, &period_ms) == 3) {
		printf("%s %u %u ", mitigation, ratio, period_ms);
		if (nx_recovery_enabled(!strcmp(mitigation, "Y"), ratio))
			printf("runs %u %lu\n", nx_recovery_period_ms(period_ms, ratio),
			       nx_recovery_quota(NR_PAGES, ratio));
		else
			printf("sleeps - -\n");
	}
}

static const char *yes_no(bool yes)
{
	return yes ? "yes" : "no";
}

/* All there is, in binary order.  "any" flag is each of them by itself. */
static void print_flags(void)
{
	__u32 flags, bit;
	bool zapped;
	int i;

	for (i = 0; i < 8; i++) {
		flags = (i & 4 ? KVM_MEM_LOG_DIRTY_PAGES : 0) | (i & 2 ? KVM_MEM_READONLY : 0);
		zapped = should_recover_nx_page(flags | (i & 1 ? OTHER_FLAGS : 0));
		for (bit = 1; bit && i & 1; bit <<= 1) {
			if (bit & OTHER_FLAGS && should_recover_nx_page(flags | bit) != zapped)
				printf("depends on flag %#x: ", bit);
		}
		printf("%s %s %s %s\n", yes_no(i & 4), yes_no(i & 2), yes_no(i & 1), yes_no(zapped));
	}
}

int main(int argc, char *argv[])
{
	if (argc > 1)
		print_flags();
	else
		print_parameters();
	return 0;
}
END
ok "the policy compiles in userspace" gcc -Wall -Werror -I "$TOP/lib" -o "$work/policy" "$work/policy.c"

table nx_huge_pages >"$work/parameters"
ok "parameters: the table has rows" [ "$(wc -l <"$work/parameters")" -gt 10 ]
ok "parameters: the policy says the same" diff "$work/parameters" <("$work/policy" <"$work/parameters")
for row in 'Y 60 0' 'Y 3600 0' 'Y 3601 0' 'Y 0 0' 'N 60 0'; do
	ok "parameters: a row for $row" grep -q "^$row " "$work/parameters"
done

ok "memslot flags: the policy says the same, for all there are" \
	diff <(table KVM_MEM_LOG_DIRTY_PAGES) <("$work/policy" flags)

# What the table of functions names is there, and all of it.
ok "each function of the policy is named" \
	diff <(sed -n 's/^static inline .* \**\([a-z_]*\)(.*/\1/p' "$TOP/arch/x86/kvm/mmu/nx_recovery.h" | sort) \
	     <(table function | sed -n 's/^``\([a-z_]*\)()``.*/\1/p' | sort)
done_testing
