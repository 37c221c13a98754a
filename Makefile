# Commands for contributors. `make` alone lists them; CI runs `make test`.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help build dev fmt lint deny test cargo-test test-postgres-versions \
	soak chaos failover reseal steady siege bench bench-store count-pages clean

target := $(or $(CARGO_TARGET_DIR),target)
posthaste := $(target)/release/posthaste
heading = @printf '\n== %s\n'

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the release binary, and put its debug information into posthaste.debug next to it
	cargo build --release --locked
	scripts/split-debug-info $(posthaste)

dev: ## build without optimization and run all roles on the embedded store in ./posthaste-data; prints commands to try
	cargo build --profile quick --locked
	$(target)/quick/posthaste dev

fmt: ## format the code
	cargo fmt --all

lint: ## check formatting, and run clippy with warnings as errors
	$(heading) 'formatting'
	cargo fmt --all --check
	$(heading) 'clippy'
	cargo clippy --workspace --all-targets --locked -- -D warnings

deny: ## check dependencies: banned crates, licenses, sources
	$(heading) 'dependencies'
	scripts/check-dependencies

test: ## install what the tests need, then run all checks of CI: lint, dependencies, tests
	@scripts/with-tools scripts/with-postgres $(MAKE) --no-print-directory lint deny cargo-test

# Build the binaries first: some tests start them as processes, and find them in the target folder.
cargo-test:
	$(heading) 'tests'
	cargo build --workspace --bins --locked
	cargo test --workspace --locked

test-postgres-versions: ## run the tests of the stores on PostgreSQL 15, 16, 17 and 18 (POSTGRES_VERSIONS='16 17')
	cargo build --workspace --bins --locked
	@for version in $(or $(POSTGRES_VERSIONS),15 16 17 18); do \
		printf '\n== tests of the stores on PostgreSQL %s\n' "$$version"; \
		POSTHASTE_TEST_POSTGRES_VERSION=$$version scripts/with-tools scripts/with-postgres \
			cargo test --workspace --locked --test conformance --test connect --test database || exit; \
	done

soak: build ## deliver 100,000 events to ten subscriptions with nine processes (SOAK_EVENTS=…)
	cargo build --release --locked -p posthaste-testkit --bin soak
	scripts/with-postgres --durable $(dir $(posthaste))soak

chaos: build ## kill, stop and cut off processes, PostgreSQL and the broker under load (CHAOS_ROUNDS=… CHAOS_SECONDS=… OUTAGE_SECONDS=… CHAOS_ONLY=orders)
	cargo build --release --locked -p posthaste-testkit --bin chaos
	scripts/with-postgres --durable $(dir $(posthaste))chaos

failover: build ## kill the primary of three PostgreSQL servers under Patroni ten times under load (FAILOVER_ROUNDS=…)
	cargo build --release --locked -p posthaste-testkit --bin failover
	scripts/with-tools --only patroni,etcd scripts/with-postgres --durable $(dir $(posthaste))failover

steady: build ## run 1,000 events per second for half an hour, then next to an open transaction (STEADY_RATE=… STEADY_MINUTES=… OPEN_MINUTES=…)
	cargo build --release --locked -p posthaste-testkit --bin steady
	scripts/with-postgres --durable $(dir $(posthaste))steady

siege: build ## attack with connections that do not read, slow uploads and long queries during deliveries (SIEGE_CONNECTIONS=… SIEGE_UPLOADS=… SIEGE_QUERIES=… SIEGE_SECONDS=…)
	cargo build --release --locked -p posthaste-testkit --bin siege
	scripts/with-postgres --durable $(dir $(posthaste))siege

bench: build ## measure deliveries on both stores, next to hanging receivers, and the order lane (about 45 minutes)
	scripts/with-postgres --durable sh -c \
		'POSTHASTE_BENCH_DATABASE_URL="$$POSTHASTE_TEST_POSTGRES_URL" exec $(posthaste) bench'
	cargo build --release --locked -p posthaste-bench -p posthaste-testkit --bin bench-isolation --bin bench-outbox
	scripts/with-postgres --durable $(dir $(posthaste))bench-isolation
	scripts/with-postgres --durable $(dir $(posthaste))bench-outbox

bench-store: ## measure both stores alone, with fsync on
	scripts/with-postgres --durable cargo run --release --locked -p posthaste-testkit --bin bench-store

count-pages: ## count what each dashboard page reads next to a million deliveries (COUNTED_DELIVERIES=…)
	POSTHASTE_COUNTED_DELIVERIES=$(or $(COUNTED_DELIVERIES),1000000) scripts/with-postgres \
		cargo test --locked -p posthaste-testkit --test api -- --nocapture a_page_costs

reseal: build ## encrypt the secrets of 100,000 subscriptions again during deliveries, killed half-way (RESEALED_SUBSCRIPTIONS=…)
	POSTHASTE_BIN=$(posthaste) POSTHASTE_RESEALED_SUBSCRIPTIONS=$(or $(RESEALED_SUBSCRIPTIONS),100000) \
		scripts/with-postgres --durable cargo test --locked -p posthaste --test outside -- --nocapture \
		--test-threads=1 secrets_are_resealed

clean: ## remove build output
	cargo clean
