# SPDX-License-Identifier: GPL-2.0

KERNEL ?= $(shell KDIR='$(KDIR)' bash -c '. tools/lab/lib.sh; default_kernel')

.PHONY: $(shell sed -n 's/:.* \#\# .*//p' $(MAKEFILE_LIST))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  KERNEL=6.1|6.12|7.3 chooses the base (here: $(KERNEL)); KDIR=DIR a kernel tree of your own.'

bench: ## execute_perf_test on KERNEL, stock against patched (MACHINE=amd FLAVOUR=lab RUNS=3); MACHINE=host: the running kernel (YES=y: do not ask)
	@tools/lab/bench -k $(KERNEL) -f $(or $(FLAVOUR),lab) -m $(or $(MACHINE),amd) -r $(or $(RUNS),3) $(if $(YES),-y)

bundle: ## a tarball that measures a server without compiler or network (OUT=FILE)
	@tools/lab/bundle $(if $(OUT),-o '$(OUT)') $(KERNEL)

bench-access: ## access_tracking_perf_test on KERNEL, the kernel's own against ours
	@tools/lab/bench-access -k $(KERNEL)

check: ## run every test (T="tests/NAME.t ..." runs some)
	@tests/check $(T)

check-apply: ## make apply and unapply, on a cut-down tree
	@tests/check tests/full/apply.t

check-bisect: ## each commit of the series for KERNEL builds, boots and passes the tests so far
	@tests/check tests/full/bisect.t :: $(KERNEL)

check-builds: ## compile KVM as modules, without SMM, for i386; compare symbol CRCs
	@tests/check tests/full/builds.t tests/full/crc.t

check-deb: ## make deb in a root of Debian 12: install, build by DKMS, boot, upgrade, remove
	@tests/check tests/full/deb.t

check-debug: ## the functional test on kernels with lockdep, KASAN and their kind
	@tests/check tests/full/debug.t

check-lab: ## what tools/lab/run passes on, refuses and leaves behind; its guide; the bundle
	@tests/check tests/full/lab.t tests/full/guide.t tests/full/bundle.t

check-matrix: ## the selftests on every kernel, machine, paging mode and side: a table
	@tools/lab/matrix

check-report: ## the report, and its page in Chromium, which is installed for that
	@tests/check tests/report.t :: full

check-selftests: ## the kernel's own KVM selftests, stock against patched, for KERNEL
	@tools/lab/compare-selftests $(KERNEL)

codegen: ## what the compiler makes of the series for KERNEL (V=-v: instructions)
	@tools/lab/codegen $(V) $(KERNEL)

kunit: ## the policy's KUnit suite under UML, as ./tools/testing/kunit/kunit.py run
	@tools/testing/kunit/kunit.py run

lint: ## what checkpatch, W=1, sparse and kernel-doc say of the series for KERNEL
	@tools/lab/lint $(KERNEL)

lint-all: ## make lint for each kernel, and that it finds what is wrong
	@tests/check tests/lint.t :: full

deb: ## the package that does make modules for each kernel of a host
	@tools/lab/deb

modules: ## KVM's modules, with the series, for Debian 12's kernel KVER (the running one)
	@tools/lab/modules $(KVER)

tree: ## prepare KERNEL's source tree with the series, print its path
	@tools/lab/tree $(KERNEL)

patches: ## write the series for KERNEL as files for git am (OUT=FOLDER)
	@tools/lab/patches $(KERNEL) $(if $(OUT),'$(OUT)')

apply: ## commit the series on a new branch of the git tree KDIR
	@tools/lab/apply '$(KDIR)'

unapply: ## check out what KDIR had before, and delete that branch
	@tools/lab/apply -u '$(KDIR)'

refresh: ## take the commits of KERNEL's tree into series/
	@tools/lab/refresh $(KERNEL)

fetch: ## fetch the newest source package of each base
	@for k in 6.1 6.12 7.3; do tools/lab/source -u $$k || exit; done

clean: ## remove this clone's trees; what clones share stays
	@tools/lab/clean
