# sluice: builds only under build/. `make help` lists the targets.
ifeq ($(origin CC),default)
CC      := gcc
endif
BUILD   ?= build
PKGS    := sqlite3 libpq libcurl openssl libzstd lua5.4 jansson
CSTD    := -std=gnu11
WARN    := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla -Wformat=2 -Wundef
OPT     ?= -O2 -g
SAN     ?=
CFLAGS  := $(CSTD) $(WARN) $(OPT) $(SAN) -D_GNU_SOURCE -I. -I$(BUILD)/gen $(shell pkg-config --cflags $(PKGS) 2>/dev/null) -pthread
LDFLAGS := $(SAN) -pthread
LDLIBS  := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm

LIB_SRC := $(filter-out engine/cli/main.c,$(wildcard engine/*/*.c drivers/*.c drivers/*/*.c))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/gen/embed.o
UNIT_SRC := $(shell find tests/unit -name 't_*.c' 2>/dev/null)
UNIT_BIN := $(UNIT_SRC:tests/unit/%.c=$(BUILD)/unit/%)
EMBED   := $(shell find sql migrations lua -name '*.sql' -o -name '*.lua' -o -name 'checksums' 2>/dev/null | LC_ALL=C sort)

.PHONY: rotation all deps unit sql cli seed integration cases crash demo lint asan tsan format coverage install flow clean help test
.DEFAULT_GOAL := all
all: deps $(BUILD)/sluice    ## build/sluice (installs what is missing when run as root)

$(BUILD)/sluice: $(BUILD)/obj/engine/cli/main.o $(BUILD)/libsluice.a
	@$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/libsluice.a: $(LIB_OBJ)
	@rm -f $@
	@ar rcs $@ $^
	@twice=$$(nm -A --defined-only $@ 2>/dev/null | awk '$$(NF-1) ~ /^[TDBR]$$/ {print $$NF}' | sort | uniq -d); \
	  [ -z "$$twice" ] || { echo "defined twice, and the linker would pick one: $$twice" >&2; rm -f $@; exit 1; }

$(BUILD)/gen/embed.c: engine/base/embed.awk $(EMBED)
	@mkdir -p $(@D)
	LC_ALL=C awk -f engine/base/embed.awk $(EMBED) > $@.tmp && mv $@.tmp $@

$(BUILD)/obj/gen/embed.o: $(BUILD)/gen/embed.c
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS) -MMD -c -o $@ $<

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS) -MMD -c -o $@ $<

$(BUILD)/unit/%: tests/unit/%.c tests/tap.h $(BUILD)/libsluice.a
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS) -I. -o $@ $< $(BUILD)/libsluice.a $(LDFLAGS) $(LDLIBS)

DEBS := build-essential pkg-config libsqlite3-dev sqlite3 libpq-dev libcurl4-openssl-dev libssl-dev libzstd-dev liblua5.4-dev libjansson-dev
TEST_DEBS := postgresql-15 postgresql-client-15 perl

# Installs as root when pkg-config lacks something, else prints the exact line.
deps:                 ## what building needs
	@pkg-config --exists $(PKGS) 2>/dev/null && command -v sqlite3 >/dev/null && command -v $(CC) >/dev/null || { \
	  line='apt-get install -y --no-install-recommends $(DEBS)'; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    { $$line || { apt-get update && $$line; }; } >/dev/null 2>&1 || { echo "deps: this failed: $$line" >&2; exit 1; }; \
	    exec $(MAKE) --no-print-directory $(or $(MAKECMDGOALS),all); \
	  else echo "deps: something is missing; run as root: $$line" >&2; exit 1; fi; }

test-deps: deps       ## what the tests need beside that
	@{ [ -x /usr/lib/postgresql/15/bin/postgres ] || [ -n "$$PGBIN" ]; } && command -v prove >/dev/null || { \
	  line='apt-get install -y --no-install-recommends $(TEST_DEBS)'; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    { $$line || { apt-get update && $$line; }; } >/dev/null 2>&1 || { echo "test-deps: this failed: $$line" >&2; exit 1; }; \
	  else echo "test-deps: something is missing; run as root: $$line" >&2; exit 1; fi; }

unit: $(UNIT_BIN)     ## unit tests (TAP)
	bash tests/lib/with_servers.sh sh -c 'SLUICE_TEST_PG=$$PG_A/postgres exec prove --nocolor -e "" $(UNIT_BIN)'

