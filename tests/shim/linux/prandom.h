/* SPDX-License-Identifier: GPL-2.0 */
#include <linux/types.h>

/* Any generator will do that spreads over 32 bits. */
struct rnd_state {
	__u64 state;
};

static inline void prandom_seed_state(struct rnd_state *rnd, __u64 seed)
{
	rnd->state = seed;
}

static inline __u32 prandom_u32_state(struct rnd_state *rnd)
{
	rnd->state = rnd->state * 6364136223846793005ull + 1442695040888963407ull;
	return rnd->state >> 32;
}
