# What this room adds to the build: see the head of Makefile.am.
check_PROGRAMS +=
