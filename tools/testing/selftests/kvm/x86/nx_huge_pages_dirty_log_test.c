// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test that NX huge page recovery and dirty logging don't work against each
 * other.
 *
 * With the iTLB multihit mitigation, KVM maps a huge page with 4KiB pages once
 * the guest executes from it, and a worker zaps such mappings every now and then
 * so that the next access that isn't an instruction fetch gets the huge page
 * back.  While a memslot is dirty logged there is no huge page to be had, i.e.
 * all that zapping buys is a storm of page faults.  KVM must leave such mappings
 * alone, and must get back to huge pages once the memslot is no longer logged.
 *
 * Every case runs in a VM and a process of its own.  The guest's memory is full
 * of return instructions, the guest executes from a page by calling it.  Only
 * KVM's counters are looked at:
 *
 *  - nx_lpage_splits: huge pages mapped at 4KiB that the worker has yet to visit
 *  - pages_4k, pages_2m: the mappings KVM has installed
 *  - pf_fixed: page faults that made a vCPU's KVM install a mapping
 *
 * The test sets the module parameters and the HugeTLB pages that it needs, and
 * restores them.  Run it as root, with no other VM on the host that matters: the
 * parameters are the whole host's.
 */
#include "nx_recovery_util.h"

#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>

#include <linux/mman.h>

#define MAX_VCPUS		3
#define MAX_SLOTS		500

/*
 * Clear of slot 0, and, as SMBASE is to point at it, below 4GiB.  A page table's
 * worth of huge pages starts here, i.e. all of them hang off one guest table.
 */
#define MEM_GPA			0x40000000UL
#define MEM_SIZE		(512 * NX_HPAGE_SIZE)

/* Enough huge pages in a slot to tell apart all, some and none of them. */
#define HPAGES_PER_SLOT		4UL

#define SMM_SLOT(slot)		((1 << 16) | (slot))

/* SMRAM: a page directory, a GDT, SMM's entry point, and the state KVM saves. */
#define SMRAM_SIZE		0x10000UL
#define SMRAM_GPA		(MEM_GPA - SMRAM_SIZE)
#define SMRAM_GDT		0x4000
#define SMRAM_HANDLER		0x8000
#define SMM_PORT		0xe

#define RET_OPCODE		0xc3

/* The dirty ring holds 16 byte entries.  The guest fills none of them. */
#define DIRTY_RING_BYTES	(1024 * 16)

/* No case takes anywhere near as long, not counting the time to churn. */
#define CASE_TIMEOUT_S		120

enum guest_access {
	GUEST_READ,
	GUEST_WRITE,
	GUEST_EXEC,
};

struct guest_op {
	enum guest_access access;
	u64 gva;
	u64 size;
	u64 stride;
};

struct slot {
	u32 id;
	u32 flags;
	u64 gpa;
	u64 size;
	/* How far apart the pages are that the guest accesses. */
	u64 stride;
	void *hva;
	/* 4KiB mappings that executing from this slot brought about. */
	u64 nr_4k;
};

/* Lives in guest memory, the host goes through ops. */
static struct guest_op guest_ops[MAX_VCPUS];

static struct guest_op *ops;
static struct kvm_vm *vm;
static struct kvm_vcpu *vcpus[MAX_VCPUS];
static struct slot slots[MAX_SLOTS];
static int nr_slots;

/* If KVM shadows the guest's page tables, a mapping can't be larger than the guest's. */
static int guest_level = PG_LEVEL_2M;

static unsigned int churn_s = 3;

/* Shared with the children, for their telling why they skip. */
static char *skip_reason;
#define SKIP_REASON_SIZE	256

static void __noreturn skip_case(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(skip_reason, SKIP_REASON_SIZE, fmt, ap);
	va_end(ap);
	exit(KSFT_SKIP);
}

static void guest_code(u64 i)
{
	struct guest_op *op = &guest_ops[i];
	u64 gva, end;

	for (;;) {
		gva = READ_ONCE(op->gva);
		end = gva + READ_ONCE(op->size);

		for (; gva < end; gva += READ_ONCE(op->stride)) {
			switch (READ_ONCE(op->access)) {
			case GUEST_READ:
				READ_ONCE(*(u64 *)gva);
				break;
			case GUEST_WRITE:
				WRITE_ONCE(*(u8 *)gva, RET_OPCODE);
				break;
			case GUEST_EXEC:
				((void (*)(void))gva)();
				break;
			}
		}
		GUEST_SYNC(0);
	}
}

