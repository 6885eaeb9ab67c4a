// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure what access tracking costs: the host, to mark a guest's memory idle, and
 * the guest, to access memory that was marked.
 *
 * KVM learns that memory is to be tracked from the MMU notifiers.  They can't be
 * called from userspace, but marking a page idle calls one of them, and so does the
 * aging of the multi-gen LRU.  Breaking down the output:
 *
 *  - "Populating memory": the time it takes all vCPUs to write to each page of their
 *    memory for the first time.
 *
 *  - "Writing to populated memory", "Reading from populated memory": the control for
 *    all that follows, nothing is left to be mapped.
 *
 *  - "Mark memory idle": the time it takes to mark all of that memory.
 *
 *  - "Writing to idle memory", "Reading from idle memory": the time it takes the
 *    vCPUs to access what was marked.  Compare to the control.
 *
 * Two mechanisms mark memory:
 *
 *  - page_idle: /sys/kernel/mm/page_idle/bitmap has a bit for each page frame.  Only
 *    pages on an LRU list can be marked, which HugeTLB pages never are, and a
 *    compound page has a single mark, that of its head.  Such a head, or a page by
 *    itself, is a "unit" below.
 *
 *  - lru_gen: where the multi-gen LRU is on, it consumes the accessed bits that idle
 *    page tracking depends on, but ages a memory cgroup's pages on command.  Not
 *    every kernel has it look at what a guest accesses.
 *
 * What was marked is read back while no clock is running: each unit must be idle
 * then, and no longer be after the guest's access, or else there is nothing that the
 * times could be the times of.
 */
#include "nx_perf_util.h"

#include <getopt.h>
#include <mntent.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

#include <linux/bits.h>

#define PAGEMAP			"/proc/self/pagemap"
#define PM_PFN_MASK		(BIT_ULL(55) - 1)
#define PM_SWAPPED		BIT_ULL(62)
#define PM_PRESENT		BIT_ULL(63)

#define KPAGEFLAGS		"/proc/kpageflags"
#define KPF_LRU			BIT_ULL(5)
#define KPF_COMPOUND_TAIL	BIT_ULL(16)
#define KPF_HUGE		BIT_ULL(17)

#define PAGE_IDLE		"/sys/kernel/mm/page_idle/bitmap"
#define PFNS_PER_WORD		64

#define LRU_GEN			"/sys/kernel/debug/lru_gen"

/*
 * How much to look at in one go.  More doesn't make it faster, and it's all there is
 * in memory at any time, however large the guest.
 */
#define CHUNK_PAGES		32768

/* sysfs takes no more than this at once. */
#define RUN_WORDS		(4096 / sizeof(u64))

/* Pages may be migrated, or be in a per-CPU batch, just when they're looked at. */
#define MAX_ATTEMPTS		10

/* At least this much must have been idle, and then not. */
#define MIN_ACCESSED_PERCENT	90

/*
 * Nothing flushes the TLBs when memory is marked.  What a TLB still holds can be
 * accessed unseen, and the largest ones have a few thousand entries.
 */
#define MAX_TLB_ENTRIES		4096

enum mechanism {
	AUTO,
	PAGE_IDLE_BITMAP,
	LRU_GEN_AGING,
	NR_MECHANISMS,
};

static const char * const mechanisms[] = {
	[AUTO] = "auto",
	[PAGE_IDLE_BITMAP] = "page_idle",
	[LRU_GEN_AGING] = "lru_gen",
};

enum warn_only {
	WARN_AUTO,
	WARN_ON,
	WARN_OFF,
	NR_WARN_ONLY,
};

static const char * const warn_only_names[] = {
	[WARN_AUTO] = "auto",
	[WARN_ON] = "on",
	[WARN_OFF] = "off",
};

/* The command line. */
static struct nx_vm_params vm_params = NX_VM_DEFAULTS;

static struct params {
	u32 rounds;
	u32 nr_markers;
	enum mechanism mechanism;
	enum warn_only warn_only;
} params = {
	.rounds = 1,
	.nr_markers = 1,
};

/* What a pass over the guest's memory has found, in pages but for the units. */
struct tally {
	u64 pages;
	u64 absent;
	u64 swapped;
	u64 tails;
	u64 huge;
	u64 off_lru;
	/* Can be marked, but not be read back. */
	u64 blind;
	u64 units;
	u64 idle;
	/* Marked once more as they weren't idle at first. */
	u64 again;
};

/* Adjacent words of the bitmap. */
struct run {
	u64 first;
	u32 nr;
	/* The PFNs of the scan that it stands for. */
	u32 from;
	u32 to;
	u64 mask[RUN_WORDS];
};

