/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What KVM's NX huge page recovery worker decides: when it runs, how much it
 * recovers in one pass, and which pages it leaves alone.
 *
 * Keep this free of kernel state, so that KUnit can test it under ARCH=um, and
 * reviewers in plain userspace.
 */
#ifndef __KVM_X86_MMU_NX_RECOVERY_H
#define __KVM_X86_MMU_NX_RECOVERY_H

#include <linux/kvm.h>
#include <linux/types.h>

#ifndef __KERNEL__
#include <stdbool.h>

typedef __u32 u32;
#endif

/*
 * Leave pages of a dirty-tracked memslot alone: KVM tracks writes at 4KiB, and so
 * a vCPU would only fault the recovered region back in as it was.
 */
static inline bool should_recover_nx_page(u32 slot_flags)
{
	return !(slot_flags & KVM_MEM_LOG_DIRTY_PAGES);
}

/* Without the mitigation nothing is split, and a ratio of zero is the user's "never". */
static inline bool nx_recovery_enabled(bool mitigation, unsigned int ratio)
{
	if (!mitigation || !ratio)
		return false;

	return true;
}

/*
 * Unless the user chose a period, spread the 1/ratio that each pass recovers over
 * an hour.  Cap the ratio so that a huge one can't turn the worker into a busy
 * loop; what is shorter than a second has to be asked for by name.
 *
 * Return zero if there is no period, i.e. if recovery is off.
 */
static inline unsigned int nx_recovery_period_ms(unsigned int period_ms, unsigned int ratio)
{
	if (!period_ms && ratio) {
		if (ratio > 3600)
			ratio = 3600;

		period_ms = 3600 * 1000 / ratio;
	}

	return period_ms;
}

/*
 * Recover a ratio-th of the accounted pages in one pass.  Round up, so that the last
 * ones go, too; don't let the rounding wrap, adding before dividing would.
 */
static inline unsigned long nx_recovery_quota(unsigned long nr_pages, unsigned int ratio)
{
	if (!ratio)
		return 0;

	return nr_pages / ratio + (nr_pages % ratio != 0);
}

#endif /* __KVM_X86_MMU_NX_RECOVERY_H */
