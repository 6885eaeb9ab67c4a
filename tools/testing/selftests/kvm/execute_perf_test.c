// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure what it costs a guest to execute from its memory while the iTLB
 * multihit mitigation is on, and what it costs the host to recover the huge
 * pages that got split.
 *
 * Every page of the guest's memory begins with return instructions, and the guest
 * executes from a page by calling it.  Breaking down the output:
 *
 *  - "Populating memory": the first write to every page, i.e. mostly the time it
 *    takes the host to allocate memory, and KVM to map it.
 *
 *  - "Writing to populated memory", "Reading from populated memory": the control
 *    for all that follows, nothing is left to be mapped.
 *
 *  - "Executing from huge pages": the first call of every page.  With the
 *    mitigation on, KVM splits each huge page.  Some kernels then have the guest
 *    fault on each of its 4KiB pages, others make all of them executable at once.
 *
 *  - "Executing again": KVM has nothing left to do.
 *
 *  - "Recovering huge pages": the time until the recovery worker has visited all
 *    that was split.  That's waiting, and depends on the period and the ratio.
 *
 *  - "Executing after recovery": what was zapped has to be faulted back in, and if
 *    it's back as a huge page, has to be split once more.  In a dirty logged slot
 *    nothing can come back as a huge page, and so all of this would be a waste.
 *    It's "Executing once more" where there is no recovery to wait for.
 *
 *  - "kvm-nx-lpage-re:se.sum_exec_runtime": the CPU time, in milliseconds, that
 *    the worker has spent on this VM all told.
 *
 * To the right of each time is the number of page faults that KVM fixed meanwhile
 * (pf_fixed, of all vCPUs), and how many pages of each size were mapped, and huge
 * pages split but not recovered (nx_lpage_splits), when it was over.
 *
 * To compare two kernels, run the same command on both, several times.
 */
#include "nx_perf_util.h"

#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

/* Clear of slot 0 and of the APICs, and as well aligned as can be. */
#define MEM_GPA			0x100000000UL

#define RET_OPCODES		0xc3c3c3c3c3c3c3c3UL

/* Nobody wants to watch a test do nothing for longer. */
#define MAX_WAIT_S		600

enum guest_access {
	GUEST_WRITE,
	GUEST_READ,
	GUEST_EXEC,
};

struct counters {
	u64 pf_fixed;
	u64 pages_4k;
	u64 pages_2m;
	u64 pages_1g;
	u64 splits;
};

/* The command line. */
static struct nx_vm_params vm_params = NX_VM_DEFAULTS;

static struct params {
	u32 iterations;
	/* Log every n-th slot, zero is for none. */
	u32 log_every;
	const char *pcpus;
	bool set_period;
	u32 period_ms;
	bool set_ratio;
	u32 ratio;
} params = {
	.iterations = 1,
};

/* Lives in guest memory. */
static enum guest_access guest_access;

static struct kvm_vm *vm;
static struct kvm_vcpu *vcpus[KVM_MAX_VCPUS];
static int pcpus[KVM_MAX_VCPUS + 1];
static struct counters counters;
static pthread_barrier_t barrier;
static bool done;

static u64 mem_size(void)
{
	return vm_params.nr_vcpus * vm_params.vcpu_bytes;
}

static u64 slot_size(void)
{
	return mem_size() / vm_params.nr_slots;
}

static void guest_code(u64 start, u64 size)
{
	u64 gva, end = start + size;

	for (;;) {
		switch (READ_ONCE(guest_access)) {
		case GUEST_WRITE:
			for (gva = start; gva < end; gva += PAGE_SIZE)
				WRITE_ONCE(*(u64 *)gva, RET_OPCODES);
			break;
		case GUEST_READ:
			for (gva = start; gva < end; gva += PAGE_SIZE)
				READ_ONCE(*(u64 *)gva);
			break;
		case GUEST_EXEC:
			for (gva = start; gva < end; gva += PAGE_SIZE)
				((void (*)(void))gva)();
			break;
		}
		GUEST_SYNC(0);
	}
}