/* A thread's way through the guest's memory. */
struct scan {
	u64 start;
	u64 end;
	bool mark;
	struct tally tally;
	/* Nanoseconds in system calls. */
	u64 kernel_ns;

	u64 entries[CHUNK_PAGES];
	/* The page frames of what is present, ascending. */
	u64 pfns[CHUNK_PAGES];
	u32 nr;
	u32 pos;

	struct run run;
	u64 words[RUN_WORDS];
	u64 flags[RUN_WORDS * PFNS_PER_WORD];
};

#define MAX_NODES		64

/* What the multi-gen LRU says of the test's memory cgroup, in anonymous pages. */
struct generations {
	unsigned long memcg;
	u64 pages;
	/* All but those of each node's two youngest generations. */
	u64 old;
	u32 nr_nodes;
	struct {
		u32 id;
		unsigned long youngest;
	} nodes[MAX_NODES];
};

/* How an access to idle memory went. */
struct result {
	const char *what;
	struct tally marked;
	u64 still_idle;
};

static struct kvm_vm *vm;
static u64 page_size;
static int pagemap_fd, kpageflags_fd, page_idle_fd;
static enum mechanism mechanism;
static char why[160];
static pthread_barrier_t barrier;
static bool done;

static struct result *results;
static u32 nr_results;
static u64 nr_marked, marking_ns, marking_kernel_ns;

/* The test's memory cgroup, where the test was before, and what was changed for it. */
static char cgroup[PATH_MAX + 64], cgroup_procs[PATH_MAX + 80];
static char cgroup_home[PATH_MAX + 64], cgroup_control[PATH_MAX + 64];
static bool cgroup_made, cgroup_control_changed;
/* What is in that cgroup besides the guest's memory. */
static u64 other_pages;

static u64 elapsed_ns(struct timespec start)
{
	struct timespec elapsed = timespec_elapsed(start);

	return elapsed.tv_sec * 1000000000ULL + elapsed.tv_nsec;
}

static int compare_pfns(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return (x > y) - (x < y);
}

/* Read all that can be read, return the bytes. */
static size_t read_all(struct scan *s, int fd, const char *path, void *buf, size_t size, u64 pos)
{
	struct timespec start;
	size_t len = 0;
	ssize_t ret;

	clock_gettime(CLOCK_MONOTONIC, &start);
	while (len < size) {
		ret = pread(fd, buf + len, size - len, pos + len);
		if (!ret || (ret < 0 && errno == ENXIO))
			break;
		if (ret < 0)
			nx_die("Reading %s failed: %s", path, strerror(errno));
		len += ret;
	}
	s->kernel_ns += elapsed_ns(start);
	return len;
}

/* Find the page frames of the @nr pages at @hva. */
static void scan_pages(struct scan *s, u64 hva, u32 nr)
{
	bool ascending = true;
	u64 entry, prev = 0;
	size_t len;
	u32 i;

	len = read_all(s, pagemap_fd, PAGEMAP, s->entries, nr * sizeof(*s->entries),
		       hva / page_size * sizeof(*s->entries));
	TEST_ASSERT(len == nr * sizeof(*s->entries), PAGEMAP " ends within the guest's memory");

	s->nr = 0;
	s->pos = 0;
	s->tally.pages += nr;
	for (i = 0; i < nr; i++) {
		entry = s->entries[i];
		if (!(entry & PM_PRESENT)) {
			s->tally.absent++;
			s->tally.swapped += !!(entry & PM_SWAPPED);
			continue;
		}
		entry &= PM_PFN_MASK;
		ascending &= entry > prev;
		prev = entry;
		s->pfns[s->nr++] = entry;
	}
	if (!ascending)
		qsort(s->pfns, s->nr, sizeof(*s->pfns), compare_pfns);
}

/* The next words of the bitmap that the page frames are in. */
static struct run *next_run(struct scan *s)
{
	struct run *run = &s->run;
	u64 pfn, word;

	if (s->pos == s->nr)
		return NULL;

	run->first = s->pfns[s->pos] / PFNS_PER_WORD;
	run->nr = 0;
	run->from = s->pos;
	for (; s->pos < s->nr; s->pos++) {
		pfn = s->pfns[s->pos];
		word = pfn / PFNS_PER_WORD - run->first;
		if (word > run->nr || word == RUN_WORDS)
			break;
		if (word == run->nr)
			run->mask[run->nr++] = 0;
		run->mask[word] |= BIT_ULL(pfn % PFNS_PER_WORD);
	}
	run->to = s->pos;
	return run;
}