static void run_vcpu(int i)
{
	struct ucall uc;

	vcpu_run(vcpus[i]);
	TEST_ASSERT(get_ucall(vcpus[i], &uc) == UCALL_SYNC,
		    "vCPU %d did not finish, exit reason %s", i,
		    exit_reason_str(vcpus[i]->run->exit_reason));
}

static void run_smm(struct kvm_vcpu *vcpu)
{
	vcpu_run(vcpu);
	TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);
	TEST_ASSERT_EQ(vcpu->run->io.port, SMM_PORT);
}

static void create_vcpus(int nr_vcpus)
{
	int i;

	for (i = 0; i < nr_vcpus; i++) {
		vcpus[i] = vm_vcpu_add(vm, i, guest_code);
		vcpu_args_set(vcpus[i], 1, (u64)i);
	}
	ops = addr_gva2hva(vm, (u64)&guest_ops);

	/* Map whatever slots there will be. */
	virt_map_level(vm, MEM_GPA, MEM_GPA, MEM_SIZE, guest_level);

	/* Get the guest's own code, data and stack faulted in. */
	for (i = 0; i < nr_vcpus; i++)
		run_vcpu(i);
}

static void create_vm(int nr_vcpus)
{
	vm = vm_create(nr_vcpus);
	create_vcpus(nr_vcpus);
}

static bool is_logged(struct slot *slot)
{
	return slot->flags & KVM_MEM_LOG_DIRTY_PAGES;
}

static bool is_smm(struct slot *slot)
{
	return slot->id >= SMM_SLOT(0);
}

static u64 nr_hpages(struct slot *slot)
{
	return slot->size / NX_HPAGE_SIZE;
}

static void set_slot_flags(struct slot *slot, u32 flags)
{
	slot->flags = flags;
	vm_set_user_memory_region(vm, slot->id, flags, slot->gpa, slot->size, slot->hva);
}

static void delete_slot(struct slot *slot)
{
	vm_set_user_memory_region(vm, slot->id, 0, slot->gpa, 0, NULL);
}

static void start_logging(struct slot *slot)
{
	set_slot_flags(slot, slot->flags | KVM_MEM_LOG_DIRTY_PAGES);
}

static void stop_logging(struct slot *slot)
{
	set_slot_flags(slot, slot->flags & ~KVM_MEM_LOG_DIRTY_PAGES);
}

static void *alloc_hpages(u64 nr)
{
	void *mem = mmap(NULL, nr * NX_HPAGE_SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);

	TEST_ASSERT(mem != MAP_FAILED, "No %lu HugeTLB pages: %s", nr, strerror(errno));
	return memset(mem, RET_OPCODE, nr * NX_HPAGE_SIZE);
}

/*
 * Add a slot behind those that exist.  Bypass the library, it knows of only one
 * address space, and would want memory of its own for each slot: all slots show
 * the same few huge pages, so that hundreds of them are there for the asking.
 */
static struct slot *add_slot(u64 hpages, u32 flags)
{
	static void *mem;
	struct slot *slot = &slots[nr_slots];

	if (!mem)
		mem = alloc_hpages(HPAGES_PER_SLOT);

	TEST_ASSERT(nr_slots < MAX_SLOTS && hpages <= HPAGES_PER_SLOT,
		    "Slot %d with %lu huge pages is too much", nr_slots, hpages);

	/* Slot 0 is the library's. */
	slot->id = nr_slots + 1;
	slot->gpa = MEM_GPA;
	if (nr_slots)
		slot->gpa = slot[-1].gpa + slot[-1].size;
	slot->size = hpages * NX_HPAGE_SIZE;
	slot->stride = PAGE_SIZE;
	slot->hva = mem;
	nr_slots++;

	set_slot_flags(slot, flags);
	return slot;
}

static void set_op(int i, enum guest_access access, struct slot *slot)
{
	ops[i] = (struct guest_op) {
		.access = access,
		.gva = slot->gpa,
		.size = slot->size,
		.stride = slot->stride,
	};
}

static void read_slot(struct slot *slot)
{
	set_op(0, GUEST_READ, slot);
	run_vcpu(0);
}

/* Execute from the slot, on the vCPU that can.  Returns the page faults it took. */
static u64 exec_slot(struct slot *slot)
{
	struct kvm_vcpu *vcpu = vcpus[is_smm(slot)];
	u64 pf_fixed = nx_vcpu_stat(vcpu, pf_fixed);

	if (is_smm(slot)) {
		run_smm(vcpu);
	} else {
		set_op(0, GUEST_EXEC, slot);
		run_vcpu(0);
	}
	return nx_vcpu_stat(vcpu, pf_fixed) - pf_fixed;
}

