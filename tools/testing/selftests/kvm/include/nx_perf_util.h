/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Helpers for KVM's perf tests: parsing of what a user may get wrong, and the CPU
 * time of the thread that recovers NX huge pages.
 */
#ifndef SELFTEST_KVM_NX_PERF_UTIL_H
#define SELFTEST_KVM_NX_PERF_UTIL_H

#include "nx_recovery_util.h"

#include <dirent.h>

/* The VM_SHAPE() of newer libraries. */
static inline struct kvm_vm *nx_vm_create(enum vm_guest_mode mode, u32 nr_vcpus)
{
#ifdef VM_SHAPE
	return __vm_create(VM_SHAPE(mode), nr_vcpus, 0);
#else
	return __vm_create(mode, nr_vcpus, 0);
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

/* The first number in a file, or, if there is a @key, behind that.  0 if there is none. */
static inline u64 nx_read_number(const char *path, const char *key)
{
	size_t len = strlen(key);
	char line[256];
	u64 val = 0;
	FILE *f;

	f = fopen(path, "r");
	if (!f)
		return 0;

	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, key, len)) {
			val = strtoul(line + len + strspn(line + len, " \t:"), NULL, 10);
			break;
		}
	}
	fclose(f);
	return val;
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
	strcpy(path + len, "/sched");
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

	strcpy(path + len, "/schedstat");
	if (access(path, R_OK))
		return false;
	*ns = nx_read_number(path, "");
	return true;
}

#endif /* SELFTEST_KVM_NX_PERF_UTIL_H */