static void mark_run(struct scan *s, struct run *run)
{
	size_t size = run->nr * sizeof(u64), len = 0;
	struct timespec start;
	ssize_t ret;

	clock_gettime(CLOCK_MONOTONIC, &start);
	while (len < size) {
		ret = pwrite(page_idle_fd, (void *)run->mask + len, size - len,
			     run->first * sizeof(u64) + len);
		/*
		 * The last word, if memory ends within it, takes effect but isn't
		 * counted.  Beyond it are no pages that can be marked.
		 */
		if (!ret || (ret < 0 && errno == ENXIO))
			break;
		if (ret < 0)
			nx_die("Writing to " PAGE_IDLE " failed: %s", strerror(errno));
		len += ret;
	}
	s->kernel_ns += elapsed_ns(start);
}

static void mark_pages(struct scan *s)
{
	struct run *run;

	while ((run = next_run(s)))
		mark_run(s, run);
}

/* Look at what is idle, and leave in the scan what isn't but could be. */
static void check_pages(struct scan *s)
{
	struct tally *t = &s->tally;
	u64 pfn, flags;
	size_t words, nr_flags;
	u32 i, bit, kept = 0;
	struct run *run;

	while ((run = next_run(s))) {
		nr_flags = read_all(s, kpageflags_fd, KPAGEFLAGS, s->flags,
				    run->nr * PFNS_PER_WORD * sizeof(u64),
				    run->first * PFNS_PER_WORD * sizeof(u64)) / sizeof(u64);
		words = read_all(s, page_idle_fd, PAGE_IDLE, s->words, run->nr * sizeof(u64),
				 run->first * sizeof(u64)) / sizeof(u64);

		for (i = run->from; i < run->to; i++) {
			pfn = s->pfns[i];
			bit = pfn - run->first * PFNS_PER_WORD;
			flags = bit < nr_flags ? s->flags[bit] : 0;

			if (flags & KPF_HUGE) {
				t->huge++;
			} else if (flags & KPF_COMPOUND_TAIL) {
				t->tails++;
			} else if (!(flags & KPF_LRU)) {
				t->off_lru++;
			} else if (bit / PFNS_PER_WORD >= words) {
				t->blind++;
			} else {
				t->units++;
				if (s->words[bit / PFNS_PER_WORD] >> bit % PFNS_PER_WORD & 1)
					t->idle++;
				else
					s->pfns[kept++] = pfn;
			}
		}
	}
	s->nr = kept;
	s->pos = 0;
}

/* Look at @nr pages, and mark once more those that a mark did not stick to. */
static void verify_pages(struct scan *s, u64 hva, u32 nr)
{
	struct tally before = s->tally;
	u64 again = 0;
	int attempt;

	for (attempt = 0; ; attempt++) {
		s->tally = before;
		scan_pages(s, hva, nr);
		check_pages(s);
		if (!s->mark || !s->nr || attempt == MAX_ATTEMPTS)
			break;
		again += s->nr;
		mark_pages(s);
		usleep(1000);
	}
	s->tally.again += again;
}

/* Call @fn for the scan's part of the guest's memory, a chunk at a time. */
static void walk_chunks(struct scan *s, void (*fn)(struct scan *s, u64 hva, u32 nr))
{
	u64 slot_size = memstress_args.size / vm_params.nr_slots;
	u64 offset, size;

	for (offset = s->start; offset < s->end; offset += size) {
		size = min_t(u64, s->end - offset, CHUNK_PAGES * page_size);
		/* Slots that adjoin in the guest don't in the host. */
		size = min_t(u64, size, slot_size - offset % slot_size);
		fn(s, (u64)addr_gpa2hva(vm, memstress_args.gpa + offset), size / page_size);
	}
}

static void mark_chunk(struct scan *s, u64 hva, u32 nr)
{
	scan_pages(s, hva, nr);
	mark_pages(s);
}

static void *marker(void *scan)
{
	walk_chunks(scan, mark_chunk);
	return NULL;
}

static struct scan *alloc_scan(u64 start, u64 end)
{
	struct scan *s = calloc(1, sizeof(*s));

	TEST_ASSERT(s, "No memory");
	/* Don't have the first marking pay for that. */
	memset(s, 0xff, sizeof(*s));
	memset(s, 0, offsetof(struct scan, entries));
	s->start = start;
	s->end = end;
	return s;
}