/*
 * Get a slot mapped at 4KiB, by executing from it.  An unlogged slot is mapped
 * huge first, and then split and queued for recovery, or nothing is tested.
 */
static void split_slot(struct slot *slot)
{
	u64 expected = is_logged(slot) ? 0 : nr_hpages(slot);
	u64 splits = nx_vm_stat(vm, nx_lpage_splits);
	u64 pages_2m = nx_vm_stat(vm, pages_2m);
	u64 pages_4k;

	if (!is_smm(slot)) {
		read_slot(slot);
		TEST_ASSERT_EQ(nx_vm_stat(vm, pages_2m), pages_2m + expected);
	}

	pages_4k = nx_vm_stat(vm, pages_4k);
	exec_slot(slot);
	slot->nr_4k = nx_vm_stat(vm, pages_4k) - pages_4k;

	splits = nx_vm_stat(vm, nx_lpage_splits) - splits;
	TEST_ASSERT(nx_vm_stat(vm, pages_2m) == pages_2m && splits == expected,
		    "The guest executed from %lu huge pages, KVM split %lu and kept %lu",
		    expected, splits, nx_vm_stat(vm, pages_2m) - pages_2m);
}

static void recover(void)
{
	nx_recovery_start(1);
	nx_wait_until(!nx_vm_stat(vm, nx_lpage_splits),
		      "the worker doesn't get through its %lu pages",
		      nx_vm_stat(vm, nx_lpage_splits));
	nx_recovery_stop();
}

/*
 * Have the worker run, and check that it zapped precisely what was split in the
 * unlogged slots, and that everything in the logged ones is still in place.
 */
static void check_recovery(void)
{
	u64 pages_4k = nx_vm_stat(vm, pages_4k);
	u64 unlogged = 0, zapped, faults, pages_2m;
	struct slot *slot;

	for (slot = slots; slot < &slots[nr_slots]; slot++) {
		if (!is_logged(slot))
			unlogged += slot->nr_4k;
	}

	recover();

	/* A page is off the worker's list before the last of its mappings is gone. */
	nx_wait_until(nx_vm_stat(vm, pages_4k) <= pages_4k - unlogged,
		      "the worker zapped only %lu of the %lu 4KiB mappings in unlogged slots",
		      pages_4k - nx_vm_stat(vm, pages_4k), unlogged);

	zapped = pages_4k - nx_vm_stat(vm, pages_4k);
	TEST_ASSERT(zapped == unlogged,
		    "NX recovery zapped %lu 4KiB mappings, %lu of them in dirty logged slots",
		    zapped, zapped - unlogged);

	for (slot = slots; slot < &slots[nr_slots]; slot++) {
		if (!is_logged(slot))
			continue;

		faults = exec_slot(slot);
		TEST_ASSERT(!faults, "Logged slot %u lost mappings, it took %lu faults to execute",
			    slot->id, faults);
	}

	for (slot = slots; slot < &slots[nr_slots]; slot++) {
		if (is_logged(slot) || is_smm(slot))
			continue;

		pages_2m = nx_vm_stat(vm, pages_2m);
		read_slot(slot);
		TEST_ASSERT(nx_vm_stat(vm, pages_2m) == pages_2m + nr_hpages(slot),
			    "Reading recovered slot %u mapped %lu huge pages, not %lu", slot->id,
			    nx_vm_stat(vm, pages_2m) - pages_2m, nr_hpages(slot));
	}
	TEST_ASSERT_EQ(nx_vm_stat(vm, nx_lpage_splits), 0);
}

static void test_one_logged_slot(u32 flags)
{
	struct slot *slot = add_slot(HPAGES_PER_SLOT, flags);

	split_slot(slot);
	start_logging(slot);
	check_recovery();
}

static void test_logged_slot(void)
{
	create_vm(1);
	test_one_logged_slot(0);
}

static void test_unlogged_slot(void)
{
	struct slot *logged, *unlogged;

	create_vm(1);
	logged = add_slot(HPAGES_PER_SLOT, 0);
	unlogged = add_slot(HPAGES_PER_SLOT - 1, 0);

	split_slot(logged);
	split_slot(unlogged);
	start_logging(logged);
	check_recovery();
}

