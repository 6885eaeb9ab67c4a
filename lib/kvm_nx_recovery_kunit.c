// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for the policy of KVM's NX huge page recovery worker.
 */
#include <kunit/test.h>

#include <linux/limits.h>
#include <linux/module.h>
#include <linux/prandom.h>

#include "../arch/x86/kvm/mmu/nx_recovery.h"

#define LOG		KVM_MEM_LOG_DIRTY_PAGES
#define RO		KVM_MEM_READONLY
/* By number, not every kernel that has the policy has the flag. */
#define GMEM		0x4
/* KVM's own KVM_MEMSLOT_INVALID, the slot is being deleted or moved. */
#define INVALID		0x10000

#define HOUR_MS		(60 * 60 * 1000u)

/* The module parameter takes all of unsigned int. */
static const unsigned int ratios[] = {
	1, 2, 3, 59, 60, 61, 256, 3599, 3600, 3601, 65536, INT_MAX, UINT_MAX - 1, UINT_MAX
};

struct slot_case {
	const char *desc;
	u32 flags;
	bool recover;
};

static const struct slot_case slot_cases[] = {
	{ "no flag: recover", 0, true },
	{ "log: leave", LOG, false },
	{ "readonly: recover", RO, true },
	{ "readonly, log: leave", RO | LOG, false },
	{ "guest_memfd: recover", GMEM, true },
	{ "guest_memfd, log: leave", GMEM | LOG, false },
	{ "guest_memfd, readonly: recover", GMEM | RO, true },
	{ "guest_memfd, readonly, log: leave", GMEM | RO | LOG, false },
	{ "invalid: recover", INVALID, true },
	{ "invalid, log: leave", INVALID | LOG, false },
	{ "invalid, readonly: recover", INVALID | RO, true },
	{ "invalid, readonly, log: leave", INVALID | RO | LOG, false },
	{ "invalid, guest_memfd: recover", INVALID | GMEM, true },
	{ "invalid, guest_memfd, log: leave", INVALID | GMEM | LOG, false },
	{ "invalid, guest_memfd, readonly: recover", INVALID | GMEM | RO, true },
	{ "invalid, guest_memfd, readonly, log: leave", INVALID | GMEM | RO | LOG, false },
};

