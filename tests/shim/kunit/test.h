/* SPDX-License-Identifier: GPL-2.0 */
/*
 * As much of KUnit as our suite uses, for plain userspace: the mutation check builds
 * and runs the suite a hundred times.  Exit status 0 if all cases pass, else 1.
 */
#ifndef SHIM_KUNIT_TEST_H
#define SHIM_KUNIT_TEST_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))
#define KUNIT_PARAM_DESC_SIZE	128
#define strscpy(to, from, size)	snprintf(to, size, "%s", from)

struct kunit {
	const void *param_value;
	bool failed;
};

struct kunit_case {
	void (*run)(struct kunit *test);
	const char *name;
	const void *(*next)(const void *param, char *desc);
};

struct kunit_suite {
	const char *name;
	struct kunit_case *test_cases;
};

#define KUNIT_CASE(fn)			{ .run = fn, .name = #fn }
#define KUNIT_CASE_PARAM(fn, gen)	{ .run = fn, .name = #fn, .next = gen }

#define KUNIT_ARRAY_PARAM(name, array, get_desc)				\
	static const void *name##_gen_params(const void *param, char *desc)	\
	{									\
		typeof(&(array)[0]) next = param ? (typeof(next))param + 1 : array; \
										\
		if (next - (array) >= (long)ARRAY_SIZE(array))			\
			return NULL;						\
		get_desc(next, desc);						\
		return next;							\
	}

#define KUNIT_EXPECT(test, ok, fmt, ...)					\
	do {									\
		if (!(ok) && !(test)->failed) {					\
			printf("# %s: " fmt "\n", #ok, ##__VA_ARGS__);		\
			(test)->failed = true;					\
		}								\
	} while (0)

#define KUNIT_EXPECT_EQ_MSG(test, a, b, ...)	KUNIT_EXPECT(test, (a) == (b), __VA_ARGS__)
#define KUNIT_EXPECT_NE_MSG(test, a, b, ...)	KUNIT_EXPECT(test, (a) != (b), __VA_ARGS__)
#define KUNIT_EXPECT_LE_MSG(test, a, b, ...)	KUNIT_EXPECT(test, (a) <= (b), __VA_ARGS__)
#define KUNIT_EXPECT_LT_MSG(test, a, b, ...)	KUNIT_EXPECT(test, (a) < (b), __VA_ARGS__)
#define KUNIT_EXPECT_GE_MSG(test, a, b, ...)	KUNIT_EXPECT(test, (a) >= (b), __VA_ARGS__)
#define KUNIT_EXPECT_GT_MSG(test, a, b, ...)	KUNIT_EXPECT(test, (a) > (b), __VA_ARGS__)
#define KUNIT_EXPECT_TRUE_MSG(test, a, ...)	KUNIT_EXPECT(test, a, __VA_ARGS__)
#define KUNIT_EXPECT_FALSE_MSG(test, a, ...)	KUNIT_EXPECT(test, !(a), __VA_ARGS__)

static inline int kunit_run(struct kunit_suite *suite)
{
	struct kunit_case *c;
	int failed = 0, nr = 0;

	for (c = suite->test_cases; c->run; c++) {
		char desc[KUNIT_PARAM_DESC_SIZE] = "";
		struct kunit test = {};

		do {
			if (c->next) {
				test.param_value = c->next(test.param_value, desc);
				if (!test.param_value)
					break;
			}
			test.failed = false;
			c->run(&test);
			printf("%sok %d - %s %s\n", test.failed ? "not " : "", ++nr, c->name, desc);
			failed |= test.failed;
		} while (c->next);
	}

	printf("1..%d\n", nr);
	return failed;
}

#define kunit_test_suite(suite) int main(void) { return kunit_run(&(suite)); }

#endif /* SHIM_KUNIT_TEST_H */