static u64 page_idle_mark(void)
{
	u64 share = memstress_args.size / page_size / params.nr_markers * page_size;
	struct scan *scans[params.nr_markers];
	pthread_t threads[params.nr_markers];
	struct timespec start;
	u32 i, last = params.nr_markers - 1;
	u64 ns;

	for (i = 0; i <= last; i++)
		scans[i] = alloc_scan(i * share, i == last ? memstress_args.size : (i + 1) * share);

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (i = 0; i < last; i++)
		pthread_create(&threads[i], NULL, marker, scans[i]);
	marker(scans[last]);
	for (i = 0; i < last; i++)
		pthread_join(threads[i], NULL);
	ns = elapsed_ns(start);

	for (i = 0; i <= last; i++) {
		marking_kernel_ns += scans[i]->kernel_ns;
		nr_marked += scans[i]->tally.pages - scans[i]->tally.absent;
		free(scans[i]);
	}
	return ns;
}

static struct tally page_idle_check(bool mark)
{
	struct scan *s = alloc_scan(0, memstress_args.size);
	struct tally tally;

	s->mark = mark;
	walk_chunks(s, verify_pages);
	tally = s->tally;
	free(s);
	return tally;
}

static bool write_str(const char *path, const char *str)
{
	ssize_t len = strlen(str);
	bool written;
	int fd;

	fd = open(path, O_WRONLY);
	if (fd < 0)
		return false;
	written = write(fd, str, len) == len;
	close(fd);
	return written;
}

/* Not only this process has to go: KVM may run a kthread where the VM was created. */
static void move_home(void)
{
	char pids[256], *pid, *end;
	int from, to;
	ssize_t len;

	from = open(cgroup_procs, O_RDONLY);
	to = open(cgroup_home, O_WRONLY);
	len = from < 0 ? 0 : read(from, pids, sizeof(pids) - 1);
	if (len > 0 && to >= 0) {
		pids[len] = '\0';
		for (pid = pids; (end = strchr(pid, '\n')); pid = end + 1) {
			/* Failing here, removing the cgroup fails. */
			if (write(to, pid, end - pid) < 0)
				break;
		}
	}
	close(from);
	close(to);
}

/* May be called by a signal handler. */
static void leave_cgroup(void)
{
	static const char msg[] = "Failed to remove the test's memory cgroup\n";

	if (cgroup_made) {
		move_home();
		cgroup_made = rmdir(cgroup);
		if (cgroup_made && write(STDERR_FILENO, msg, sizeof(msg) - 1) < 0)
			return;
	}
	if (cgroup_control_changed) {
		write_str(cgroup_control, "-memory");
		cgroup_control_changed = false;
	}
}

/* A file of one short line of words. */
static bool file_has_word(const char *path, const char *word)
{
	char buf[512] = {}, *pos = buf, *item;
	bool found = false;
	int fd;

	fd = open(path, O_RDONLY);
	if (fd < 0)
		return false;
	if (read(fd, buf, sizeof(buf) - 1) > 0) {
		while (!found && (item = strsep(&pos, "\n ")))
			found = !strcmp(item, word);
	}
	close(fd);
	return found;
}

/* Find a hierarchy that has the memory controller, and this process in it. */
static bool find_cgroups(char *root, size_t size, bool *v2)
{
	char line[PATH_MAX], path[PATH_MAX], *own;
	bool found = false;
	struct mntent *m;
	FILE *f;

	f = setmntent("/proc/self/mounts", "r");
	while (f && !found && (m = getmntent(f))) {
		snprintf(path, sizeof(path), "%s/cgroup.controllers", m->mnt_dir);
		*v2 = !strcmp(m->mnt_type, "cgroup2");
		found = *v2 ? file_has_word(path, "memory") :
			!strcmp(m->mnt_type, "cgroup") && hasmntopt(m, "memory");
		if (found)
			snprintf(root, size, "%s", m->mnt_dir);
	}
	if (f)
		endmntent(f);
	if (!found)
		return false;

	/* N:CONTROLLERS:PATH, there being no controllers in the new hierarchy's. */
	found = false;
	f = fopen("/proc/self/cgroup", "r");
	while (f && !found && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		own = strstr(line, *v2 ? "::/" : ":memory:/");
		found = own;
		if (found)
			snprintf(cgroup_home, sizeof(cgroup_home), "%s%s/cgroup.procs", root,
				 strchr(own, '/'));
	}
	if (f)
		fclose(f);
	return found;
}

/* Move to a memory cgroup of the test's own, so that nothing else is aged. */
static const char *enter_cgroup(void)
{
	char root[PATH_MAX];
	bool v2;

	if (!find_cgroups(root, sizeof(root), &v2))
		return "no cgroup filesystem with the memory controller is mounted";

	snprintf(cgroup_control, sizeof(cgroup_control), "%s/cgroup.subtree_control", root);
	if (v2 && !file_has_word(cgroup_control, "memory")) {
		cgroup_control_changed = write_str(cgroup_control, "+memory");
		if (!cgroup_control_changed)
			return "the memory controller can't be enabled for cgroups";
	}

	snprintf(cgroup, sizeof(cgroup), "%s/%s.%d", root, program_invocation_short_name,
		 getpid());
	cgroup_made = !mkdir(cgroup, 0755);
	if (!cgroup_made)
		return "no memory cgroup can be made";
	snprintf(cgroup_procs, sizeof(cgroup_procs), "%s/cgroup.procs", cgroup);
	if (!write_str(cgroup_procs, "0"))
		return "no process can be moved to a new memory cgroup";
	return NULL;
}