static void test_logging_off(void)
{
	struct slot *slot;
	u64 hpages = 0;

	create_vm(1);
	add_slot(HPAGES_PER_SLOT, 0);
	add_slot(HPAGES_PER_SLOT - 1, KVM_MEM_LOG_DIRTY_PAGES);

	for (slot = slots; slot < &slots[nr_slots]; slot++) {
		split_slot(slot);
		start_logging(slot);
	}
	recover();

	/* No page is the worker's business now, it's on KVM to rebuild them. */
	for (slot = slots; slot < &slots[nr_slots]; slot++) {
		stop_logging(slot);
		read_slot(slot);
		hpages += nr_hpages(slot);
		TEST_ASSERT(nx_vm_stat(vm, pages_2m) == hpages,
			    "With slot %u no longer logged, the VM has %lu huge pages, not %lu",
			    slot->id, nx_vm_stat(vm, pages_2m), hpages);
	}

	/* A huge page that came back this way mustn't be executable, either. */
	for (slot = slots; slot < &slots[nr_slots]; slot++)
		exec_slot(slot);
	TEST_ASSERT(!nx_vm_stat(vm, pages_2m) && nx_vm_stat(vm, nx_lpage_splits) == hpages,
		    "The guest executed from %lu huge pages, but KVM split %lu and kept %lu",
		    hpages, nx_vm_stat(vm, nx_lpage_splits), nx_vm_stat(vm, pages_2m));
}

/*
 * A page table of page tables has to go, too, for a larger huge page.  Execute from
 * a few places only, the rest of it needn't be filled.
 */
static void test_logging_off_1g(void)
{
	struct slot *slot = &slots[nr_slots++];
	u64 offset;

	if (!kvm_cpu_has(X86_FEATURE_GBPAGES))
		skip_case("no pages of 1GiB for guests");

	slot->hva = mmap(NULL, MEM_SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_1GB, -1, 0);
	if (slot->hva == MAP_FAILED)
		skip_case("no free 1GiB HugeTLB page");

	guest_level = PG_LEVEL_1G;
	create_vm(1);

	slot->id = nr_slots;
	slot->gpa = MEM_GPA;
	slot->size = MEM_SIZE;
	slot->stride = MEM_SIZE / 8;
	for (offset = 0; offset < MEM_SIZE; offset += slot->stride)
		memset(slot->hva + offset, RET_OPCODE, 1);
	set_slot_flags(slot, 0);

	read_slot(slot);
	if (!nx_vm_stat(vm, pages_1g))
		skip_case("KVM maps no 1GiB pages here");

	exec_slot(slot);
	TEST_ASSERT(!nx_vm_stat(vm, pages_1g) && nx_vm_stat(vm, nx_lpage_splits),
		    "The guest executed from a 1GiB page, and KVM has kept it");
	start_logging(slot);
	recover();

	stop_logging(slot);
	read_slot(slot);
	TEST_ASSERT(nx_vm_stat(vm, pages_1g) == 1 && !nx_vm_stat(vm, pages_2m),
		    "With its slot no longer logged, a 1GiB page is mapped as %lu of 1GiB, %lu of 2MiB",
		    nx_vm_stat(vm, pages_1g), nx_vm_stat(vm, pages_2m));
}

static void test_alternating_slots(void)
{
	int i;

	create_vm(1);
	for (i = 0; i < 32; i++)
		split_slot(add_slot(1, 0));
	for (i = 0; i < 32; i += 2)
		start_logging(&slots[i]);
	check_recovery();
}

static void test_one_of_many_slots(void)
{
	struct slot *slot;

	create_vm(1);
	while (nr_slots < MAX_SLOTS) {
		slot = add_slot(1, 0);
		/* A few pages each do, executing from all takes 50 times as long. */
		slot->stride = 64 * PAGE_SIZE;
		split_slot(slot);
	}
	start_logging(&slots[MAX_SLOTS / 2]);
	check_recovery();
}

static void test_logged_before_split(void)
{
	struct slot *slot;

	create_vm(1);
	split_slot(add_slot(HPAGES_PER_SLOT, KVM_MEM_LOG_DIRTY_PAGES));
	slot = add_slot(HPAGES_PER_SLOT, 0);
	split_slot(slot);
	start_logging(slot);

	/* The one to tell that the worker was there at all. */
	split_slot(add_slot(1, 0));
	check_recovery();
}

static void test_readonly_slot(void)
{
	if (!kvm_has_cap(KVM_CAP_READONLY_MEM))
		skip_case("no KVM_CAP_READONLY_MEM");

	create_vm(1);
	test_one_logged_slot(KVM_MEM_READONLY);
}

