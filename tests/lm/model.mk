# What the tests of lib/lm/model add to the build: see the head of Makefile.am.
