/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Helpers for tests of KVM's NX huge page recovery: host-wide settings that are
 * put back however the test ends, KVM's own counters, and waiting for them.
 *
 * The header also papers over what was renamed or changed in the selftest
 * library, so that one test source builds on every kernel that has the worker.
 * Only features are probed for, never versions.  Guest addresses are plain u64,
 * which is what every incarnation of the library's address types boils down to.
 */
#ifndef SELFTEST_KVM_NX_RECOVERY_UTIL_H
#define SELFTEST_KVM_NX_RECOVERY_UTIL_H

/* Not all Makefiles define it.  Include this header ahead of any other. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <linux/kernel.h>
#include <linux/types.h>

#include "test_util.h"
#include "kvm_util.h"
#include "processor.h"

#ifndef TEST_ASSERT_EQ
#define TEST_ASSERT_EQ(a, b)		ASSERT_EQ(a, b)
#endif

#ifndef TEST_ASSERT_KVM_EXIT_REASON
#define TEST_ASSERT_KVM_EXIT_REASON(vcpu, expected)				\
do {										\
	u32 __expected = (expected);						\
	u32 __reason = (vcpu)->run->exit_reason;				\
										\
	TEST_ASSERT(__reason == __expected, "Wanted exit %s, got %s",		\
		    exit_reason_str(__expected), exit_reason_str(__reason));	\
} while (0)
#endif

/*
 * What is the user's or the host's doing deserves one line that says so, not the
 * backtrace of a failed assertion.
 */
