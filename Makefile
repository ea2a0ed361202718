# Continuous integration has two cores. With three packages at once, one of them makes the servers of the others stall.
# Two interpreters run without the race detector and without pointer checks. They are SQLite, whose memory belongs to
# its C code with its own locks, and the Lua of the embedded Redis, which runs under one lock. With these checks they
# take two fifths of a whole node's tests. Without debugger tables, linking takes half as long. "make lint" runs vet.
TEST_FLAGS ?= -p 2 -parallel 4
# The library, and the adapters for a program's existing clients. They are separate modules, so that the library depends
# on no other client than its own.
MODULES = lib lib/keyspace/tools lib/redis/onrueidis lib/redis/ongoredis lib/cache/cacheotel
# Whole nodes, whole processes, and packages whose own code has no goroutines. A race detector doubles or triples their time, and the
# packages below find the races of each part.
WHOLE = ./internal/wholeserver ./e2e ./internal/wholeserver/integration . ./deploy ./internal/storage/sqlcopy \
	./lib/keyspace/tools/cli ./lib/keyspace/tools/keyvet
# The slowest packages are first, and the modules have dependencies of their own. If these were last, one of them would
# leave a processor idle.
SLOW = ./internal/checkin ./internal/messaging ./internal/transfers
PACKAGES ?= $(WHOLE) $(SLOW) $(MODULES:%=./%/...) ./...

.PHONY: help run build test test-all test-mysql test-stability test-timing soak lint generate check-compatible check-generated bench bench-checkin bench-boards bench-audit bench-cache bench-cost bench-files bench-people bench-presence bench-realtime bench-rooms bench-size bench-start bench-http bench-live hazards hazards-checkin deps

help: ## Show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## Run the server on embedded engines
	go run ./cmd/stoa serve

build: ## Build bin/stoa
	go build -trimpath -o bin/stoa ./cmd/stoa

UNWATCHED = -race=false -d=checkptr=0
# Without atexit_sleep_ms, the tests of each package would sleep for a second at their end. A package without changes
# since its last green run is not run again. STOA_TEST_RUN differs in each run, for tests that read it. With a larger heap,
# the compiler and the tests need a tenth less processor time.
GO_TEST = GOGC=400 STOA_TEST_RUN=$$(date +%s) CGO_ENABLED=1 GORACE=atexit_sleep_ms=20 $(CURDIR)/scripts/in-memory.sh $(CURDIR)/scripts/in-workspace.sh go test -ldflags='-s -w' -vet=off -timeout 30m $(TEST_FLAGS)
TEST = $(GO_TEST) -race -gcflags='modernc.org/...=$(UNWATCHED)' -gcflags='github.com/yuin/gopher-lua/...=$(UNWATCHED)'

test: deps ## Run the tests of what has changed, with real engines; in a fresh clone, every test
ifeq ($(origin PACKAGES),file)
	@all=$$(scripts/in-workspace.sh go list $(SLOW) $(MODULES:%=./%/...) ./...) && whole=$$(scripts/in-workspace.sh go list $(WHOLE)) && \
	others=$$(echo "$$all" | grep -vxF "$$whole") && \
	{ $(GO_TEST) $(WHOLE); status=$$?; $(TEST) $$others && exit $$status; }
else
	$(TEST) $(PACKAGES)
endif

test-all: deps ## Run every test with the race detector, in random order, and the hazards of check-in
	$(TEST) -tags hazards -count=1 -shuffle=on $(PACKAGES)

# Half of the runs use a machine that stalls. A short trial: RUNS=2 PACKAGES="./lib/lease ./e2e". HARSH=1 stops the
# processes of every run most of the time. Use it for one package at a time: HARSH=1 RUNS=1 PACKAGES=./lib/lease
RUNS ?= 8

test-stability: deps ## Run the tests eight times, four of them on a machine that stalls; takes hours
	RUNS=$(RUNS) scripts/test-stability.sh $(PACKAGES)

test-timing: deps ## Run the tests that judge by real time, one after another, on a machine that does nothing else
	scripts/in-workspace.sh go test -tags timing -p 1 -parallel 1 -run Timing $(PACKAGES)