/* Fails if the cgroup isn't there. */
static bool read_generations(struct generations *g)
{
	unsigned long gen, age, anon, recent[2] = {};
	char line[PATH_MAX + 32], *name;
	bool ours = false;
	u32 node;
	FILE *f;

	memset(g, 0, sizeof(*g));
	f = fopen(LRU_GEN, "r");
	if (!f)
		return false;

	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "memcg ", 6)) {
			line[strcspn(line, "\n")] = '\0';
			name = strrchr(line, '/');
			ours = name && !strcmp(name, strrchr(cgroup, '/'));
			if (ours)
				g->memcg = strtoul(line + 6, NULL, 10);
		} else if (!ours) {
			continue;
		} else if (sscanf(line, " node %u", &node) == 1) {
			TEST_ASSERT(g->nr_nodes < MAX_NODES, "More than %d nodes", MAX_NODES);
			g->nodes[g->nr_nodes++].id = node;
			recent[0] = 0;
			recent[1] = 0;
		} else if (sscanf(line, " %lu %lu %lu", &gen, &age, &anon) == 3 && g->nr_nodes) {
			/* The youngest is the last one. */
			g->nodes[g->nr_nodes - 1].youngest = gen;
			g->pages += anon;
			g->old += recent[0];
			recent[0] = recent[1];
			recent[1] = anon;
		}
	}
	fclose(f);
	return g->nr_nodes;
}

/*
 * Have a new generation begin on each node.  The last one gets what was accessed
 * since it began, and so what was not is older than the two youngest then.
 */
static u64 lru_gen_age(void)
{
	char cmd[MAX_NODES * 64];
	struct timespec start;
	struct generations g;
	int i, len = 0;
	bool aged;
	u64 ns;

	TEST_ASSERT(read_generations(&g), LRU_GEN " has lost the test's memory cgroup");
	for (i = 0; i < g.nr_nodes; i++)
		len += snprintf(cmd + len, sizeof(cmd) - len, "+ %lu %u %lu 1 1\n", g.memcg,
				g.nodes[i].id, g.nodes[i].youngest);

	clock_gettime(CLOCK_MONOTONIC, &start);
	aged = write_str(LRU_GEN, cmd);
	ns = elapsed_ns(start);
	if (!aged)
		nx_die("Writing '%.*s' to " LRU_GEN " failed: %s", (int)strcspn(cmd, "\n"), cmd,
		       strerror(errno));
	return ns;
}

static u64 lru_gen_mark(void)
{
	u64 ns = lru_gen_age();

	marking_kernel_ns += ns;
	nr_marked += memstress_args.size / page_size;
	return ns;
}

/* Which pages were not accessed since the last aging?  That takes another one. */
static struct tally lru_gen_check(bool marked)
{
	struct tally t = { .pages = memstress_args.size / page_size };
	struct generations g;

	lru_gen_age();
	TEST_ASSERT(read_generations(&g), LRU_GEN " has lost the test's memory cgroup");
	t.units = g.pages > other_pages ? g.pages - other_pages : 0;
	t.units = min_t(u64, t.units, t.pages);
	if (marked)
		t.idle = min_t(u64, g.old, t.units);
	else
		t.idle = g.old > other_pages ? g.old - other_pages : 0;
	return t;
}

static void print_time(const char *what, u64 ns)
{
	printf("%-30s: %ld.%09lds\n", what, (long)(ns / 1000000000), (long)(ns % 1000000000));
	fflush(stdout);
}

static u64 run_vcpus(u32 write_percent)
{
	struct timespec start;

	memstress_set_write_percent(vm, write_percent);

	clock_gettime(CLOCK_MONOTONIC, &start);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return elapsed_ns(start);
}

static void vcpu_thread(struct memstress_vcpu_args *args)
{
	struct kvm_vcpu *vcpu = args->vcpu;
	struct ucall uc;

	for (;;) {
		pthread_barrier_wait(&barrier);
		if (READ_ONCE(done))
			return;

		vcpu_run(vcpu);
		TEST_ASSERT(get_ucall(vcpu, &uc) == UCALL_SYNC,
			    "vCPU %d did not finish, exit reason %s", args->vcpu_idx,
			    exit_reason_str(vcpu->run->exit_reason));
		pthread_barrier_wait(&barrier);
	}
}

