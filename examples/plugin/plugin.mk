# tn_reference.so, built outside Tenon's tree:
#
#   make            the plugin
#   make check      runs the conformance kit on it
#   make install    installs it where Tenon looks for plugins, with its manifest,
#                   by which Tenon lists it without loading it (uses DESTDIR)
#
# It needs GNU make and pkg-config's tenon-plugin, and links nothing of Tenon.
NAME = reference
SOURCES = $(wildcard *.c)

CC = cc
CFLAGS = -O2 -g -Wall -Wextra
LIBS = -lm
PKG_CONFIG = pkg-config
INSTALL = install

ifneq ($(shell $(PKG_CONFIG) --exists tenon-plugin && echo yes),yes)
$(error pkg-config finds no tenon-plugin: PKG_CONFIG_PATH has to name the \
folder of tenon-plugin.pc)
endif
tenon = $(shell $(PKG_CONFIG) --variable=$(1) tenon-plugin)
PLUGINDIR = $(call tenon,plugindir)
CHECK = $(call tenon,bindir)/tenon-plugin-check

# -ffp-contract=off: a fused multiply-add that nobody wrote changes bits.
FLAGS := -std=c11 -D_GNU_SOURCE -fPIC -pthread -ffp-contract=off \
	-fvisibility=hidden $(shell $(PKG_CONFIG) --cflags tenon-plugin)

tn_$(NAME).so: $(SOURCES:.c=.o)
	$(CC) $(CFLAGS) -shared -pthread $(LDFLAGS) -o $@ $^ $(LIBS)

%.o: %.c
	$(CC) $(FLAGS) -MMD -MP $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

check: tn_$(NAME).so
	$(CHECK) ./tn_$(NAME).so

install: tn_$(NAME).so
	$(INSTALL) -d "$(DESTDIR)$(PLUGINDIR)"
	$(INSTALL) -m 755 tn_$(NAME).so "$(DESTDIR)$(PLUGINDIR)"
	$(INSTALL) -m 644 tn_$(NAME).conf "$(DESTDIR)$(PLUGINDIR)"

uninstall:
	rm -f "$(DESTDIR)$(PLUGINDIR)/tn_$(NAME).so" \
		"$(DESTDIR)$(PLUGINDIR)/tn_$(NAME).conf"

clean:
	rm -f tn_$(NAME).so *.o *.d

.PHONY: check install uninstall clean
-include $(SOURCES:.c=.d)