static void pin_to(int pcpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(pcpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		nx_die("-c: can't run on CPU %d: %s", pcpu, strerror(errno));
}

static void *vcpu_thread(void *arg)
{
	unsigned long i = (unsigned long)arg;
	struct ucall uc;

	if (params.pcpus)
		pin_to(pcpus[i]);

	for (;;) {
		pthread_barrier_wait(&barrier);
		if (READ_ONCE(done))
			return NULL;

		vcpu_run(vcpus[i]);
		TEST_ASSERT(get_ucall(vcpus[i], &uc) == UCALL_SYNC,
			    "vCPU %lu did not finish, exit reason %s", i,
			    exit_reason_str(vcpus[i]->run->exit_reason));
		pthread_barrier_wait(&barrier);
	}
}

static struct counters read_counters(void)
{
	struct counters c = {
		.pages_4k = nx_vm_stat(vm, pages_4k),
		.pages_2m = nx_vm_stat(vm, pages_2m),
		.pages_1g = nx_vm_stat(vm, pages_1g),
		.splits = nx_vm_stat(vm, nx_lpage_splits),
	};
	int i;

	for (i = 0; i < vm_params.nr_vcpus; i++)
		c.pf_fixed += nx_vcpu_stat(vcpus[i], pf_fixed);
	return c;
}

static void print_header(void)
{
	printf("\n%-30s  %13s %9s %9s %9s %9s %15s\n", "", "", "faults", "pages_4k",
	       "pages_2m", "pages_1g", "nx_lpage_splits");
}

static void print_result(const char *what, struct timespec elapsed)
{
	struct counters c = read_counters();

	printf("%-30s: %3ld.%09lds %9lu %9lu %9lu %9lu %15lu\n", what,
	       (long)elapsed.tv_sec, elapsed.tv_nsec, (long)(c.pf_fixed - counters.pf_fixed),
	       (long)c.pages_4k, (long)c.pages_2m, (long)c.pages_1g, (long)c.splits);
	fflush(stdout);
	counters = c;
}

static void run_vcpus(enum guest_access access, const char *what)
{
	struct timespec start, elapsed;

	guest_access = access;
	sync_global_to_guest(vm, guest_access);

	clock_gettime(CLOCK_MONOTONIC, &start);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	elapsed = timespec_elapsed(start);

	print_result(what, elapsed);
}

static bool is_logged(u32 slot)
{
	return params.log_every && !(slot % params.log_every);
}

static void start_logging(void)
{
	u32 slot;

	for (slot = 0; slot < vm_params.nr_slots; slot++) {
		if (is_logged(slot))
			vm_mem_region_set_flags(vm, slot + 1, KVM_MEM_LOG_DIRTY_PAGES);
	}
}

/* How long the worker takes to visit all that is split; zero is for ever. */
static u64 recovery_ms(void)
{
	unsigned long period_ms = nx_read_setting_ul(NX_RECOVERY_PERIOD_MS);
	unsigned long ratio = nx_read_setting_ul(NX_RECOVERY_RATIO);
	u64 nr, ms = 0;

	if (!ratio)
		return 0;

	if (!period_ms)
		period_ms = 3600 * 1000 / (ratio > 3600 ? 3600 : ratio);

	for (nr = counters.splits; nr; nr -= DIV_ROUND_UP(nr, ratio))
		ms += period_ms;
	return ms + 1;
}

static void hold_recovery(void)
{
	if (params.set_period || params.set_ratio)
		nx_recovery_stop();
}

/* Returns false if there is no recovery to wait for. */
static bool wait_for_recovery(void)
{
	struct timespec start;
	u64 ms;

	if (!counters.splits) {
		printf("Nothing is split, and so there is nothing to recover.\n");
		return false;
	}

	clock_gettime(CLOCK_MONOTONIC, &start);
	if (params.set_period)
		nx_write_setting(NX_RECOVERY_PERIOD_MS, "%u", params.period_ms);
	if (params.set_ratio)
		nx_write_setting(NX_RECOVERY_RATIO, "%u", params.ratio);
	else if (params.set_period)
		nx_restore_setting(NX_RECOVERY_RATIO);

	ms = recovery_ms();
	if (!ms || ms > MAX_WAIT_S * 1000) {
		printf("Not waiting for recovery, %s (see -p and -r).\n",
		       ms ? "it would take more than 10 minutes" : "it is off");
		return false;
	}

	nx_wait_until_s(!nx_vm_stat(vm, nx_lpage_splits) && nx_worker_sleeps(),
			NX_DEADLINE_S + 2 * ms / 1000,
			"recovery of %lu huge pages should take %lu ms, %lu are left",
			(long)counters.splits, (long)ms, (long)nx_vm_stat(vm, nx_lpage_splits));
	print_result("Recovering huge pages", timespec_elapsed(start));
	return true;
}

static void print_worker(void)
{
	u64 ns;

	if (!nx_worker_runtime_ns(&ns)) {
		printf("%-38s: not available, is this the host's PID namespace?\n",
		       NX_WORKER ":se.sum_exec_runtime");
		return;
	}
	printf("%-38s: %lu.%06lu\n", NX_WORKER ":se.sum_exec_runtime",
	       (long)(ns / 1000000), (long)(ns % 1000000));
}

static void create_vm(enum vm_guest_mode mode)
{
	u64 pages = slot_size() / PAGE_SIZE;
	u64 size = vm_params.overlap ? mem_size() : vm_params.vcpu_bytes;
	u64 granularity = NX_HPAGE_SIZE;
	int level = PG_LEVEL_2M;
	u64 gpa = MEM_GPA;
	u32 i;

	vm = nx_vm_create(mode, vm_params.nr_vcpus, mem_size());
	if ((MEM_GPA + mem_size()) / PAGE_SIZE > vm->max_gfn)
		nx_die("-v and -b: no guest can address %lu bytes of memory here",
		       (long)mem_size());

	for (i = 0; i < vm_params.nr_vcpus; i++) {
		vcpus[i] = vm_vcpu_add(vm, i, guest_code);
		vcpu_args_set(vcpus[i], 2, gpa, size);
		if (!vm_params.overlap)
			gpa += size;
	}

	for (i = 0; i < vm_params.nr_slots; i++)
		vm_userspace_mem_region_add(vm, vm_params.src, MEM_GPA + i * slot_size(), i + 1,
					    pages, 0);

	/*
	 * Have huge pages in the guest's page tables: if KVM shadows them then a
	 * mapping can't be larger than the guest's, and a guest that walks as little
	 * as it can is less of a noise.
	 */
	if (get_backing_src_pagesz(vm_params.src) > NX_HPAGE_SIZE) {
		granularity = get_backing_src_pagesz(vm_params.src);
		level = PG_LEVEL_1G;
	}
	virt_map_level(vm, MEM_GPA, MEM_GPA, DIV_ROUND_UP(mem_size(), granularity) * granularity,
		       level);
}

static void run_test(enum vm_guest_mode mode, void *unused)
{
	pthread_t threads[KVM_MAX_VCPUS];
	bool recovered;
	char what[31];
	u32 i;

	create_vm(mode);
	pr_info("Testing guest mode: %s\n", vm_guest_mode_string(mode));
	pr_info("guest physical test memory: [0x%lx, 0x%lx), %u slot%s\n", MEM_GPA,
		(long)(MEM_GPA + mem_size()), vm_params.nr_slots,
		vm_params.nr_slots == 1 ? "" : "s");

	pthread_barrier_init(&barrier, NULL, vm_params.nr_vcpus + 1);
	for (i = 0; i < vm_params.nr_vcpus; i++)
		TEST_ASSERT(!pthread_create(&threads[i], NULL, vcpu_thread, (void *)(long)i),
			    "pthread_create() failed");

	/* Every run is to recover the same pages, those that were executed from. */
	hold_recovery();
	counters = read_counters();

	print_header();
	run_vcpus(GUEST_WRITE, "Populating memory");
	run_vcpus(GUEST_WRITE, "Writing to populated memory");
	run_vcpus(GUEST_READ, "Reading from populated memory");
	run_vcpus(GUEST_EXEC, "Executing from huge pages");
	for (i = 1; i <= params.iterations; i++) {
		snprintf(what, sizeof(what), "Executing again");
		if (params.iterations > 1)
			snprintf(what, sizeof(what), "Executing again, %u", i);
		run_vcpus(GUEST_EXEC, what);
	}

	/* Not before: KVM splits no huge pages where there can't be any. */
	start_logging();
	recovered = wait_for_recovery();
	hold_recovery();
	run_vcpus(GUEST_EXEC, recovered ? "Executing after recovery" : "Executing once more");

	WRITE_ONCE(done, true);
	pthread_barrier_wait(&barrier);
	for (i = 0; i < vm_params.nr_vcpus; i++)
		pthread_join(threads[i], NULL);
	WRITE_ONCE(done, false);
	pthread_barrier_destroy(&barrier);

	printf("\n");
	print_worker();
	kvm_vm_free(vm);
}

static void parse_pcpus(void)
{
	char *list = strdup(params.pcpus), *pos = list, *item;
	u32 n = 0;

	while ((item = strsep(&pos, ","))) {
		if (n > vm_params.nr_vcpus)
			break;
		pcpus[n++] = nx_parse_uint("-c", item);
	}
	if (n < vm_params.nr_vcpus || item)
		nx_die("-c needs a CPU for each of %u vCPUs, and maybe one for the main thread",
		       vm_params.nr_vcpus);
	free(list);

	for (n--; n >= vm_params.nr_vcpus; n--)
		pin_to(pcpus[n]);
}

static void check_mitigation(void)
{
	char buf[32];

	nx_read_setting(NX_HUGE_PAGES, buf, sizeof(buf));
	if (strcmp(buf, "Y"))
		printf("kvm.nx_huge_pages is %s: nothing will be split, \"force\" turns it on.\n",
		       buf);
}

static void print_help(const char *name)
{
	printf("usage: %s [-h] " NX_VM_USAGE "\n"
	       "       [-i iterations] [-d slots] [-c pcpus] [-p period_ms] [-r ratio]\n\n"
	       " -h: Display this help.\n", name);
	nx_print_vm_help();
	printf(" -i: How often to execute again, default 1, to see the times settle.\n"
	       " -d: Dirty log these slots once they have been executed from: 'all', 'none' (the\n"
	       "     default), or N for every Nth.  That's the worker's view of a live migration.\n"
	       " -c: Pin the vCPUs, and the main thread, to these CPUs.  A comma separated list, e.g.\n"
	       "     -v 2 -c 8,9,4.  Makes the times repeat better.\n"
	       " -p, -r: Set kvm.nx_huge_pages_recovery_period_ms and kvm.nx_huge_pages_recovery_ratio\n"
	       "     for the run, as waiting for the defaults takes hours.  That's host-wide, and is\n"
	       "     put back on exit.  Holds the workers until all the memory has been executed from,\n"
	       "     so that each run recovers the same.\n\n");
}

int main(int argc, char *argv[])
{
	int opt;

	guest_modes_append_default();

	while ((opt = getopt(argc, argv, "h" NX_VM_OPTIONS "i:d:c:p:r:")) != -1) {
		switch (opt) {
		case 'i':
			params.iterations = nx_parse_uint("-i", optarg);
			break;
		case 'd':
			if (!strcmp(optarg, "all"))
				params.log_every = 1;
			else if (!strcmp(optarg, "none"))
				params.log_every = 0;
			else
				params.log_every = nx_parse_uint("-d", optarg);
			break;
		case 'c':
			params.pcpus = optarg;
			break;
		case 'p':
			params.period_ms = nx_parse_uint("-p", optarg);
			params.set_period = true;
			break;
		case 'r':
			params.ratio = nx_parse_uint("-r", optarg);
			params.set_ratio = true;
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
	nx_check_vm(&vm_params);
	check_mitigation();
	if (params.pcpus)
		parse_pcpus();

	if (params.set_period || params.set_ratio)
		nx_catch_exits();

	for_each_guest_mode(run_test, NULL);
	return 0;
}