static struct tally check_idle(bool marked)
{
	return mechanism == LRU_GEN_AGING ? lru_gen_check(marked) : page_idle_check(marked);
}

static void mark_idle(void)
{
	struct result *r = &results[nr_results];
	u64 ns;

	ns = mechanism == LRU_GEN_AGING ? lru_gen_mark() : page_idle_mark();
	marking_ns += ns;
	print_time("Mark memory idle", ns);

	r->marked = check_idle(true);
	if (!r->marked.units)
		nx_skip("%s tracks none of %lu pages: %lu are HugeTLB, %lu off LRU, %lu absent",
			mechanisms[mechanism], (long)r->marked.pages, (long)r->marked.huge,
			(long)r->marked.off_lru, (long)r->marked.absent);
}

static void access_idle(u32 write_percent, const char *what)
{
	struct result *r = &results[nr_results++];

	r->what = what;
	print_time(what, run_vcpus(write_percent));
	r->still_idle = check_idle(false).idle;

	/* Looking has consumed the accessed bits, but the next marking is to find some. */
	run_vcpus(0);
}

static void use_page_idle(const char *reason)
{
	u64 entry = 0;

	mechanism = PAGE_IDLE_BITMAP;
	if (access(PAGE_IDLE, F_OK))
		nx_skip("There is no " PAGE_IDLE ", the kernel needs CONFIG_IDLE_PAGE_TRACKING");

	page_idle_fd = open(PAGE_IDLE, O_RDWR);
	if (page_idle_fd < 0)
		nx_skip("Can't open " PAGE_IDLE ": %s, run as root", strerror(errno));
	kpageflags_fd = open(KPAGEFLAGS, O_RDONLY);
	if (kpageflags_fd < 0)
		nx_skip("Can't open " KPAGEFLAGS ": %s, run as root", strerror(errno));
	pagemap_fd = open(PAGEMAP, O_RDONLY);
	if (pagemap_fd < 0)
		nx_skip("Can't open " PAGEMAP ": %s", strerror(errno));

	/* This very page is present. */
	if (pread(pagemap_fd, &entry, sizeof(entry), (u64)&entry / page_size * sizeof(entry)) !=
	    sizeof(entry) || !(entry & PM_PFN_MASK))
		nx_skip(PAGEMAP " hides the page frames, it takes CAP_SYS_ADMIN to see them");

	if (!reason) {
		snprintf(why, sizeof(why), "the multi-gen LRU is off");
		return;
	}
	nx_write_setting(NX_LRU_GEN, "0");
	snprintf(why, sizeof(why), "the multi-gen LRU is off for this run: %s", reason);
}

static void dont_use_lru_gen(const char *reason)
{
	leave_cgroup();
	if (params.mechanism == LRU_GEN_AGING)
		nx_skip("lru_gen can't be used: %s", reason);
	use_page_idle(reason);
}

static void choose_mechanism(void)
{
	bool on = !access(nx_settings[NX_LRU_GEN].path, F_OK) && nx_read_setting_ul(NX_LRU_GEN);
	const char *reason;

	if (!on && params.mechanism == LRU_GEN_AGING)
		nx_skip("The multi-gen LRU is off or not there, see %s",
			nx_settings[NX_LRU_GEN].path);
	if (!on) {
		use_page_idle(NULL);
		return;
	}

	nx_restore_more = leave_cgroup;
	nx_catch_exits();
	if (params.mechanism == PAGE_IDLE_BITMAP) {
		use_page_idle("-a page_idle");
		return;
	}

	mechanism = LRU_GEN_AGING;
	snprintf(why, sizeof(why), "the multi-gen LRU is on, and sees what the guest accesses");
	reason = access(LRU_GEN, W_OK) ? "there is no " LRU_GEN : enter_cgroup();
	if (reason)
		dont_use_lru_gen(reason);
}

/* See what else the cgroup holds before the guest touches its memory. */
static void begin_lru_gen(void)
{
	struct generations g;

	if (mechanism != LRU_GEN_AGING)
		return;
	if (!read_generations(&g))
		dont_use_lru_gen(LRU_GEN " doesn't list the test's memory cgroup");
	other_pages = g.pages;
}