/*
 * Move a vCPU to SMM for good.  SMM starts out without paging, with which older
 * kernels don't account what their shadow MMU splits.  So have the handler map
 * 4MiB at MEM_GPA, then jump there.  Load a code segment on the way: before that,
 * KVM emulates SMM on a CPU, or with parameters, that can't run it (ept=0), and no
 * memory is executed from.
 */
static void enter_smm(struct kvm_vcpu *vcpu)
{
	const u32 pgdir = SMRAM_GPA, gdt = SMRAM_GPA + SMRAM_GDT;
	/* None, and 4GiB of 32-bit code. */
	const u64 segments[] = { 0, 0x00cf9b000000ffff };
	const u16 limit = sizeof(segments) - 1;
	const u32 gdtr = gdt + sizeof(segments);
	u8 handler[] = {
		0x0f, 0x20, 0xe0,			/* mov %cr4, %eax */
		0x66, 0x83, 0xc8, 0x10,			/* or $PSE, %eax */
		0x0f, 0x22, 0xe0,			/* mov %eax, %cr4 */
		0x66, 0xb8, 0, 0, 0, 0,			/* mov $pgdir, %eax */
		0x0f, 0x22, 0xd8,			/* mov %eax, %cr3 */
		0x67, 0x66, 0x0f, 0x01, 0x15, 0, 0, 0, 0,	/* lgdt gdtr */
		0x0f, 0x20, 0xc0,			/* mov %cr0, %eax */
		0x66, 0x0d, 0x01, 0x00, 0x00, 0x80,	/* or $(PE | PG), %eax */
		0x0f, 0x22, 0xc0,			/* mov %eax, %cr0 */
		0x66, 0xea, 0, 0, 0, 0, 8, 0,		/* ljmp $8, $flat */
		0xe4, SMM_PORT,				/* flat: in $SMM_PORT, %al */
		0xe9, 0, 0, 0, 0,			/* jmp MEM_GPA */
	};
	const u32 rel = SMRAM_SIZE - SMRAM_HANDLER - sizeof(handler);
	const u32 flat = MEM_GPA - rel - 7;
	struct kvm_vcpu_events events;
	u32 *smram;

	memcpy(&handler[12], &pgdir, sizeof(pgdir));
	memcpy(&handler[24], &gdtr, sizeof(gdtr));
	memcpy(&handler[sizeof(handler) - 13], &flat, sizeof(flat));
	memcpy(&handler[sizeof(handler) - sizeof(rel)], &rel, sizeof(rel));

	smram = mmap(NULL, SMRAM_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	TEST_ASSERT(smram != MAP_FAILED, "mmap() failed");
	memcpy((void *)smram + SMRAM_HANDLER, handler, sizeof(handler));
	memcpy((void *)smram + SMRAM_GDT, segments, sizeof(segments));
	memcpy((void *)smram + SMRAM_GDT + sizeof(segments), &limit, sizeof(limit));
	memcpy((void *)smram + SMRAM_GDT + sizeof(segments) + sizeof(limit), &gdt, sizeof(gdt));

	/* Present, writable and 4MiB in size.  SMRAM is right below. */
	smram[MEM_GPA >> 22] = MEM_GPA | 0x83;
	smram[SMRAM_GPA >> 22] = (SMRAM_GPA & ~0x3fffffUL) | 0x83;
	vm_set_user_memory_region(vm, SMM_SLOT(MAX_SLOTS + 1), 0, SMRAM_GPA, SMRAM_SIZE, smram);

	vcpu_set_msr(vcpu, MSR_IA32_SMBASE, SMRAM_GPA);
	vcpu_events_get(vcpu, &events);
	events.smi.pending = 1;
	events.flags |= KVM_VCPUEVENT_VALID_SMM;
	vcpu_events_set(vcpu, &events);

	run_smm(vcpu);
}

/*
 * Have the same gfns backed by different slots in and out of SMM, with only one of
 * them logged.  KVM drops a vCPU's root, and may zap all below it, when the vCPU
 * enters or leaves SMM.  So vCPU 1 stays in SMM, while vCPU 0 never gets there.
 */
static void test_smm(bool log_smm)
{
	const u16 in_al_smm_port = SMM_PORT << 8 | 0xe4;
	struct slot *normal, *smm;
	int i;

	if (!kvm_has_cap(KVM_CAP_X86_SMM))
		skip_case("KVM is built without SMM");

	create_vm(2);
	normal = add_slot(1, 0);

	smm = &slots[nr_slots++];
	*smm = *normal;
	smm->id = SMM_SLOT(normal->id);
	smm->hva = alloc_hpages(1);
	/* One for each time it is run. */
	for (i = 0; i < PAGE_SIZE / sizeof(in_al_smm_port); i++)
		((u16 *)smm->hva)[i] = in_al_smm_port;
	set_slot_flags(smm, 0);
	enter_smm(vcpus[1]);

	split_slot(normal);
	split_slot(smm);
	TEST_ASSERT(normal->nr_4k != smm->nr_4k,
		    "Both slots have %lu 4KiB mappings, can't tell who lost them", smm->nr_4k);

	start_logging(log_smm ? smm : normal);
	check_recovery();
}

static void test_smm_unlogged(void)
{
	test_smm(false);
}

static void test_smm_logged(void)
{
	test_smm(true);
}

static void test_dirty_ring(void)
{
	if (!kvm_has_cap(KVM_CAP_DIRTY_LOG_RING) && !kvm_has_cap(KVM_CAP_DIRTY_LOG_RING_ACQ_REL))
		skip_case("no dirty ring");

	vm = vm_create(1);
	vm_enable_dirty_ring(vm, DIRTY_RING_BYTES);
	create_vcpus(1);
	test_one_logged_slot(0);
}

static void test_initially_set(void)
{
	if (!(kvm_check_cap(KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2) & KVM_DIRTY_LOG_INITIALLY_SET))
		skip_case("no KVM_DIRTY_LOG_INITIALLY_SET");

	create_vm(1);
	vm_enable_cap(vm, KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2,
		      KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE | KVM_DIRTY_LOG_INITIALLY_SET);
	test_one_logged_slot(0);
}

#define CHURN_SLOTS	8

static bool churn_done;

/* Access one slot after the other, whether it happens to be there or not. */
static void *churn_vcpu(void *arg)
{
	int i = (unsigned long)arg;
	struct kvm_vcpu *vcpu = vcpus[i];
	struct kvm_run *run = vcpu->run;
	unsigned int seed = i;

	while (!READ_ONCE(churn_done)) {
		set_op(i, rand_r(&seed) % (GUEST_EXEC + 1), &slots[rand_r(&seed) % CHURN_SLOTS]);

		/* A deleted slot is MMIO, which no instruction can come from. */
		do {
			vcpu_run(vcpu);
			TEST_ASSERT(run->exit_reason == KVM_EXIT_IO ||
				    run->exit_reason == KVM_EXIT_MMIO ||
				    (run->exit_reason == KVM_EXIT_INTERNAL_ERROR &&
				     run->internal.suberror == KVM_INTERNAL_ERROR_EMULATION),
				    "vCPU %d exited with %s", i,
				    exit_reason_str(run->exit_reason));
		} while (run->exit_reason != KVM_EXIT_IO);
	}
	return NULL;
}

static void test_churn(void)
{
	unsigned long bitmap[NX_PAGES_PER_HPAGE / BITS_PER_LONG];
	unsigned int seed = MAX_VCPUS, toggled = 0, deleted = 0;
	pthread_t threads[MAX_VCPUS];
	struct timespec start;
	struct slot *slot;
	u64 pages_4k;
	int i;

	if (!kvm_has_cap(KVM_CAP_EXIT_ON_EMULATION_FAILURE))
		skip_case("no KVM_CAP_EXIT_ON_EMULATION_FAILURE");

	create_vm(MAX_VCPUS);

	/* Executing from a deleted slot is to be tried again, not to be #UD. */
	vm_enable_cap(vm, KVM_CAP_EXIT_ON_EMULATION_FAILURE, 1);
	pages_4k = nx_vm_stat(vm, pages_4k);

	for (i = 0; i < CHURN_SLOTS; i++) {
		slot = add_slot(1, 0);
		slot->stride = 8 * PAGE_SIZE;
	}

	nx_recovery_start(1);
	for (i = 0; i < MAX_VCPUS; i++)
		TEST_ASSERT(!pthread_create(&threads[i], NULL, churn_vcpu, (void *)(long)i),
			    "pthread_create() failed");

	clock_gettime(CLOCK_MONOTONIC, &start);
	while (timespec_elapsed(start).tv_sec < churn_s) {
		slot = &slots[rand_r(&seed) % CHURN_SLOTS];

		switch (rand_r(&seed) % 4) {
		case 0:
			delete_slot(slot);
			set_slot_flags(slot, slot->flags);
			deleted++;
			break;
		case 1:
			if (is_logged(slot))
				kvm_vm_get_dirty_log(vm, slot->id, bitmap);
			break;
		default:
			set_slot_flags(slot, slot->flags ^ KVM_MEM_LOG_DIRTY_PAGES);
			toggled++;
			break;
		}
	}

	WRITE_ONCE(churn_done, true);
	for (i = 0; i < MAX_VCPUS; i++)
		pthread_join(threads[i], NULL);
	ksft_print_msg("slots toggled %u times, deleted %u times\n", toggled, deleted);

	/*
	 * All is quiet, start afresh.  Don't insist on huge pages before that: the
	 * shadow MMU doesn't get back to them where the guest's first access was to
	 * execute, with the slot logged already.
	 */
	recover();
	for (i = 0; i < CHURN_SLOTS; i++) {
		delete_slot(&slots[i]);
		set_slot_flags(&slots[i], 0);
	}
	for (i = 0; i < CHURN_SLOTS; i++)
		read_slot(&slots[i]);
	TEST_ASSERT_EQ(nx_vm_stat(vm, pages_2m), CHURN_SLOTS);

	for (i = 0; i < CHURN_SLOTS; i++)
		delete_slot(&slots[i]);
	TEST_ASSERT(!nx_vm_stat(vm, nx_lpage_splits) && !nx_vm_stat(vm, pages_2m) &&
		    nx_vm_stat(vm, pages_4k) <= pages_4k,
		    "The slots are gone, but %ld split, %ld huge and %ld 4KiB pages (%lu) are not",
		    (long)nx_vm_stat(vm, nx_lpage_splits), (long)nx_vm_stat(vm, pages_2m),
		    (long)nx_vm_stat(vm, pages_4k), pages_4k);
}

/* What the host may lack.  Faked in a mount namespace, but for the privileges. */
static bool hide_behind_tmpfs(const char *dir)
{
	return !unshare(CLONE_NEWNS) &&
	       !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	       !mount("none", dir, "tmpfs", 0, NULL);
}

static bool drop_privileges(void)
{
	return !setgid(65534) && !setuid(65534);
}

static bool lack_kvm(void)
{
	return hide_behind_tmpfs("/dev");
}

static bool lack_hugepages(void)
{
	return hide_behind_tmpfs("/sys/kernel/mm/hugepages");
}

static bool never_mitigate(void)
{
	static const char never[] = "/sys/kernel/mm/hugepages/never";
	FILE *f;

	/* Not for real, there is no way back from that. */
	if (!lack_hugepages())
		return false;

	f = fopen(never, "w");
	return f && fputs("never\n", f) > 0 && !fclose(f) &&
	       !mount(never, nx_settings[NX_HUGE_PAGES].path, NULL, MS_BIND, NULL);
}

/* Run this very test with something amiss.  It must skip, and say why. */
static void expect_skip(bool (*prepare)(void), const char *reason)
{
	char out[4096] = {};
	size_t len = 0;
	int fds[2], status;
	ssize_t r;
	pid_t pid, parent = getpid();

	TEST_ASSERT(!pipe(fds), "pipe() failed");
	pid = fork();
	TEST_ASSERT(pid >= 0, "fork() failed");
	if (!pid) {
		/* It saves what this test has set, and must not restore that last. */
		nx_die_with(parent);
		if (!prepare())
			_exit(KSFT_XFAIL);
		dup2(fds[1], STDOUT_FILENO);
		dup2(fds[1], STDERR_FILENO);
		execl("/proc/self/exe", program_invocation_name, "-t", "logged_slot", NULL);
		_exit(KSFT_XFAIL);
	}

	close(fds[1]);
	while ((r = read(fds[0], out + len, sizeof(out) - 1 - len)) > 0)
		len += r;
	close(fds[0]);
	TEST_ASSERT(waitpid(pid, &status, 0) == pid, "waitpid() failed");

	if (WIFEXITED(status) && WEXITSTATUS(status) == KSFT_XFAIL)
		skip_case("can't bring about '%s' here", reason);
	TEST_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == KSFT_SKIP && strstr(out, reason),
		    "Status %#x and this output instead of skipping with '%s':\n%s",
		    status, reason, out);
}

