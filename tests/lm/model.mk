# What the tests of lib/lm/model add to the build: see the head of Makefile.am.
noinst_PROGRAMS += tests/lm/golden
tests_lm_golden_SOURCES = tests/lm/golden.c tests/lm/golden.h
tests_lm_golden_LDADD = libtenon-lm.la libtenon.la