#define nx_die(fmt, ...)							\
do {										\
	fflush(stdout);								\
	fprintf(stderr, "%s: " fmt "\n", program_invocation_short_name,	\
		##__VA_ARGS__);							\
	exit(KSFT_FAIL);							\
} while (0)

#define nx_skip(fmt, ...)							\
do {										\
	fflush(stdout);								\
	fprintf(stderr, "%s: SKIP: " fmt "\n", program_invocation_short_name,	\
		##__VA_ARGS__);							\
	exit(KSFT_SKIP);							\
} while (0)

static inline unsigned int nx_parse_uint(const char *what, const char *str)
{
	unsigned long val;
	char *end;

	errno = 0;
	val = strtoul(str, &end, 0);
	if (!isdigit(*str) || *end || errno || val > INT_MAX)
		nx_die("%s must be a number from 0 to %d, not '%s'", what, INT_MAX, str);
	return val;
}

#define NX_HPAGE_SIZE		(2UL << 20)
#define NX_PAGES_PER_HPAGE	(NX_HPAGE_SIZE / PAGE_SIZE)

/* Far beyond anything a loaded or an emulated host needs. */
#define NX_DEADLINE_S		30

/*
 * Host-wide settings.  The order is the order of restoring: the mitigation goes
 * after the worker's, so that it is back at its usual pace before pages are zapped.
 */
enum nx_setting_id {
	NX_RECOVERY_RATIO,
	NX_RECOVERY_PERIOD_MS,
	NX_NR_HUGEPAGES,
	NX_HUGE_PAGES,
	NX_LRU_GEN,
	NX_NR_SETTINGS,
};

struct nx_setting {
	const char *path;
	char saved[32];
	bool changed;
};

#define NX_KVM_PARAM(name)	"/sys/module/kvm/parameters/" name

static struct nx_setting nx_settings[NX_NR_SETTINGS] = {
	[NX_RECOVERY_RATIO].path = NX_KVM_PARAM("nx_huge_pages_recovery_ratio"),
	[NX_RECOVERY_PERIOD_MS].path = NX_KVM_PARAM("nx_huge_pages_recovery_period_ms"),
	[NX_NR_HUGEPAGES].path = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
	[NX_HUGE_PAGES].path = NX_KVM_PARAM("nx_huge_pages"),
	[NX_LRU_GEN].path = "/sys/kernel/mm/lru_gen/enabled",
};

/* Forked children inherit the exit handlers, but must not restore anything. */
static pid_t nx_owner;
static pid_t nx_child;

/* What a test has to undo besides; it must be async-signal-safe and idempotent, too. */
static void (*nx_restore_more)(void);

/* Async-signal-safe, and idempotent. */
static inline void nx_restore_settings(void)
{
	static const char msg[] = "Failed to restore a setting, check ";
	struct nx_setting *s;
	ssize_t len;
	pid_t child;
	int fd;

	if (getpid() != nx_owner)
		return;

	/* The child changes the settings, too, get it out of the way first. */
	child = READ_ONCE(nx_child);
	if (child) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}

	for (s = nx_settings; s < &nx_settings[NX_NR_SETTINGS]; s++) {
		if (!s->changed)
			continue;

		len = strlen(s->saved);
		fd = open(s->path, O_WRONLY);
		if (fd < 0 || write(fd, s->saved, len) != len) {
			len = write(STDERR_FILENO, msg, sizeof(msg) - 1);
			len = write(STDERR_FILENO, s->path, strlen(s->path));
			len = write(STDERR_FILENO, "\n", 1);
		}
		if (fd >= 0)
			close(fd);
	}

	if (nx_restore_more)
		nx_restore_more();
}

static inline void nx_restore_and_die(int sig)
{
	nx_restore_settings();

	/* SA_RESETHAND put the default action back, let that finish the job. */
	raise(sig);
}

static inline void nx_catch_exits(void)
{
	static const int sigs[] = {
		SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGABRT, SIGSEGV, SIGBUS,
	};
	struct sigaction sa = {
		.sa_handler = nx_restore_and_die,
		.sa_flags = SA_RESETHAND,
	};
	int i;

	nx_owner = getpid();
	TEST_ASSERT(!atexit(nx_restore_settings), "atexit() failed");
	for (i = 0; i < ARRAY_SIZE(sigs); i++)
		TEST_ASSERT(!sigaction(sigs[i], &sa, NULL), "sigaction(%d) failed", sigs[i]);
}

/* Read a setting as the kernel prints it, without the newline.  SKIP if absent. */
static inline void nx_read_setting(enum nx_setting_id id, char *buf, size_t size)
{
	const char *path = nx_settings[id].path;
	ssize_t len;
	int fd;

	fd = open(path, O_RDONLY);
	__TEST_REQUIRE(fd >= 0, "Can't read %s: %s", path, strerror(errno));
	len = read(fd, buf, size - 1);
	TEST_ASSERT(len >= 0, "Reading %s failed: %s", path, strerror(errno));
	close(fd);

	buf[len] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
}

static inline unsigned long nx_read_setting_ul(enum nx_setting_id id)
{
	char buf[32];

	nx_read_setting(id, buf, sizeof(buf));
	return strtoul(buf, NULL, 0);
}

/* Write a setting, to be restored on exit.  SKIP if that is not permitted. */
static inline void nx_write_setting(enum nx_setting_id id, const char *fmt, ...)
{
	struct nx_setting *s = &nx_settings[id];
	char val[32];
	va_list ap;
	int fd, len;

	va_start(ap, fmt);
	len = vsnprintf(val, sizeof(val), fmt, ap);
	va_end(ap);

	if (!*s->saved)
		nx_read_setting(id, s->saved, sizeof(s->saved));

	fd = open(s->path, O_WRONLY);
	__TEST_REQUIRE(fd >= 0, "Can't write %s: %s, run as root",
		       s->path, strerror(errno));
	s->changed = true;
	TEST_ASSERT(write(fd, val, len) == len, "Writing '%s' to %s failed: %s",
		    val, s->path, strerror(errno));
	close(fd);
}

/* Put one setting back early. */
static inline void nx_restore_setting(enum nx_setting_id id)
{
	char saved[sizeof(nx_settings[id].saved)];

	if (!nx_settings[id].changed)
		return;

	memcpy(saved, nx_settings[id].saved, sizeof(saved));
	nx_write_setting(id, "%s", saved);
}

/* Stop the workers of all VMs.  A worker that is in the middle of a pass ends it. */
static inline void nx_recovery_stop(void)
{
	nx_write_setting(NX_RECOVERY_RATIO, "0");
}

/* Have every worker recover all there is to recover every @period_ms. */
static inline void nx_recovery_start(unsigned int period_ms)
{
	nx_write_setting(NX_RECOVERY_PERIOD_MS, "%u", period_ms);
	nx_write_setting(NX_RECOVERY_RATIO, "1");
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

#define NX_HUGEPAGES	"/sys/kernel/mm/hugepages/hugepages-%lukB/"

/* Make sure that @nr 2MiB HugeTLB pages can be had on top of those in use. */
static inline void nx_reserve_hugepages(unsigned long nr)
{
	struct nx_setting *s = &nx_settings[NX_NR_HUGEPAGES];
	unsigned long have = nx_read_setting_ul(NX_NR_HUGEPAGES);
	unsigned long want = have + nr, got;
	char path[80];

	/* What is read includes surplus pages, but would make them permanent if written. */
	if (!*s->saved) {
		snprintf(path, sizeof(path), NX_HUGEPAGES "surplus_hugepages",
			 NX_HPAGE_SIZE / 1024);
		snprintf(s->saved, sizeof(s->saved), "%lu",
			 have - (unsigned long)nx_read_number(path, ""));
	}

	nx_write_setting(NX_NR_HUGEPAGES, "%lu", want);
	got = nx_read_setting_ul(NX_NR_HUGEPAGES);
	__TEST_REQUIRE(got >= want, "Need %lu more 2MiB HugeTLB pages, got only %lu", nr,
		       got + nr - want);
}

static inline void nx_require_kvm(void)
{
	int fd;

	fd = open(KVM_DEV_PATH, O_RDWR);
	__TEST_REQUIRE(fd >= 0, "Can't open %s: %s", KVM_DEV_PATH, strerror(errno));
	close(fd);
}

/*
 * Turn the mitigation on, also on CPUs that don't need it, with the worker
 * stopped until nx_recovery_start().  SKIP if the host doesn't allow for that.
 */
static inline void nx_recovery_init(void)
{
	char buf[32];

	nx_require_kvm();

	nx_read_setting(NX_HUGE_PAGES, buf, sizeof(buf));
	__TEST_REQUIRE(strcmp(buf, "never"),
		       "kvm.nx_huge_pages is 'never', which can't be undone at runtime");

	nx_catch_exits();

	nx_recovery_stop();
	nx_write_setting(NX_RECOVERY_PERIOD_MS, "0");
	nx_write_setting(NX_HUGE_PAGES, "force");
}

/* Don't let a child that changes settings outlive the @parent that restores them. */
static inline void nx_die_with(pid_t parent)
{
	TEST_ASSERT(!prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl() failed");
	if (getppid() != parent)
		_exit(KSFT_FAIL);
}

/*
 * Run @fn in a child, so that it may fail, or take down its VM, without taking
 * the host's settings with it.  Returns the status, as waitpid() has it.
 */
static inline int nx_run_child(void (*fn)(void))
{
	int status;
	pid_t pid;

	/* Unflushed output would be written by both. */
	fflush(NULL);

	pid = fork();
	TEST_ASSERT(pid >= 0, "fork() failed");
	if (!pid) {
		nx_die_with(nx_owner);
		errno = 0;
		fn();
		exit(KSFT_PASS);
	}

	WRITE_ONCE(nx_child, pid);
	TEST_ASSERT(waitpid(pid, &status, 0) == pid, "waitpid() failed");
	WRITE_ONCE(nx_child, 0);
	return status;
}

static inline u64 __nx_get_stat(int stats_fd, const char *name)
{
	struct kvm_stats_header header;
	struct kvm_stats_desc *descs, *desc;
	bool found = false;
	u64 data = 0;
	int i;

	read_stats_header(stats_fd, &header);
	descs = read_stats_descriptors(stats_fd, &header);

	for (i = 0; i < header.num_desc && !found; i++) {
		desc = get_stats_descriptor(descs, i, &header);
		found = !strcmp(desc->name, name);
		if (found)
			read_stat_data(stats_fd, &header, desc, &data, 1);
	}
	TEST_ASSERT(found, "KVM has no stat '%s'", name);

	free(descs);
	close(stats_fd);
	return data;
}

/* vm_get_stat() takes a string or a bare name, and not all have it for vCPUs. */
#define nx_vm_stat(vm, stat)		__nx_get_stat(vm_get_stats_fd(vm), #stat)
#define nx_vcpu_stat(vcpu, stat)	__nx_get_stat(vcpu_get_stats_fd(vcpu), #stat)

/*
 * Wait until @cond is true, for @seconds.  The arguments say what it means if it
 * never is.  Don't look too often, where there's but one CPU that's at the cost of
 * whom the test is waiting for.
 */
#define nx_wait_until_s(cond, seconds, fmt, ...)				\
do {										\
	time_t __deadline = (seconds);						\
	struct timespec __start;						\
										\
	clock_gettime(CLOCK_MONOTONIC, &__start);				\
	while (!(cond)) {							\
		TEST_ASSERT(timespec_elapsed(__start).tv_sec < __deadline,	\
			    "Waited %ld s in vain for '%s': " fmt,		\
			    (long)__deadline, #cond, ##__VA_ARGS__);		\
		usleep(10000);							\
	}									\
} while (0)

#define nx_wait_until(cond, fmt, ...)						\
	nx_wait_until_s(cond, NX_DEADLINE_S, fmt, ##__VA_ARGS__)

#endif /* SELFTEST_KVM_NX_RECOVERY_UTIL_H */
