# Thin: what a target does is in the command that it calls.

# Build products outlive a clone.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/forebay
# Debian keeps servers where users other than root do not look.
export PATH := $(CACHE)/tools/bin:$(PATH):/usr/sbin:/sbin
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
DEBUG := $(TARGET)/debug/forebay
# Optimised, without link-time optimisation: the demo, the count of instructions and xtask share one build.
QUICK := $(TARGET)/quick/forebay
RELEASE := $(TARGET)/release/forebay
# Tests write here what they have left out (`testkit::needs`).
export FOREBAY_LEFT_OUT := $(TARGET)/left-out.txt
CARGO_DENY := cargo-deny@0.20.2

.PHONY: help demo test lint unit kubernetes instructions dist image image-test advisories cluster conformance gateway-conformance field-cases adversary soak http3-changes fuzz dropin peers peers-kubernetes overload release

help: ## Say what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

demo: ## What does an ingress cost? Build Forebay, and measure it here
	@testing/programs 'make demo' build
	@test -x $(QUICK) || echo "make demo: builds Forebay first: some six minutes on two CPUs, once. Cargo tells how far it is."
	@cargo build --profile quick --bin forebay
	@$(QUICK) demo
	@echo "make demo: this build lacks link-time optimisation. \`make release\` makes what ships: some ten minutes more, and 2 to 8 % fewer instructions for a request."

test: plan lint unit kubernetes instructions ## Everything that a commit has to pass; says what it does, and for how long
	@test ! -s $(FOREBAY_LEFT_OUT) || echo "make test: passed without $$(sort -u $(FOREBAY_LEFT_OUT) | paste -sd '|' | sed 's/|/; /g')"

# Before anything is built.
.PHONY: plan programs
plan: programs
	@mkdir -p $(TARGET) && rm -f $(FOREBAY_LEFT_OUT)
	@echo "make test: lint, then unit, kubernetes, instructions. On two CPUs the first run builds for half an hour; later ones take some ten minutes."

programs:
	@testing/programs 'make test' build test

lint: programs tools
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
	cargo xtask tidy
	@test -z "$$(gofmt -l testing)" || { gofmt -d testing; exit 1; }
	cargo deny --log-level error check bans licenses sources

# The binary that is built for end-to-end tests is the one that others start: with features of its own it
# would be built again.
unit: programs
	cargo test --workspace --no-run
	FOREBAY_BINARY=$(DEBUG) cargo test --quiet --workspace --exclude cluster
	cargo test --quiet --workspace --exclude cluster --test e2e -- --ignored what_ingresses_become

kubernetes: programs
	cargo xtask cluster test

instructions: programs ## Count the instructions of a request, and compare with testing/instructions.txt
	cargo xtask instructions

cluster: programs ## Start a Kubernetes cluster, in namespaces of its own, until Ctrl-C
	cargo build --package forebay
	@cargo xtask cluster up

dist: ## Make what people install, in dist/: archives with static binaries, Debian packages, bills of materials, sums
	cargo xtask dist

image: ## Make the container image, in dist/, without a container daemon
	cargo xtask image

image-test: ## Run an image of a binary of `cargo build` as the chart runs it; as root, with crun or runc
	@testing/programs 'make image-test' build image
	cargo build --package forebay
	@cargo xtask image-test --binary $(DEBUG)

conformance: toolchain ## Run h2spec, gRPC's interoperability tests, testssl.sh, ws, Redis, PHP-FPM, the core rules' tests and more
	cargo build --package forebay
	cargo xtask conformance
	cargo xtask waf --hostile

gateway-conformance: programs ## Run the Gateway API's official conformance suite, and write testing/gateway/report.yaml
	cargo build --package forebay
	cargo xtask gateway-conformance

field-cases: release ## Make the field cases happen, and write what they show into docs/field-cases.md
	FOREBAY_BINARY=$(RELEASE) FOREBAY_WRITE_DOCS=1 cargo test --quiet --profile quick --package field-cases --test field_cases

adversary: release ## Attack Forebay: SEED and TIME (10m for each generator), and measure what others notice of it
	FOREBAY_BINARY=$(RELEASE) cargo xtask adversary $(if $(SEED),--seed $(SEED)) --duration $(or $(TIME),1m)
	FOREBAY_BINARY=$(RELEASE) cargo xtask adversary --measure

soak: release ## Everything at once, for TIME (8h) from SEED (1): all protocols, changes, failures, kills (none: UNDISTURBED=yes); report in target/soak
	@testing/programs 'make soak' build test
	FOREBAY_BINARY=$(RELEASE) cargo test --quiet --profile quick --package soak --test soak -- --time $(or $(TIME),8h) --seed $(or $(SEED),1) $(if $(UNDISTURBED),--undisturbed) --folder $(TARGET)/soak

http3-changes: programs ## 500 downloads over HTTP/3 go on over 1,000 changes, and ten replicas are replaced under clients; nine minutes
	cargo test --quiet --workspace --exclude cluster --test e2e -- --ignored five_hundred_downloads ten_replacements

fuzz: toolchain ## Run each fuzz target for TIME (30m), and stop at the first find
	cargo xtask fuzz --duration $(or $(TIME),30m)

peers: release ## Measure Forebay beside nginx, HAProxy, Envoy, Caddy and Pingora; says what it needs
	cargo xtask peers --write

dropin: toolchain ## Ask Forebay and Traefik what the documentation and tests of ingress-nginx say, and write docs/dropin.md
	cargo build --package forebay
	cargo xtask dropin --write

peers-kubernetes: release ## Measure Forebay in a cluster: at scale, under change and in trouble
	cargo xtask peers-kubernetes --write

overload: release ## Overload services behind Forebay, nginx and HAProxy; says what it needs
	cargo xtask overload --write

advisories: tools ## Look for known vulnerabilities in what is built in; fetches RustSec's database from the internet
	cargo deny --log-level error check advisories

release: toolchain
	@test -x $(RELEASE) || echo "make release: some ten minutes on two CPUs, once. Cargo tells how far it is."
	cargo build --release --package forebay

.PHONY: toolchain tools
toolchain:
	@testing/programs make build

# Not optimised: it is built once and runs for seconds.
tools: toolchain
	@command -v cargo-deny >/dev/null || { echo "make: installs $(CARGO_DENY) first, which checks dependencies: some minutes, once. Cargo tells how far it is."; \
		cargo install --debug --locked --root $(CACHE)/tools $(CARGO_DENY); }

# Cargo uses all CPUs by itself, and steps build on each other.
.NOTPARALLEL:
