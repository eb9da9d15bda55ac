# Every command of the project; `make help` lists them. CI calls only these.
SHELL := /bin/sh
TAG   ?= b8833
IK_COMMITS ?= 21ced1e3c158b8f5b8732d30195ea5ed76d5ec86
PROOF_TAGS ?= b8390 b9842
BROKEN_TAGS ?= b8390 b9842 v0.5.0
DRY_TAGS ?= b8390 v0.5.0
RELEASE_TAGS ?= b9842 v0.5.0
FUZZTIME ?= 30s
FUZZLONG ?= $(FUZZTIME)

GOLANGCI    = go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK = go run golang.org/x/vuln/cmd/govulncheck@v1.9.0
GREMLINS    = v0.6.0
TREE_SITTER = tree-sitter==0.26.1 tree-sitter-powershell==0.26.4

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## the main job: release $(TAG) for linux-cpu, from nothing to a bundle
	sh scripts/setup build
	@echo "demo: building llpatch itself (the first time Go fetches what it needs: a minute or two, in silence)" >&2
	$(MAKE) --no-print-directory build
	sh scripts/demo $(TAG)

.PHONY: build
build: ## build bin/llpatch
	go build -o bin/llpatch ./cmd/llpatch

.PHONY: test
test: ## every test but the full release and make test-all's, with the race detector
	sh scripts/setup build test win7
	go test -short -race -timeout 40m ./...

.PHONY: test-all
test-all: ## every test but the full release, those that make test leaves out with -short as well
	sh scripts/setup build test win7 syntax
	go test -race -count 1 -timeout 60m ./...

.PHONY: test-wine
test-wine: ## what of llpatch's own tests runs on Windows, through wine
	sh scripts/setup win7
	sh scripts/test-wine

.PHONY: real
real: ## a full release of b8390 from its npm package, compiled and run for real
	sh scripts/setup build test
	go test -tags real -timeout 60m -count 1 -run 'TestReal$$' -v ./internal/cli

.PHONY: real-win7
real-win7: ## the same for Windows 7, with MinGW-w64 and wine
	sh scripts/setup build win7
	go test -tags real -timeout 60m -count 1 -run TestFullWindows7 -v ./internal/cli

.PHONY: nvidia
nvidia: ## NVIDIA's cudart64_110.dll, by pip (1 MB): it exports what ours is linked with, and Windows 7 has what it needs; ARGS=-cublas: cuBLAS too (430 MB)
	sh scripts/setup build test
	go test -tags real -count 1 -run TestNVIDIA -v -timeout 30m . -args $(ARGS)

.PHONY: sim-win7
sim-win7: ## a long prompt on the simulated device through wine, with ubatch-pool-purge and without
	sh scripts/setup build syntax win7
	sh scripts/with-headers go test -tags real -timeout 40m -count 1 -run TestWindowsDevice -v ./internal/cli

.PHONY: syntax
syntax: ## compile every CUDA file that a fix touches, host side, on the npm bundles
	sh scripts/setup build syntax
	$(MAKE) --no-print-directory build
	sh scripts/check-fixes

.PHONY: leaks
leaks: ## the memory verdicts' figures: 20 real programs that leak, 200 that do not (7 minutes)
	go test ./internal/memory -count 1 -run TestReal -v -timeout 40m -args -leaks 20 -flats 200

.PHONY: proof
proof: ## the fixes' proofs, on the simulated device and without one, on the npm trees of PROOF_TAGS
	sh scripts/setup build syntax win7
	$(MAKE) --no-print-directory build
	sh scripts/with-headers sh scripts/proof $(PROOF_TAGS)

.PHONY: proof-ik
proof-ik: ## the proofs of ik_llama.cpp's fixes on the simulated CUDA device, on IK_COMMITS of a clone at IK=PATH, and prefill-reserve broken
	$(if $(IK),,$(error IK names no clone of ik_llama.cpp))
	sh scripts/setup build syntax
	$(MAKE) --no-print-directory build
	for c in $(IK_COMMITS); do sh scripts/with-headers bin/llpatch smoke $$c ik-linux-cpu --device sim --locked --source "$(IK)" || exit 1; done
	sh scripts/with-headers go test -tags real -timeout 180m -count 1 -run TestBrokenIK -v ./internal/cli -args \
		-broken-ik "$(firstword $(IK_COMMITS))" -broken-source "$(abspath $(IK))" $(ARGS)

.PHONY: dry-run
dry-run: ## vram --tag builds the dry run of DRY_TAGS from npm, and gives caches that are known (TREE=DIR: over all architectures of these sources)
	sh scripts/setup build test
	go test -tags real -timeout 60m -count 1 -run 'TestDryRun$$' -v ./internal/cli -args -vram-tags "$(DRY_TAGS)"
	$(if $(TREE),go test -tags real -timeout 60m -count 1 -run TestArchs -v ./internal/dryrun -args -tree "$(abspath $(TREE))")