/* Not every kernel looks at what a guest accesses when it ages memory.  Try. */
static void probe_lru_gen(void)
{
	struct tally t;

	if (mechanism != LRU_GEN_AGING)
		return;

	lru_gen_age();
	t = lru_gen_check(true);
	if (t.units * 100 < t.pages * MIN_ACCESSED_PERCENT)
		dont_use_lru_gen("it has few of the guest's pages, and HugeTLB pages never");
	else if (t.idle * 100 < t.units * MIN_ACCESSED_PERCENT)
		dont_use_lru_gen("memory doesn't age by it");
	if (mechanism != LRU_GEN_AGING)
		return;

	run_vcpus(100);
	if (lru_gen_check(false).idle * 100 > t.units * (100 - MIN_ACCESSED_PERCENT))
		dont_use_lru_gen("it doesn't see what a guest accesses");

	/* Have something to mark. */
	run_vcpus(0);
}

static bool is_virtualized(void)
{
	bool found = false;
	char *line = NULL;
	size_t size = 0;
	FILE *f;

	f = fopen("/proc/cpuinfo", "r");
	while (f && !found && getline(&line, &size, f) > 0)
		found = !strncmp(line, "flags", 5) && strstr(line, " hypervisor");
	if (f)
		fclose(f);
	free(line);
	return found;
}

/* Why it is no failure that pages are idle, NULL if it is one. */
static const char *excuse(u64 idle)
{
	if (params.warn_only == WARN_ON)
		return "-w on";
	if (params.warn_only == WARN_OFF)
		return NULL;
	if (is_virtualized())
		return "this host is a virtual machine itself, in which accesses may go unseen";
	if (nx_read_number("/proc/sys/kernel/numa_balancing", ""))
		return "NUMA balancing is on, whose hinting faults hide accesses";
	if (idle <= (u64)MAX_TLB_ENTRIES * vm_params.nr_vcpus)
		return "the TLBs may have held as much";
	return NULL;
}

/* Returns true if that's a failure, as it is without an excuse. */
static bool complain(const char *but, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "%s: %s: ", program_invocation_short_name, but ? "warning" : "FAIL");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, but ? " (no failure: %s)\n" : "\n", but);
	return !but;
}

static u64 permille(u64 part, u64 all)
{
	return all ? part * 1000 / all : 0;
}

static bool judge(struct result *r)
{
	u64 units = r->marked.units, idle = r->marked.idle, accessed;
	const char *but = params.warn_only == WARN_ON ? "-w on" : NULL;
	bool failed = false;

	/*
	 * What moves may have to be marked again, but then its time was not measured.
	 * Nothing else but this test marks, and so there's no excuse for that.
	 */
	if (r->marked.again * 100 > units * (100 - MIN_ACCESSED_PERCENT))
		failed |= complain(but, "'%s': %lu of %lu units were not idle once marked",
				   r->what, (long)r->marked.again, (long)units);
	if ((units - idle) * 100 > units)
		failed |= complain(but, "'%s': %lu of %lu units could not be marked",
				   r->what, (long)(units - idle), (long)units);

	/* A few pages in per-CPU batches are normal, many would be missed. */
	units += r->marked.off_lru;

	accessed = idle > r->still_idle ? idle - r->still_idle : 0;
	if (accessed * 100 < units * MIN_ACCESSED_PERCENT)
		failed |= complain(excuse(r->still_idle),
				   "'%s': %lu of %lu units were idle, %lu stayed so: accessed %lu.%lu %%, not %u %%",
				   r->what, (long)idle, (long)units, (long)r->still_idle,
				   (long)permille(accessed, units) / 10,
				   (long)permille(accessed, units) % 10, MIN_ACCESSED_PERCENT);
	return failed;
}

static void print_facts(void)
{
	struct tally *t = &results[0].marked;
	u32 i;

	printf("\n%-30s: %s, %s\n", "Mechanism", mechanisms[mechanism], why);
	printf("%-30s: %lu of %lu pages", "Tracked units", (long)t->units, (long)t->pages);
	if (mechanism == PAGE_IDLE_BITMAP)
		printf(": %lu tails, %lu HugeTLB, %lu off LRU, %lu unread, %lu absent, %lu swapped",
		       (long)t->tails, (long)t->huge, (long)t->off_lru, (long)t->blind,
		       (long)t->absent, (long)t->swapped);
	printf("\n");
	for (i = 0; i < nr_results; i++)
		printf("%-30s: %lu units before, %lu after, marked again %lu\n", results[i].what,
		       (long)results[i].marked.idle, (long)results[i].still_idle,
		       (long)results[i].marked.again);
	printf("%-30s: %lu ns a page, %lu.%lu %% in system calls, %u thread%s\n", "Marking",
	       nr_marked ? (long)(marking_ns / nr_marked) : 0,
	       (long)permille(marking_kernel_ns, marking_ns) / 10,
	       (long)permille(marking_kernel_ns, marking_ns) % 10,
	       params.nr_markers, params.nr_markers == 1 ? "" : "s");
	fflush(stdout);
}