static void test_skips(void)
{
	expect_skip(drop_privileges, "Permission denied");
	expect_skip(lack_kvm, KVM_DEV_PATH);
	expect_skip(lack_hugepages, "nr_hugepages");
	expect_skip(never_mitigate, "'never'");
}

static const struct test_case {
	const char *name;
	void (*fn)(void);
} cases[] = {
	{ "logged_slot",	test_logged_slot },
	{ "unlogged_slot",	test_unlogged_slot },
	{ "logging_off",	test_logging_off },
	{ "logging_off_1g",	test_logging_off_1g },
	{ "alternating_slots",	test_alternating_slots },
	{ "one_of_many_slots",	test_one_of_many_slots },
	{ "logged_before_split", test_logged_before_split },
	{ "readonly_slot",	test_readonly_slot },
	{ "smm_unlogged",	test_smm_unlogged },
	{ "smm_logged",		test_smm_logged },
	{ "dirty_ring",		test_dirty_ring },
	{ "initially_set",	test_initially_set },
	{ "churn",		test_churn },
	{ "skips",		test_skips },
};

static const struct test_case *running;

static void run_case(void)
{
	alarm(CASE_TIMEOUT_S + churn_s);
	running->fn();
}

/* Kernel warnings and worse, as far as the kernel admits to them. */
static unsigned long read_taint(void)
{
	const unsigned long splats = BIT(7) | BIT(9) | BIT(14);	/* D, W and L */
	unsigned long taint = 0;
	FILE *f;

	f = fopen("/proc/sys/kernel/tainted", "r");
	TEST_ASSERT(f && fscanf(f, "%lu", &taint) == 1, "Can't read the kernel's taint flags");
	fclose(f);
	return taint & splats;
}