.PHONY: broken-fixes
broken-fixes: ## break each memory fix in every way of internal/broken, on the npm trees of BROKEN_TAGS: its proof must notice (ARGS=-broken-record=FILE)
	$(if $(strip $(BROKEN_TAGS)),,$(error BROKEN_TAGS names no tag))
	sh scripts/setup build syntax
	sh scripts/with-headers go test -tags real -timeout 180m -count 1 -run TestBrokenFixes -v ./internal/cli -args -broken-tags "$(BROKEN_TAGS)" $(ARGS)

.PHONY: releases
releases: ## cold releases of RELEASE_TAGS for linux-cpu, whose trees hold no built web page
	sh scripts/setup build
	$(MAKE) --no-print-directory build
	for tag in $(RELEASE_TAGS); do sh scripts/cold-release $$tag linux-cpu || exit 1; done

.PHONY: starts
starts: ## b8390 for linux-cpu, made in debian-11, starts in the bare roots of Debian 11 to 14, answers and gives its page; ROOTS=bare-debian-11: there alone
	sh scripts/setup build test
	CGO_ENABLED=0 $(MAKE) --no-print-directory build
	bin/llpatch env create debian-11
	out=$$(mktemp -d) && trap 'rm -rf "$$out"' EXIT && bin/llpatch --out "$$out" release b8390 linux-cpu --locked --env debian-11 && \
		bash scripts/starts-on "$$out"/b8390/linux-cpu/*-glibc2.31-x64.tar.gz $(ROOTS)

.PHONY: roots
roots: ## cold releases of b8390 in the build roots for NVIDIA cards, for one card (3.3 GB to download)
	sh scripts/setup build test win7
	CGO_ENABLED=0 $(MAKE) --no-print-directory build
	sh scripts/cold-release b8390 linux-cuda cuda-11.8 --cuda-archs 86-real
	sh scripts/cold-release b8390 linux-cuda cuda-12.4 --cuda-archs 86-real
	sh scripts/cold-release b8390 win7-vxkex-cuda11.4 win7-cuda-11.8

.PHONY: mutation
mutation: ## break 100 lines of five packages: the fast tests must notice (ARGS="--sample 20 --seed 2", or --base REF: what changed since)
	GREMLINS=$(GREMLINS) sh scripts/mutation $(ARGS)

.PHONY: fork-interop
fork-interop: ## the tests of llpatch fork with the git and the jj of Debian's next release, in a root of its own
	sh scripts/setup interop
	sh scripts/fork-interop

.PHONY: gitea
gitea: ## llpatch fork with a real Gitea as the far side, built from its Go module (GITEA=PROGRAM SRC=ITS-SOURCES: one that is there)
	sh scripts/setup build test sshd
	$(MAKE) --no-print-directory build
	sh scripts/gitea

.PHONY: mirror
mirror: ## the tests on upstream's whole history, in a clone at MIRROR=PATH
	$(if $(MIRROR),,$(error MIRROR names no clone of llama.cpp))
	sh scripts/mirror "$(MIRROR)"

.PHONY: powershell
powershell: ## the scripts for a Windows machine are PowerShell, by tree-sitter's grammar (two wheels from PyPI)
	sh scripts/setup test
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && pip3 install -q --target "$$dir" $(TREE_SITTER) && \
		PYTHONPATH=$$dir go test -count 1 -run PowerShell -v ./internal/build

.PHONY: determinism
determinism: ## b8390 for linux-cpu twice, with another locale, zone, umask, folder and number of cores: the same bytes
	sh scripts/setup build test
	$(MAKE) --no-print-directory build
	sh scripts/determinism b8390 linux-cpu --locked

# One part of make nightly each: a target, and variables for it.
NIGHTLY ?= test-all mutation proof dry-run broken-fixes real-win7 sim-win7 releases starts roots determinism leaks fork-interop gitea 'nvidia ARGS=-cublas' 'fuzz FUZZTIME=20s FUZZLONG=1m' \
	$(if $(MIRROR),mirror,'NOT RUN: mirror: MIRROR names no clone of llama.cpp') \
	$(if $(IK),proof-ik,'NOT RUN: proof-ik: IK names no clone of ik_llama.cpp')

.PHONY: nightly
nightly: ## what CI has no time for, on after a failure; NIGHTLY="PART..." runs other parts
	sh scripts/with-headers sh scripts/nightly $(NIGHTLY)

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (30s), the four main ones for FUZZLONG (FUZZTIME); ARGS=--main: those alone
	sh scripts/fuzz $(ARGS) $(FUZZTIME) $(FUZZLONG)
	@echo "to add such executions to docs/fuzz.md: sh scripts/fuzz --record [TIME]"

.PHONY: bench
bench: ## the measurements of docs/performance.md
	sh scripts/setup build test
	$(MAKE) --no-print-directory build
	sh scripts/bench

.PHONY: fmt
fmt: ## format the Go files
	$(GOLANGCI) fmt

.PHONY: lint
lint: ## golangci-lint (formatting, vet, staticcheck and more), vet for Windows and macOS, a tidy go.mod
	GOOS=windows go vet ./...
	GOOS=darwin go vet ./...
	$(GOLANGCI) run
	go mod tidy -diff

.PHONY: vuln
vuln: ## known vulnerabilities that are reachable (asks Go's vulnerability database)
	sh scripts/vuln $(GOVULNCHECK)