sql: $(BUILD)/sluice  ## the control DB from a plain sqlite3 shell
	SLUICE=$(BUILD)/sluice prove --nocolor -e sh $(wildcard tests/sql/*.sh)

cli: $(BUILD)/sluice  ## the command line, no server needed
	SLUICE=$(abspath $(BUILD)/sluice) prove --nocolor --failures --comments -e bash $(sort $(wildcard tests/cli/*.t))

seed: $(BUILD)/sluice ## the commands of the first request, literally
	SLUICE=$(abspath $(BUILD)/sluice) bash tests/lib/with_servers.sh prove --nocolor --failures --comments -e bash $(sort $(wildcard tests/seed/*.t))

ROTATION := $(wildcard tests/integration/*_rotation.t)
integration: $(BUILD)/sluice  ## every command on real databases, comparing data
	SLUICE=$(abspath $(BUILD)/sluice) bash tests/lib/with_servers.sh prove --nocolor --failures --comments -j2 --timer -e bash $(sort $(filter-out $(ROTATION),$(wildcard tests/integration/*.t)))

# Minutes of constant writes against a producer that rotates without a pause. Some claims wait for a tip that a seam may hide, or need more segments
# than a chain may have on a fast machine, so they are not part of `make test` yet.
rotation: $(BUILD)/sluice  ## rotation under constant writes, killed at every point
	SLUICE=$(abspath $(BUILD)/sluice) bash tests/lib/with_servers.sh prove --nocolor --failures --comments --timer -e bash $(ROTATION)

cases: $(BUILD)/sluice  ## public cases by every route (CASES=DIR ONLY=REGEX ROUTES=copy,chain,broker)
	SLUICE=$(abspath $(BUILD)/sluice) PREPARED=1 bash tests/lib/with_servers.sh perl tests/cases/run $(CASES)

crash: $(BUILD)/sluice  ## kill -9 at every failure point, resume, compare every row
	SLUICE=$(abspath $(BUILD)/sluice) bash tests/lib/with_servers.sh prove --nocolor -j2 --timer --comments --failures -e bash tests/crash/sqlite.t tests/crash/postgres.t

demo: all             ## the whole job on SQLite, no server: build/demo
	SLUICE=$(BUILD)/sluice bash contrib/demo.sh

test: all test-deps   ## everything that must hold, on servers that it starts itself
	$(MAKE) --no-print-directory $(UNIT_BIN)
	$(MAKE) --no-print-directory -j1 unit sql cli seed integration

lint:                 ## layers and house rules; cppcheck where it is there
	sh tests/lint/layers.sh
	sh tests/lint/self.sh
	@if command -v cppcheck >/dev/null; then cppcheck --quiet --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 \
	  --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches -D_GNU_SOURCE -I. -j2 engine drivers; fi

asan:                 ## the unit tests under ASan and UBSan
	$(MAKE) BUILD=$(BUILD)/asan OPT='-O1 -g -fno-omit-frame-pointer' SAN='-fsanitize=address,undefined -fno-sanitize-recover=undefined' unit

tsan:                 ## the unit tests under TSan
	$(MAKE) BUILD=$(BUILD)/tsan OPT='-O1 -g' SAN='-fsanitize=thread' unit

format:               ## clang-format in place
	clang-format -i $(LIB_SRC) engine/cli/main.c $(wildcard engine/*/*.h drivers/*.h drivers/*/*.h)

coverage:             ## line coverage of the unit tests
	$(MAKE) BUILD=$(BUILD)/cov OPT='-O0 -g' SAN='--coverage' unit
	@find $(BUILD)/cov/obj -name '*.gcda' | xargs gcov -n 2>/dev/null | awk '/^File/{f=$$2} /^Lines/{split($$2,a,":"); print a[2], f}' | grep -E "'(engine|drivers)/" | sort -n

PREFIX ?= /usr/local
install: all          ## program, man page and bash completion into PREFIX (/usr/local)
	install -D -m 0755 $(BUILD)/sluice $(DESTDIR)$(PREFIX)/bin/sluice
	@$(BUILD)/sluice help --man >$(BUILD)/sluice.1
	@$(BUILD)/sluice help --completion bash >$(BUILD)/sluice.bash
	install -D -m 0644 $(BUILD)/sluice.1 $(DESTDIR)$(PREFIX)/share/man/man1/sluice.1
	install -D -m 0644 $(BUILD)/sluice.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/sluice

flow:                 ## the life of one change, hop by hop
	@grep -rnoE '/?\*? ?hop [1-8]/8[^*]*' --include='*.[ch]' engine drivers | sed -E 's/^([^:]+):([0-9]+):[^h]*(hop [1-8].*)/\3  (\1:\2)/' | sort

clean:                ## remove build/
	rm -rf $(BUILD)

help:                 ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 16

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