static void run_test(enum vm_guest_mode mode, void *unused)
{
	bool failed = false;
	u32 i;

	vm = memstress_create_vm(mode, vm_params.nr_vcpus, vm_params.vcpu_bytes,
				 vm_params.nr_slots, vm_params.src, !vm_params.overlap);
	printf("guest physical test memory offset: 0x%lx\n\n", (long)memstress_args.gpa);

	begin_lru_gen();
	nr_results = 0;
	pthread_barrier_init(&barrier, NULL, vm_params.nr_vcpus + 1);
	memstress_start_vcpu_threads(vm_params.nr_vcpus, vcpu_thread);

	print_time("Populating memory", run_vcpus(100));
	print_time("Writing to populated memory", run_vcpus(100));
	print_time("Reading from populated memory", run_vcpus(0));
	probe_lru_gen();
	for (i = 0; i < params.rounds; i++) {
		mark_idle();
		access_idle(100, "Writing to idle memory");
		mark_idle();
		access_idle(0, "Reading from idle memory");
	}

	WRITE_ONCE(done, true);
	pthread_barrier_wait(&barrier);
	memstress_join_vcpu_threads(vm_params.nr_vcpus);
	WRITE_ONCE(done, false);
	pthread_barrier_destroy(&barrier);
	memstress_destroy_vm(vm);

	print_facts();
	for (i = 0; i < nr_results; i++)
		failed |= judge(&results[i]);
	if (failed)
		exit(KSFT_FAIL);
}

static u32 parse_name(const char *what, const char *str, const char * const names[], u32 nr)
{
	u32 i;

	for (i = 0; i < nr; i++) {
		if (!strcmp(names[i], str))
			return i;
	}
	nx_die("%s has no choice '%s', see -h", what, str);
}

static void print_help(const char *name)
{
	printf("usage: %s [-h] " NX_VM_USAGE "\n"
	       "       [-r rounds] [-a mechanism] [-t threads] [-w auto|on|off]\n\n"
	       " -h: Display this help.\n", name);
	nx_print_vm_help();
	printf(" -r: How often to mark and access all of it, default 1, to see the times settle.\n"
	       " -t: How many threads mark the memory, default 1.  More of them help only where KVM\n"
	       "     doesn't take its MMU lock for it.\n"
	       " -a: What to mark the memory with: page_idle, lru_gen, or 'auto' (the default), which\n"
	       "     is lru_gen where the multi-gen LRU is on and sees what a guest accesses.  If it's\n"
	       "     on and page_idle is used, it's turned off meanwhile: it spoils page_idle.\n"
	       " -w: Only warn if less than %u %% of the memory was idle and then accessed: on or 1, off or 0, or\n"
	       "     'auto' (the default), i.e. when it may not be KVM's fault: in a virtual machine,\n"
	       "     with NUMA balancing, or if a TLB can hold as much as was still idle.\n\n",
	       MIN_ACCESSED_PERCENT);
}

int main(int argc, char *argv[])
{
	int opt;

	guest_modes_append_default();

	while ((opt = getopt(argc, argv, "h" NX_VM_OPTIONS "r:t:a:w:")) != -1) {
		switch (opt) {
		case 'r':
			params.rounds = nx_parse_uint("-r", optarg);
			break;
		case 't':
			params.nr_markers = nx_parse_uint("-t", optarg);
			break;
		case 'a':
			params.mechanism = parse_name("-a", optarg, mechanisms, NR_MECHANISMS);
			break;
		case 'w':
			/* A number is what this option took once. */
			if (isdigit(*optarg))
				params.warn_only = nx_parse_uint("-w", optarg) ? WARN_ON : WARN_OFF;
			else
				params.warn_only = parse_name("-w", optarg, warn_only_names,
							      NR_WARN_ONLY);
			break;
		case 'h':
			print_help(argv[0]);
			return 0;
		default:
			if (nx_parse_vm_option(&vm_params, opt, optarg))
				break;
			fprintf(stderr, "%s -h explains the options\n", argv[0]);
			return KSFT_FAIL;
		}
	}
	if (optind < argc)
		nx_die("'%s' belongs to no option, see -h", argv[optind]);

	nx_require_kvm();
	nx_check_range("-r", params.rounds, 1000000);
	nx_check_range("-t", params.nr_markers, KVM_MAX_VCPUS);
	nx_check_vm(&vm_params);

	page_size = getpagesize();
	results = calloc(2 * params.rounds, sizeof(*results));
	TEST_ASSERT(results, "No memory");
	choose_mechanism();

	for_each_guest_mode(run_test, NULL);
	return 0;
}
