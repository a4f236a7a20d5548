# The two commands that matter are `make demo` and `make test`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go
BIN := $(CURDIR)/bin
# What programs, images and manifests are called, and where the images will be.
VERSION ?= $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null)
REGISTRY ?=

# Static, as an image holds them; and a binary links in half the time. Only the race
# detector needs cgo.
export CGO_ENABLED := 0

# So that what is built in one checkout need not be built again in another; and without
# what only debuggers read, which is half of the work of a link.
export GOFLAGS := $(GOFLAGS) -trimpath -ldflags=-w

# To compile takes a seventh less of the processors when garbage is collected seldom. What is
# measured collects as it is deployed.
build test lint generate: export GOGC := 400

# Tools run at the versions named here; Go fetches and caches them.
CONTROLLER_GEN := $(GO) run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.21.0
GOLANGCI_LINT := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.12.2
GOVULNCHECK := $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0
GOTESTSUM := $(GO) run gotest.tools/gotestsum@v1.13.0 --format pkgname --hide-summary skipped --raw-command

# Where goroutines meet: the tests of these run with the race detector, and so do the
# components of TestStory in test/e2e.
RACE := ./backend/internal/githost/embedded ./gitbridge/store/... ./gitbridge/lease ./gitbridge/internal/claimcache ./gitbridge/internal/quota ./gitbridge/internal/session ./gitbridge/internal/statusbranch \
	./gitbridge/internal/controller/... ./konnector/internal/agent/repository ./konnector/internal/agent/renewal \
	./konnector/internal/agent/controller/... ./backend/internal/events ./backend/internal/keyring ./backend/internal/access
