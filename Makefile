# make help lists the targets. `make test` is all that a change has to pass, but for
# the linters and the other platforms, which `make lint cross` add; .ci/run does all.

GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME ?= 60s
SOAK ?= 10m

.DEFAULT_GOAL := help
.PHONY: help build test lint cross bench fuzz stress soak demo docs packages

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## the two programs, into bin/
	$(GO) build -trimpath -o bin/ ./cmd/executor ./cmd/brain

# More packages at once than there are processors: many tests wait for a clock. Those that take longest begin first.
# Vet is a part of lint.
SLOW = ./cmd/executor ./executor ./capabilities/shell ./capabilities/internal/spawn ./protocol/brain/gateway
# The race detector maps its memory of a large object anew at each allocation unless it is told to clear it in place.
test: export GORACE ?= atexit_sleep_ms=0 no_huge_pages_for_shadow=0 clear_shadow_mmap_threshold=16777216
test: ## all tests, with the race detector
	$(GO) test -race -vet=off -p 4 -timeout 8m -ldflags='-s -w' $(SLOW) ./...

lint: ## gofmt, vet and staticcheck
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

cross: ## build for the other platforms
	GOOS=darwin GOARCH=arm64 $(GO) build ./...
	GOOS=windows GOARCH=amd64 $(GO) build ./...
	GOOS=linux GOARCH=arm64 $(GO) build ./...

bench: ## ratios to other ways of doing the same, measured side by side in one run
	$(GO) test -run '^$$' -bench 'AgainstStock' -benchtime 1x ./protocol/rpc
	$(GO) test -run '^$$' -bench 'Commit' -benchtime 1x ./executor/internal/outbox/journal
	$(GO) test -run '^$$' -bench 'ToolCall|DurableCall' -benchtime 1x ./executor
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 30m ./cmd/executor
	$(GO) test -run '^$$' -bench 'AgainstFloor' -benchtime 1x ./capabilities/files
	$(GO) test -run '^$$' -bench 'AgainstTools' -benchtime 1x -timeout 1h ./capabilities/internal/search

fuzz: ## every fuzz target for FUZZTIME (60s) each
	@set -e; for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

stress: ## the tests that are short by default, at their full size
	EXECUTOR_STRESS=1 EXECUTOR_KILLS=200 $(GO) test -count 1 -timeout 30m ./cmd/... ./executor/... ./capabilities/...

soak: ## both ends, the network and the machine fail at random for SOAK (10m); the ledger has to be right in the end
	EXECUTOR_SOAK=$(SOAK) $(GO) test -run '^TestSoak$$' -count 1 -timeout 0 -v ./cmd/executor

docs: ## what is made from the code: units, tables of the README and of PROTOCOL.md
	$(GO) test ./cmd/executor/internal/config ./cmd/executor/internal/service -run UpToDate -update
	$(GO) test ./protocol -run TestDocument -update

packages: ## .deb and .rpm, into bin/packages, for GOARCH
	GO='$(GO)' bash cmd/executor/packaging/build.sh

demo: ## the whole story in one process
	$(GO) run ./cmd/executor demo
