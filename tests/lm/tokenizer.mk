# What the tests of lib/lm/tokenizer add to the build: see the head of Makefile.am.
