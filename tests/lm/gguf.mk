# What the tests of lib/lm/gguf add to the build: see the head of Makefile.am.
