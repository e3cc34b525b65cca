# Thin: what a target does is in the command that it calls.

# Build products outlive a clone.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/forebay
export PATH := $(CACHE)/tools/bin:$(PATH)
DEBUG := $(abspath $(or $(CARGO_TARGET_DIR),target))/debug/forebay
RELEASE := $(abspath $(or $(CARGO_TARGET_DIR),target))/release/forebay
CARGO_DENY := cargo-deny@0.20.2

.PHONY: help demo test lint unit kubernetes instructions dist image image-test advisories cluster conformance gateway-conformance field-cases adversary peers peers-kubernetes overload release

help: ## Say what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

demo: toolchain ## What does an ingress cost? Build Forebay, and measure it here
	@test -x $(RELEASE) || echo "make demo: builds Forebay first, with all optimisations: some ten minutes on two CPUs, once. Cargo tells how far it is."
	@cargo build --release --package forebay
	@$(RELEASE) demo

test: plan lint unit kubernetes instructions ## Everything that a commit has to pass; says what it does, and for how long

.PHONY: plan
plan:
	@echo "make test: lint, then unit, kubernetes, instructions. On two CPUs the first run builds for half an hour; later ones take some ten minutes."

lint: tools
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
	cargo xtask tidy
	@test -z "$$(gofmt -l testing)" || { gofmt -d testing; exit 1; }
	cargo deny --log-level error check bans licenses sources

unit: tools
	cargo test --workspace --exclude cluster --no-run
	cargo test --quiet --workspace --exclude cluster
	cargo test --quiet --workspace --exclude cluster --test e2e -- --ignored what_ingresses_become

kubernetes: tools
	cargo xtask cluster test

instructions: tools ## Count the instructions of a request, and compare with testing/instructions.txt
	cargo xtask instructions

cluster: tools ## Start a Kubernetes cluster, in namespaces of its own, until Ctrl-C
	cargo build --package forebay
	@cargo xtask cluster up

dist: ## Make what people install, in dist/: archives with static binaries, Debian packages, bills of materials, sums
	cargo xtask dist

image: ## Make the container image, in dist/, without a container daemon
	cargo xtask image

image-test: ## Run an image of a binary of `cargo build` as the chart runs it; as root, with crun or runc
	cargo build --package forebay
	@cargo xtask image-test --binary $(DEBUG)

conformance: tools ## Run h2spec, gRPC's interoperability tests, testssl.sh, ws, Redis, PHP-FPM and more against Forebay
	cargo build --package forebay
	cargo xtask conformance

gateway-conformance: tools ## Run the Gateway API's official conformance suite, and write testing/gateway/report.yaml
	cargo build --package forebay
	cargo xtask gateway-conformance

field-cases: release ## Make the field cases happen, and write what they show into docs/field-cases.md
	FOREBAY_BINARY=$(RELEASE) FOREBAY_WRITE_DOCS=1 cargo test --quiet --profile xtask --package field-cases --test field_cases

adversary: release ## Attack Forebay: SEED and TIME (10m for each generator), and measure what others notice of it
	FOREBAY_BINARY=$(RELEASE) cargo xtask adversary $(if $(SEED),--seed $(SEED)) --duration $(or $(TIME),1m)
	FOREBAY_BINARY=$(RELEASE) cargo xtask adversary --measure

peers: release ## Measure Forebay beside nginx, HAProxy, Envoy, Caddy and Pingora; says what it needs
	cargo xtask peers --write

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
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust 1.95 or later with rustup (https://rustup.rs)" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "a C compiler is missing: apt-get install gcc make" >&2; exit 1; }

tools: toolchain
	@command -v cargo-deny >/dev/null || { echo "make: installs $(CARGO_DENY) first, which checks dependencies: some minutes, once. Cargo tells how far it is."; \
		cargo install --locked --root $(CACHE)/tools $(CARGO_DENY); }