static void print_help(const char *name)
{
	printf("usage: %s [-h] [-l] [-t case] [-d seconds]\n"
	       "\n"
	       " -h: Display this help.\n"
	       " -l: List the cases.\n"
	       " -t: Run only this case, e.g. to look at the one that failed.\n"
	       " -d: For how long to churn, default %u seconds.  Races are rare, give it\n"
	       "     minutes after a change to locking.\n", name, churn_s);
}

int main(int argc, char *argv[])
{
	const struct test_case *first = cases, *last = &cases[ARRAY_SIZE(cases) - 1];
	unsigned long taint, new_taint;
	int opt, status;

	while ((opt = getopt(argc, argv, "hlt:d:")) != -1) {
		switch (opt) {
		case 'l':
			for (running = first; running <= last; running++)
				puts(running->name);
			return 0;
		case 't':
			for (running = cases; running < &cases[ARRAY_SIZE(cases)]; running++) {
				if (!strcmp(running->name, optarg))
					break;
			}
			if (running == &cases[ARRAY_SIZE(cases)]) {
				fprintf(stderr, "No case '%s', see -l\n", optarg);
				return KSFT_FAIL;
			}
			first = running;
			last = running;
			break;
		case 'd':
			churn_s = nx_parse_uint("-d", optarg);
			break;
		case 'h':
			print_help(argv[0]);
			return 0;
		default:
			print_help(argv[0]);
			return KSFT_FAIL;
		}
	}

	nx_recovery_init();
	/* SMM has a huge page of its own. */
	nx_reserve_hugepages(HPAGES_PER_SLOT + 1);

	skip_reason = mmap(NULL, SKIP_REASON_SIZE, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	TEST_ASSERT(skip_reason != MAP_FAILED, "mmap() failed");

	ksft_print_header();
	ksft_set_plan(last - first + 1);

	taint = read_taint();
	for (running = first; running <= last; running++) {
		snprintf(skip_reason, SKIP_REASON_SIZE, "requirement not met, see above");
		status = nx_run_child(run_case);

		/* A case that died may have left the worker running. */
		nx_recovery_stop();

		new_taint = read_taint() & ~taint;
		taint |= new_taint;
		if (new_taint)
			ksft_print_msg("%s: new taint flags %#lx, see the kernel's log\n",
				       running->name, new_taint);
		if (WIFSIGNALED(status))
			ksft_print_msg("%s: %s\n", running->name, strsignal(WTERMSIG(status)));

		if (!status && !new_taint)
			ksft_test_result_pass("%s\n", running->name);
		else if (WIFEXITED(status) && WEXITSTATUS(status) == KSFT_SKIP && !new_taint)
			ksft_test_result_skip("%s: %s\n", running->name, skip_reason);
		else
			ksft_test_result_fail("%s\n", running->name);
	}

	if (ksft_get_xskip_cnt() == last - first + 1) {
		ksft_print_cnts();
		return KSFT_SKIP;
	}
	ksft_finished();
}
