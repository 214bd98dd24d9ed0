# sluice: builds only under build/. `make help` lists the targets.
CC      ?= gcc
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

.PHONY: all clean unit help
all: $(BUILD)/sluice

$(BUILD)/sluice: $(BUILD)/obj/engine/cli/main.o $(BUILD)/libsluice.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/libsluice.a: $(LIB_OBJ)
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/gen/embed.c: engine/base/embed.awk $(EMBED)
	@mkdir -p $(@D)
	LC_ALL=C awk -f engine/base/embed.awk $(EMBED) > $@.tmp && mv $@.tmp $@

$(BUILD)/obj/gen/embed.o: $(BUILD)/gen/embed.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -MMD -c -o $@ $<

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -MMD -c -o $@ $<

$(BUILD)/unit/%: tests/unit/%.c tests/tap.h $(BUILD)/libsluice.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -I. -o $@ $< $(BUILD)/libsluice.a $(LDFLAGS) $(LDLIBS)

unit: $(UNIT_BIN)     ## unit tests (TAP)
	prove --nocolor -e '' $(UNIT_BIN)

clean:                ## remove build/
	rm -rf $(BUILD)

help:                 ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 16

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