# The packages that take longest begin first, or one of them would run alone at the end.
LONGEST := ./test/e2e ./konnector/internal/agent/app ./gitbridge/internal/app ./konnector/internal/cli ./test/chaos ./backend/internal/app
# Tests wait for API servers part of the time, so more of them than processors run at once.
BESIDE := -p 3 -parallel 2

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  \033[1m%-14s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##

.PHONY: demo
demo: build demo-build ## Start everything on this machine, tell the story, and stay up to be tried.
	@$(BIN)/demo --bin $(BIN)

.PHONY: demo-once
demo-once: build demo-build ## Do the same and end; fail at the first step that fails.
	@$(BIN)/demo --bin $(BIN) --once

.PHONY: demo-build
demo-build:
	@$(GO) build -o $(BIN)/demo ./test/e2e/cmd/demo

.PHONY: build
build: ## Build the components and the kubectl plugin into bin/.
	@mkdir -p $(BIN)
	$(GO) build -ldflags '-w -X gitbind.dev/gitbridge/version.linked=$(VERSION) -X gitbind.dev/gitbridge/version.registry=$(REGISTRY)' -o $(BIN)/ ./konnector/cmd/... ./gitbridge/cmd/... ./backend/cmd/...

# The same commit and version of Go give the same digests, in each folder.
RELEASE = $(GO) run ./release/cmd/release
.PHONY: images
images: ## Make images for amd64 and arm64 as an OCI layout, dist/images (REGISTRY=registry.example.com/gitbind).
	$(RELEASE) images --version '$(VERSION)' --registry '$(REGISTRY)'

.PHONY: release
release: ## Make a release in dist: images, plugin, krew manifest, manifests, CRDs, SBOMs, notes (REGISTRY=…, DOWNLOADS=URL).
	$(RELEASE) folder --version '$(VERSION)' --registry '$(REGISTRY)' $(if $(DOWNLOADS),--downloads '$(DOWNLOADS)')

.PHONY: push-images
push-images: ## Push them with the credentials of docker: make push-images REGISTRY=registry.example.com/gitbind
	$(RELEASE) push --registry '$(REGISTRY)'

.PHONY: test-images
test-images: ## Build the images twice, run the story out of those for amd64 and arm64 (root), push them to a real registry.
	$(GO) run ./test/env/cmd/testenv build
	GITBIND_TEST_SLOW=1 $(GO) test -v -p 1 -timeout 60m -run _Slow ./release/...

.PHONY: e2e-node
e2e-node: ## Install images and manifests on nodes of two clusters, tell the story, and operate it (root, containerd; 6 minutes).
	$(GO) run ./test/env/cmd/testenv build
	$(GO) test -timeout 60m ./test/e2e/node -nodes -v

# The components are linked once for all packages that run them. Tests with the race detector
# leave one processor of two idle, which fuzzing takes.
.PHONY: test
test: export GITBIND_BIN := $(BIN)
test: build ## Run all tests but the slow ones, on real API servers, Crossplane, Dex and Git.
	$(GO) run ./test/env/cmd/testenv build
	@status=0; \
	$(MAKE) --no-print-directory --keep-going --jobs=2 test-race fuzz-short test-norace || status=1; \
	$(GOTESTSUM) --jsonfile $(BIN)/test.json -- $(GO) test -json -vet=off -timeout 30m $(BESIDE) \
		$(LONGEST) $$(comm -23 <($(GO) list ./... | sort) <($(GO) list $(RACE) | sort)) || status=1; \
	test/slowest $(BIN)/test-race.json $(BIN)/test.json; \
	exit $$status

.PHONY: test-race
test-race:
	@$(GOTESTSUM) --jsonfile $(BIN)/test-race.json -- env CGO_ENABLED=1 $(GO) test -json -race -vet=off -timeout 30m -parallel 4 $(RACE)

.PHONY: test-norace
test-norace:
	@$(GO) test -vet=off -timeout 30m -run _NoRace $$(grep -rl --include=*_test.go _NoRace . | xargs -n1 dirname | sort -u)

.PHONY: test-slow
test-slow: ## Run the slow tests: long outages, many kills, thousands of claims (docs/developing.md says which).
	$(GO) run ./test/env/cmd/testenv build
	GITBIND_TEST_SLOW=1 $(GO) test -v -p 1 -timeout 60m -run _Slow ./...

.PHONY: test-unit
test-unit: ## Run the tests that need nothing but Go and git.
	$(GO) test -short ./...

.PHONY: test-gitea
test-gitea: ## Run all of gitbind, and the rules of its Git engine, on a real Gitea, which is built first (10 minutes).
	$(GO) test -timeout 60m ./test/e2e -run '^TestOnGitea$$' -gitea -v
	$(GO) test -timeout 60m ./gitbridge/store/gitstore -run '^TestConformance$$' -gitea -v
	$(GO) test -timeout 60m ./backend/internal/githost/gitea -run '^TestConformance$$' -gitea -v

.PHONY: test-cert-manager
test-cert-manager: ## Have a real cert-manager, which is built first (4 minutes), issue and renew what kustomize/cert-manager asks for.
	$(GO) test -timeout 60m ./kustomize -run '^TestCertManager$$' -cert-manager -v

.PHONY: test-gitlab
test-gitlab: ## Try a real GitLab, on which a project is made and deleted (GITLAB_URL, GITLAB_GROUP, GITLAB_TOKEN_FILE; docs/gitlab.md).
	$(GO) test -timeout 10m ./backend/internal/githost/gitlab -run '^TestOnARealGitLab$$' -v -gitlab-url '$(GITLAB_URL)' -gitlab-group '$(GITLAB_GROUP)' -gitlab-token-file '$(abspath $(GITLAB_TOKEN_FILE))'

.PHONY: bench
bench: build ## Measure gitbind beside a bare client and write docs/bench (SIZES=1000,10000; QUICK=1 for some minutes). A Gitea is built first.
	$(GO) build -o $(BIN)/bench ./test/bench/cmd/bench
	$(BIN)/bench --bin $(BIN) $(if $(SIZES),--sizes $(SIZES)) $(if $(QUICK),--quick)

.PHONY: bench-large
bench-large: build ## Measure 100,000 claims of one app cluster, 500 of each of 200, and 5 of each of 500 and of 2,000, and write their pages in docs/bench (an hour and a half; 22 GiB)
	$(GO) build -o $(BIN)/bench ./test/bench/cmd/bench
	$(BIN)/bench --bin $(BIN) --sizes 100000 --only idleness --name 100000-claims
	$(BIN)/bench --bin $(BIN) --sizes 100000 --only clusters --claims-of-each 500 --name 200-clusters
	$(BIN)/bench --bin $(BIN) --sizes 1000 --only clusters --clusters 500 --claims-of-each 5 --name 500-clusters
	$(BIN)/bench --bin $(BIN) --sizes 1000 --only clusters --clusters 2000 --shards 4 --claims-of-each 5 --name 2000-clusters

.PHONY: chaos
chaos: ## Let everything fail for a while and see what is lost: make chaos SEED=1 FOR=5m RUNS=1
	$(GO) run ./test/chaos/cmd/chaos --seed $(or $(SEED),0) --for $(or $(FOR),5m) --runs $(or $(RUNS),1)

.PHONY: hostile
hostile: build ## Have a hundred tenants attack at once, and see what an innocent one notices (root, for limits of memory).
	$(GO) run ./test/hostile/cmd/hostile --bin $(BIN) $(HOSTILE)

# How long is a number of inputs: at the end of a time, Go before 1.27 now and then
# reports a failure that is none (go.dev/issue/75804).
.PHONY: fuzz
fuzz: ## Run each fuzz target for a minute or so (FUZZTIME=3000000x).
	@for target in $$(grep -rl --include=*_test.go '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		for f in $$(grep -ho '^func Fuzz[A-Za-z]*' $$target/*_test.go | cut -c6-); do \
			echo "$$target $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(or $(FUZZTIME),300000x) $$target; done; done

# The tests' own build, and what `make fuzz` has found worth keeping: to be guided by
# coverage, a fuzz target needs all that it imports compiled once more, for minutes. Two
# run at once, as each waits for its workers part of the time.
.PHONY: fuzz-short
fuzz-short: ## Run each fuzz target for a second or so, without the guide of coverage.
	@mkdir -p $(BIN)/fuzz; cache=$$($(GO) env GOCACHE)/fuzz; \
	targets=$$(grep -rl --include=*_test.go '^func Fuzz' . | xargs -n1 dirname | sort -u); \
	$(GO) test -c -vet=off -o $(BIN)/fuzz/ $$targets; \
	for target in $$targets; do \
		grep -ho '^func Fuzz[A-Za-z]*' $$target/*_test.go | cut -c6- | sed "s|^|$$target |"; done | \
	xargs -P 2 -L 1 bash -c 'out=$$(cd "$$1" && "$(BIN)/fuzz/$${1##*/}.test" -test.run "^$$" -test.fuzz "^$$2\$$" \
		-test.fuzztime 5000x -test.fuzzcachedir "'$$cache'/gitbind.dev$${1#.}" 2>&1) || status=1; \
		printf "%s %s\n%s\n" "$$1" "$$2" "$$out"; exit $${status:-0}' fuzz

.PHONY: mutants
mutants: ## Change one condition after the other in what decides, and see that a test fails (MUTANTS=DIRECTORY).
	$(GO) run ./test/mutants -min 90 $(MUTANTS)

.PHONY: lint
lint: ## Check format, vet and the rules of .golangci.yml.
	$(GOLANGCI_LINT) run

.PHONY: vuln
vuln: ## Look for known vulnerabilities that this code calls (needs vuln.go.dev, or GOVULNDB).
	$(GOVULNCHECK) $(if $(GOVULNDB),-db $(GOVULNDB)) ./...

.PHONY: generate
generate: ## Write CRDs, RBAC, deep copies and the manifests that the plugin installs.
	$(CONTROLLER_GEN) object paths=./gitbridge/api/v1alpha1
	$(CONTROLLER_GEN) object paths=./test/postgres/api/...
	$(CONTROLLER_GEN) crd paths=./test/postgres/api/... output:crd:artifacts:config=test/postgres/crds
	$(CONTROLLER_GEN) crd paths=./gitbridge/api/v1alpha1 output:crd:artifacts:config=$(BIN)/crds
	mv $(BIN)/crds/gitbind.dev_{connections,apiservicebindings}.yaml kustomize/crds/app/
	mv $(BIN)/crds/gitbind.dev_*.yaml kustomize/crds/control-plane/
	$(CONTROLLER_GEN) rbac:roleName=gitbind-konnector paths=./konnector/... output:rbac:artifacts:config=kustomize/rbac/konnector
	$(CONTROLLER_GEN) rbac:roleName=gitbind-gitbridge paths=./gitbridge/... output:rbac:artifacts:config=kustomize/rbac/gitbridge
	$(CONTROLLER_GEN) rbac:roleName=gitbind-backend paths=./backend/... output:rbac:artifacts:config=kustomize/rbac/backend
	$(GO) test ./konnector/internal/cli/install -run TestManifestIsCurrent -update

.PHONY: check-generated
check-generated: ## Fail when generated files are not current.
	$(MAKE) --no-print-directory generate
	@git diff --exit-code -- '*.yaml' '*zz_generated*' || { echo 'Generated files are not current: run make generate and commit.'; exit 1; }
	@untracked=$$(git ls-files --others --exclude-standard -- kustomize '*zz_generated*'); \
		[ -z "$$untracked" ] || { echo "Generated files are not committed: $$untracked"; exit 1; }

.PHONY: testenv
testenv: ## Start two clusters with Crossplane and Dex, without gitbind, until Ctrl-C.
	$(GO) run ./test/env/cmd/testenv up

# Tilt is built once, into the user's cache, and without its own web page, which is not
# made with Go. TILT=tilt takes an installed one, with its page. It needs no cluster.
TILT ?=
tilt = $(GO) run ./test/env/cmd/testenv build; tilt=$(TILT); \
	[ -n "$$tilt" ] || { tilt=$$($(GO) run ./test/env/cmd/testenv path tilt); \
		export TILT_WEB_PAGE=$(CURDIR)/test/env/parts/tilt/page.html; page=--web-mode=precompiled; }; \
	export DO_NOT_TRACK=1 KUBECONFIG=/dev/null; mkdir -p $(BIN)/tilt; trap 'ended=0' INT; \
	[ ! -x $(BIN)/tilt/dev ] || $(BIN)/tilt/dev wait --for 5s
tilt-end = $(BIN)/tilt/dev wait; exit $${ended:-$${status:-0}}

.PHONY: tilt
tilt: ## Run everything, rebuild and restart a component when its sources are saved (Tilt, built first).
	@$(tilt); "$$tilt" up $${page:-} || status=$$?; $(tilt-end)

.PHONY: tilt-ci
tilt-ci: ## Do the same until a claim is ready through all of it, and end.
	@$(tilt); "$$tilt" ci --port=0 --timeout=10m $${page:-} || status=$$?; $(tilt-end)

.PHONY: clean
clean: ## Remove what was built here (the parts in the user's cache stay).
	rm -rf $(BIN) dist
