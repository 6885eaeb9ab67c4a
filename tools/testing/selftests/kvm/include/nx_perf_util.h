/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Helpers for KVM's perf tests: parsing and checking of what a user may get wrong,
 * and the CPU time of the thread that recovers NX huge pages.
 */
#ifndef SELFTEST_KVM_NX_PERF_UTIL_H
#define SELFTEST_KVM_NX_PERF_UTIL_H

#include "nx_recovery_util.h"

#include <dirent.h>

#include "guest_modes.h"

/* What is memstress in newer libraries; a percentage was a fraction then. */
#if __has_include("memstress.h")
#include "memstress.h"
#else
#include "perf_test_util.h"

#define memstress_args			perf_test_args
#define memstress_vcpu_args		perf_test_vcpu_args
#define memstress_create_vm		perf_test_create_vm
#define memstress_destroy_vm		perf_test_destroy_vm
#define memstress_start_vcpu_threads	perf_test_start_vcpu_threads
#define memstress_join_vcpu_threads	perf_test_join_vcpu_threads

static inline void memstress_set_write_percent(struct kvm_vm *vm, u32 percent)
{
	perf_test_set_wr_fract(vm, percent ? 100 / percent : INT_MAX);
}
#endif

/*
 * The VM_SHAPE() of newer libraries.  Reserve page tables to map @bytes by 2MiB
 * entries, of which a page table holds as many as of those for small pages.
 */
static inline struct kvm_vm *nx_vm_create(enum vm_guest_mode mode, u32 nr_vcpus, u64 bytes)
{
#ifdef VM_SHAPE
	return __vm_create(VM_SHAPE(mode), nr_vcpus, bytes / NX_HPAGE_SIZE);
#else
	return __vm_create(mode, nr_vcpus, bytes / NX_HPAGE_SIZE);
#endif
}

/* The library's parse_size() has no words for what it can't parse. */
static inline u64 nx_parse_size(const char *what, const char *str)
{
	static const char suffixes[] = "kmgt";
	const char *suffix = "";
	unsigned long val;
	int shift = 0;
	char *end;

	errno = 0;
	val = strtoul(str, &end, 0);
	if (*end) {
		suffix = strchr(suffixes, tolower(*end));
		if (suffix)
			shift = 10 * (suffix - suffixes + 1);
	}
	if (!isdigit(*str) || !suffix || (shift && end[1]) || errno ||
	    (val << shift) >> shift != val)
		nx_die("%s must be a size, e.g. 64M, not '%s'", what, str);
	return val << shift;
}

static inline enum vm_mem_backing_src_type nx_parse_backing_src(const char *what, const char *str)
{
	int i;

	for (i = 0; i < NUM_SRC_TYPES; i++) {
		if (!strcmp(vm_mem_backing_src_alias(i)->name, str))
			return i;
	}
	nx_die("%s has no backing source '%s', see -h", what, str);
}

static inline void nx_parse_guest_mode(const char *what, const char *str)
{
	unsigned int mode = nx_parse_uint(what, str);

	if (mode >= NUM_VM_MODES || !guest_modes[mode].supported)
		nx_skip("%s: guest mode %s is not supported here", what, str);
	guest_modes_cmdline(str);
}

static inline void nx_check_range(const char *what, u32 val, u32 max)
{
	if (!val || val > max)
		nx_die("%s must be from 1 to %u here, not %u", what, max, val);
}

/* What the perf tests' VMs have in common, and the options that set it. */
struct nx_vm_params {
	u32 nr_vcpus;
	u64 vcpu_bytes;
	enum vm_mem_backing_src_type src;
	u32 nr_slots;
	bool overlap;
};

#define NX_VM_OPTIONS	"m:v:b:s:x:o"
#define NX_VM_USAGE	"[-m mode] [-v vcpus] [-b size] [-s source] [-x slots] [-o]"

#define NX_VM_DEFAULTS								\
{										\
	.nr_vcpus = 1,								\
	.vcpu_bytes = 1UL << 30,						\
	.src = DEFAULT_VM_MEM_SRC,						\
	.nr_slots = 1,								\
}

/* Returns false if it's none of NX_VM_OPTIONS. */
static inline bool nx_parse_vm_option(struct nx_vm_params *p, int opt, const char *arg)
{
	switch (opt) {
	case 'm':
		nx_parse_guest_mode("-m", arg);
		return true;
	case 'v':
		p->nr_vcpus = nx_parse_uint("-v", arg);
		return true;
	case 'b':
		p->vcpu_bytes = nx_parse_size("-b", arg);
		return true;
	case 's':
		p->src = nx_parse_backing_src("-s", arg);
		return true;
	case 'x':
		p->nr_slots = nx_parse_uint("-x", arg);
		return true;
	case 'o':
		p->overlap = true;
		return true;
	default:
		return false;
	}
}

static inline void nx_print_vm_help(void)
{
	guest_modes_help();
	printf(" -v: The number of vCPUs, default 1.  Several contend for KVM's locks.\n"
	       " -b: The bytes of memory per vCPU, default 1G.  The suffixes are K, M, G and T.\n");
	backing_src_help("-s");
	printf(" -x: Split the memory into this many memslots, default 1.  KVM has to search for\n"
	       "     a memslot, more of them show what that costs.\n"
	       " -o: Overlap, i.e. every vCPU accesses all of the memory in place of its part of it.\n"
	       "     Has the vCPUs contend for the same pages.\n");
}