static void slot_case_desc(const struct slot_case *c, char *desc)
{
	strscpy(desc, c->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(slot, slot_cases, slot_case_desc);

static void slot_flags(struct kunit *test)
{
	const struct slot_case *c = test->param_value;

	KUNIT_EXPECT_EQ_MSG(test, should_recover_nx_page(c->flags), c->recover,
			    "slot flags %#x", c->flags);
}

static void expect_only_log_counts(struct kunit *test, u32 flags)
{
	u32 clear = flags & ~LOG, set = flags | LOG;

	KUNIT_EXPECT_TRUE_MSG(test, should_recover_nx_page(clear), "slot flags %#x", clear);
	KUNIT_EXPECT_FALSE_MSG(test, should_recover_nx_page(set), "slot flags %#x", set);
}

static void slot_flags_each_bit(struct kunit *test)
{
	int bit;

	for (bit = 0; bit < 32; bit++) {
		expect_only_log_counts(test, 1u << bit);
		expect_only_log_counts(test, ~(1u << bit));
	}
}

static void slot_flags_random(struct kunit *test)
{
	struct rnd_state rnd;
	int i;

	prandom_seed_state(&rnd, 0x1ce);
	for (i = 0; i < 10000; i++)
		expect_only_log_counts(test, prandom_u32_state(&rnd));
}

struct enabled_case {
	const char *desc;
	bool mitigation;
	unsigned int ratio;
	bool enabled;
};

static const struct enabled_case enabled_cases[] = {
	{ "mitigation off, ratio 0: off", false, 0, false },
	{ "mitigation off, ratio 1: off", false, 1, false },
	{ "mitigation off, ratio 60: off", false, 60, false },
	{ "mitigation off, ratio UINT_MAX: off", false, UINT_MAX, false },
	{ "mitigation on, ratio 0: off", true, 0, false },
	{ "mitigation on, ratio 1: on", true, 1, true },
	{ "mitigation on, ratio 60: on", true, 60, true },
	{ "mitigation on, ratio 256: on", true, 256, true },
	{ "mitigation on, ratio 65536: on", true, 65536, true },
	{ "mitigation on, ratio UINT_MAX: on", true, UINT_MAX, true },
};

static void enabled_case_desc(const struct enabled_case *c, char *desc)
{
	strscpy(desc, c->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(enabled, enabled_cases, enabled_case_desc);

static void enabled_by_parameters(struct kunit *test)
{
	const struct enabled_case *c = test->param_value;

	KUNIT_EXPECT_EQ_MSG(test, nx_recovery_enabled(c->mitigation, c->ratio), c->enabled,
			    "mitigation %d, ratio %u", c->mitigation, c->ratio);
}

struct period_case {
	const char *desc;
	unsigned int period_ms;
	unsigned int ratio;
	unsigned int want_ms;
};

static const struct period_case period_cases[] = {
	{ "ratio 0: none", 0, 0, 0 },
	{ "ratio 1: 1 h", 0, 1, 3600000 },
	{ "ratio 2: 30 min", 0, 2, 1800000 },
	{ "ratio 59: 61016 ms", 0, 59, 61016 },
	{ "ratio 60: 1 min", 0, 60, 60000 },
	{ "ratio 1800: 2 s", 0, 1800, 2000 },
	{ "ratio 3599: 1 s", 0, 3599, 1000 },
	{ "ratio 3600: 1 s", 0, 3600, 1000 },
	{ "ratio 3601: 1 s", 0, 3601, 1000 },
	{ "ratio 65536: 1 s", 0, 65536, 1000 },
	{ "ratio UINT_MAX: 1 s", 0, UINT_MAX, 1000 },
	{ "1 ms asked for, ratio 0: 1 ms", 1, 0, 1 },
	{ "1 ms asked for, ratio 60: 1 ms", 1, 60, 1 },
	{ "999 ms asked for, ratio 3601: 999 ms", 999, 3601, 999 },
	{ "1 h asked for, ratio UINT_MAX: 1 h", 3600000, UINT_MAX, 3600000 },
	{ "UINT_MAX ms asked for, ratio 1: UINT_MAX ms", UINT_MAX, 1, UINT_MAX },
};

static void period_case_desc(const struct period_case *c, char *desc)
{
	strscpy(desc, c->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(period, period_cases, period_case_desc);

static void period_by_ratio(struct kunit *test)
{
	const struct period_case *c = test->param_value;

	KUNIT_EXPECT_EQ_MSG(test, nx_recovery_period_ms(c->period_ms, c->ratio), c->want_ms,
			    "%u ms asked for, ratio %u", c->period_ms, c->ratio);
}

static void period_asked_for_wins(struct kunit *test)
{
	static const unsigned int periods[] = {
		1, 59, 60, 999, 1000, 3599, 3600, 3601, HOUR_MS, UINT_MAX
	};
	int i, j;

	for (i = 0; i < ARRAY_SIZE(periods); i++) {
		for (j = 0; j < ARRAY_SIZE(ratios); j++)
			KUNIT_EXPECT_EQ_MSG(test, nx_recovery_period_ms(periods[i], ratios[j]),
					    periods[i], "%u ms asked for, ratio %u",
					    periods[i], ratios[j]);
	}
}

/* As many passes as the ratio says fit into an hour, with less than 1 ms each to spare. */
static void period_shares_an_hour(struct kunit *test)
{
	unsigned int ratio, ms;

	for (ratio = 1; ratio <= 3600; ratio++) {
		ms = nx_recovery_period_ms(0, ratio);

		KUNIT_EXPECT_LE_MSG(test, ms * ratio, HOUR_MS, "ratio %u: %u ms", ratio, ms);
		KUNIT_EXPECT_GT_MSG(test, (ms + 1) * ratio, HOUR_MS, "ratio %u: %u ms", ratio, ms);
	}
}

static void period_is_never_under_a_second(struct kunit *test)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(ratios); i++)
		KUNIT_EXPECT_GE_MSG(test, nx_recovery_period_ms(0, ratios[i]), 1000u,
				    "ratio %u", ratios[i]);
}

struct quota_case {
	const char *desc;
	unsigned long nr_pages;
	unsigned int ratio;
	unsigned long want;
};

static const struct quota_case quota_cases[] = {
	{ "ratio 0, no page: none", 0, 0, 0 },
	{ "ratio 0, 1 page: none", 1, 0, 0 },
	{ "ratio 0, ULONG_MAX pages: none", ULONG_MAX, 0, 0 },
	{ "ratio 1, no page: none", 0, 1, 0 },
	{ "ratio 1, 1 page: 1", 1, 1, 1 },
	{ "ratio 1, 32 pages: all", 32, 1, 32 },
	{ "ratio 1, ULONG_MAX pages: all", ULONG_MAX, 1, ULONG_MAX },
	{ "ratio 2, ULONG_MAX pages: half, rounded up", ULONG_MAX, 2, ULONG_MAX / 2 + 1 },
	{ "ratio 60, no page: none", 0, 60, 0 },
	{ "ratio 60, 1 page: 1", 1, 60, 1 },
	{ "ratio 60, 59 pages: 1", 59, 60, 1 },
	{ "ratio 60, 60 pages: 1", 60, 60, 1 },
	{ "ratio 60, 61 pages: 2", 61, 60, 2 },
	{ "ratio 60, 120 pages: 2", 120, 60, 2 },
	{ "ratio UINT_MAX, no page: none", 0, UINT_MAX, 0 },
	{ "ratio UINT_MAX, 1 page: 1", 1, UINT_MAX, 1 },
	{ "ratio UINT_MAX, UINT_MAX pages: 1", UINT_MAX, UINT_MAX, 1 },
};

static void quota_case_desc(const struct quota_case *c, char *desc)
{
	strscpy(desc, c->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(quota, quota_cases, quota_case_desc);

static void quota_by_ratio(struct kunit *test)
{
	const struct quota_case *c = test->param_value;

	KUNIT_EXPECT_EQ_MSG(test, nx_recovery_quota(c->nr_pages, c->ratio), c->want,
			    "%lu pages, ratio %u", c->nr_pages, c->ratio);
}

/* The least number that is not under the exact share: one fewer would be. */
static void expect_rounded_up(struct kunit *test, unsigned long nr_pages, unsigned int ratio)
{
	unsigned long nr = nx_recovery_quota(nr_pages, ratio);

	if (!nr_pages) {
		KUNIT_EXPECT_EQ_MSG(test, nr, 0ul, "0 pages, ratio %u", ratio);
		return;
	}

	KUNIT_EXPECT_NE_MSG(test, nr, 0ul, "%lu pages, ratio %u", nr_pages, ratio);
	KUNIT_EXPECT_EQ_MSG(test, nr - 1, (nr_pages - 1) / ratio,
			    "%lu pages, ratio %u", nr_pages, ratio);
}

static void quota_rounds_up(struct kunit *test)
{
	unsigned long ratio, d;
	int i;

	for (i = 0; i < ARRAY_SIZE(ratios); i++) {
		ratio = ratios[i];
		for (d = 0; d < 3; d++) {
			expect_rounded_up(test, d, ratio);
			expect_rounded_up(test, ratio + d - 1, ratio);
			expect_rounded_up(test, 2 * ratio + d - 1, ratio);
			expect_rounded_up(test, ULONG_MAX - d, ratio);
			expect_rounded_up(test, ULONG_MAX - ratio + d, ratio);
		}
	}
}

static void quota_rounds_up_random(struct kunit *test)
{
	struct rnd_state rnd;
	unsigned int ratio;
	int i;

	prandom_seed_state(&rnd, 0x1ce);
	for (i = 0; i < 10000; i++) {
		/* Spread over the magnitudes, uniform numbers are all large ones. */
		ratio = prandom_u32_state(&rnd) >> (i % 32) ?: 1;
		expect_rounded_up(test, prandom_u32_state(&rnd) >> (i % 31), ratio);
		expect_rounded_up(test, ULONG_MAX - prandom_u32_state(&rnd), ratio);
	}
}

/* The default ratio, 60: of anything, fewer than half is left after an hour. */
static void defaults_halve_in_an_hour(struct kunit *test)
{
	static const unsigned long sizes[] = {
		1, 2, 3, 59, 60, 61, 119, 120, 121, 512, 1000, 1u << 20, INT_MAX, ULONG_MAX
	};
	unsigned long left;
	unsigned int pass;
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		left = sizes[i];
		for (pass = 0; pass < HOUR_MS / nx_recovery_period_ms(0, 60); pass++)
			left -= nx_recovery_quota(left, 60);

		KUNIT_EXPECT_LT_MSG(test, left, sizes[i] - left,
				    "%lu of %lu left", left, sizes[i]);
	}
}

static void passes_end_with_no_page_left(struct kunit *test)
{
	unsigned long left = 1u << 20;
	unsigned int pass = 0;

	/* 60 * ln(2^20) passes down to 60 pages, and one for each of those. */
	while (left && pass++ < 60 * 14 + 60)
		left -= nx_recovery_quota(left, 60);

	KUNIT_EXPECT_EQ_MSG(test, left, 0ul, "after %u passes", pass);
}

static struct kunit_case kvm_nx_recovery_cases[] = {
	KUNIT_CASE_PARAM(slot_flags, slot_gen_params),
	KUNIT_CASE(slot_flags_each_bit),
	KUNIT_CASE(slot_flags_random),
	KUNIT_CASE_PARAM(enabled_by_parameters, enabled_gen_params),
	KUNIT_CASE_PARAM(period_by_ratio, period_gen_params),
	KUNIT_CASE(period_asked_for_wins),
	KUNIT_CASE(period_shares_an_hour),
	KUNIT_CASE(period_is_never_under_a_second),
	KUNIT_CASE_PARAM(quota_by_ratio, quota_gen_params),
	KUNIT_CASE(quota_rounds_up),
	KUNIT_CASE(quota_rounds_up_random),
	KUNIT_CASE(defaults_halve_in_an_hour),
	KUNIT_CASE(passes_end_with_no_page_left),
	{}
};

static struct kunit_suite kvm_nx_recovery_suite = {
	.name = "kvm_nx_recovery",
	.test_cases = kvm_nx_recovery_cases,
};

kunit_test_suite(kvm_nx_recovery_suite);

MODULE_DESCRIPTION("KUnit tests for the policy of KVM's NX huge page recovery worker");
MODULE_LICENSE("GPL");
