# What this room adds to the build: see the head of Makefile.am. Programs here link
# libtenon-lm.la, as a user's program does.
include tests/lm/tokenizer.mk
include tests/lm/gguf.mk
include tests/lm/model.mk