/*
 * Check what makes a VM: -v, -b, -x and -s.  Say what is missing before the library
 * says that something failed.
 */
static inline void nx_check_vm(const struct nx_vm_params *p)
{
	u64 page = get_backing_src_pagesz(p->src), size, need, have, reserved;
	const char *name = vm_mem_backing_src_alias(p->src)->name;
	char path[80];

	nx_check_range("-v", p->nr_vcpus,
		       min_t(u32, kvm_check_cap(KVM_CAP_MAX_VCPUS), KVM_MAX_VCPUS));
	nx_check_range("-x", p->nr_slots, kvm_check_cap(KVM_CAP_NR_MEMSLOTS) - 1);
	if (!p->vcpu_bytes || p->vcpu_bytes > ULONG_MAX / 2 / p->nr_vcpus)
		nx_die("-b must be more than 0 bytes, and less than half of all there can be");

	size = p->nr_vcpus * p->vcpu_bytes;
	if (size % p->nr_slots || size / p->nr_slots % page)
		nx_die("%lu bytes in %u slots: a slot of %s must be a multiple of %lu bytes",
		       (long)size, p->nr_slots, name, (long)page);
	if (p->vcpu_bytes % getpagesize())
		nx_die("-b must be a multiple of the guest's page size, %d", getpagesize());

	if (!is_backing_src_hugetlb(p->src)) {
		have = nx_read_number("/proc/meminfo", "MemAvailable:") * 1024;
		if (size > have)
			nx_die("%u times %lu bytes don't fit into the %lu bytes that are available",
			       p->nr_vcpus, (long)p->vcpu_bytes, (long)have);
		return;
	}

	need = size / page;
	snprintf(path, sizeof(path), NX_HUGEPAGES "free_hugepages", (long)page / 1024);
	have = nx_read_number(path, "");
	/* What others have mapped but not touched yet is counted as free. */
	snprintf(path, sizeof(path), NX_HUGEPAGES "resv_hugepages", (long)page / 1024);
	have -= min_t(u64, have, nx_read_number(path, ""));
	snprintf(path, sizeof(path), NX_HUGEPAGES "nr_hugepages", (long)page / 1024);
	reserved = nx_read_number(path, "");
	if (have < need)
		nx_skip("%s needs %lu free huge pages, %lu are: echo %lu > %s", name,
			(long)need, (long)have, (long)(reserved + need - have), path);
}

/*
 * The thread that recovers NX huge pages.  Depending on the kernel it's a thread of
 * the VM's process, or a kthread that is named after the one that created the VM.
 * No user's thread has a name as long as the latter's.
 */
#define NX_WORKER	"kvm-nx-lpage-re"

static inline int nx_match_threads(const char *dir, const char *name, char *path, size_t size)
{
	struct dirent *entry;
	char buf[300];
	int nr = 0;
	ssize_t len;
	DIR *d;
	int fd;

	d = opendir(dir);
	if (!d)
		return 0;

	while ((entry = readdir(d))) {
		if (!isdigit(entry->d_name[0]))
			continue;

		snprintf(buf, sizeof(buf), "%s/%s/comm", dir, entry->d_name);
		fd = open(buf, O_RDONLY);
		if (fd < 0)
			continue;
		len = read(fd, buf, sizeof(buf) - 1);
		close(fd);

		buf[len > 0 ? len : 0] = '\0';
		buf[strcspn(buf, "\n")] = '\0';
		if (strcmp(buf, name))
			continue;

		snprintf(path, size, "%s/%s", dir, entry->d_name);
		nr++;
	}
	closedir(d);
	return nr;
}

/* Find the worker of this process' one VM; never settle for another VM's. */
static inline bool nx_find_worker(char *path, size_t size)
{
	char name[64];
	int nr;

	snprintf(name, sizeof(name), NX_WORKER "covery-%d", getpid());
	nr = nx_match_threads("/proc/self/task", NX_WORKER, path, size) ?:
	     nx_match_threads("/proc", name, path, size);
	return nr == 1;
}

/* True as well if there is no worker to be found. */
static inline bool nx_worker_sleeps(void)
{
	char path[300], stat[256] = {}, *state;
	FILE *f;

	if (!nx_find_worker(path, sizeof(path) - 10))
		return true;

	strcat(path, "/stat");
	f = fopen(path, "r");
	if (!f)
		return true;
	state = fgets(stat, sizeof(stat), f) ? strrchr(stat, ')') : NULL;
	fclose(f);
	return state && state[1] == ' ' && state[2] != 'R';
}

/* The worker's CPU time so far.  Fails without a worker, or without the statistics. */
static inline bool nx_worker_runtime_ns(u64 *ns)
{
	char path[300], line[256];
	unsigned long ms, frac;
	bool found = false;
	size_t len;
	FILE *f;

	if (!nx_find_worker(path, sizeof(path) - 10))
		return false;

	len = strlen(path);
	snprintf(path + len, sizeof(path) - len, "/sched");
	f = fopen(path, "r");
	while (f && !found && fgets(line, sizeof(line), f)) {
		found = sscanf(line, "se.sum_exec_runtime : %lu.%6lu", &ms, &frac) == 2;
		if (found)
			*ns = ms * 1000000 + frac;
	}
	if (f)
		fclose(f);
	if (found)
		return true;

	snprintf(path + len, sizeof(path) - len, "/schedstat");
	if (access(path, R_OK))
		return false;
	*ns = nx_read_number(path, "");
	return true;
}

#endif /* SELFTEST_KVM_NX_PERF_UTIL_H */