# The packages that use SQL.
MYSQL_TESTS ?= ./internal/... ./e2e

test-mysql: deps ## Run the tests that touch SQL on MySQL alone
	@scripts/mysql.sh
	STOA_TEST_SQL=mysql $(GO_TEST) $(MYSQL_TESTS)

lint: ## Check form, vet, staticcheck and go.mod, of the other modules too, and the scripts of the page and the client
	@scripts/lint.sh

generate: ## Write docs/reference, keyspace.lock and Redis' users anew
	go run ./cmd/stoa keys diff --write
	go run ./cmd/stoa keys acl --role stoa --wide --into deploy/redis/users.acl
	go run ./cmd/stoa reference docs/reference

check-compatible: ## Hold the library's exported names against those of its newest version
	@scripts/check-compatible.sh

check-generated: ## Compare what is generated with what is in the tree
	@scripts/check-generated.sh

bench: bench-checkin bench-boards bench-people bench-start ## Measure everything on real engines

bench-checkin: ## Measure check-in against other ways; BENCH_FLAGS=-short takes seconds
	cd bench && go run ./checkin $(BENCH_FLAGS)

bench-boards: ## Measure boards of a million, exact and compact
	cd bench && go run ./boards

bench-http: ## Measure the way of a request against a bare net/http handler; BENCH_FLAGS=-short takes seconds
	cd bench && go run ./http $(BENCH_FLAGS)

bench-audit: ## Measure the audit of a million keys, and what others feel of it
	cd bench && go run ./audit $(BENCH_FLAGS)

bench-cost: ## Count and measure what each operation costs MariaDB, Redis and the node; BENCH_FLAGS=-short takes seconds
	cd bench && go run ./cost $(BENCH_FLAGS)

bench-cache: ## Measure package cache against what it is made of and against others, on a real Redis
	cd bench && go run ./cache

bench-files: ## Measure transfers of files against a copy between two sockets; BENCH_FLAGS=-short takes seconds
	cd bench && go run ./files $(BENCH_FLAGS)

bench-live: ## Measure live streams: fifty viewers of one, and who comes late; BENCH_FLAGS=-short takes seconds
	cd bench && go run ./live $(BENCH_FLAGS)

bench-people: ## Measure friends, users, sessions and log-ins; BENCH_FLAGS=-short takes seconds
	cd bench && go run ./people $(BENCH_FLAGS)

bench-presence: ## Count what presence costs Redis: 100,000 users on ten nodes
	cd bench && go run ./presence $(BENCH_FLAGS)

bench-realtime: ## Measure sockets: memory, messages, and clients that come back; BENCH_FLAGS=-short takes seconds
	cd bench && go run ./realtime $(BENCH_FLAGS)

bench-rooms: ## Measure rooms: players in step, changes and danmaku to a thousand, warm rooms; BENCH_FLAGS=-short takes seconds
	cd bench && go run ./rooms $(BENCH_FLAGS)

bench-size: ## Compare the size of a program with package cache with one by hand
	cd bench && go run ./size

bench-start: ## Measure a start, and the memory it takes
	cd bench && go run ./start

soak: deps ## Inflict every failure of the tests six times, and play all histories; takes half an hour
	go test ./internal/checkin -run 'FollowsAPlainListOfDays|FollowAPlainListOfDays'
	go test -v ./e2e -run 'Killed|Lost|Promote|Loses' -soak 6 -timeout 60m

hazards: ## Hold the cache, and others, against all hazards at full size; takes half an hour
	STOA_HAZARDS=full go -C lib test -v ./cache/cachetest
	STOA_HAZARDS=full go -C lib/keyspace/tools test -v -run UnderLoad ./move
	cd bench/hazards && go test -v -timeout 60m .

hazards-checkin: ## Play what can make a streak lie, on Stoa and on the design that it began with
	go test -tags hazards -v ./internal/checkin/hazards

deps: ## Install what the tests need (Debian, Ubuntu)
	@scripts/deps.sh
