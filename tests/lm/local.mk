# Build rules of this folder, in the form that Makefile.am describes. Programs
# here link libtenon-lm.la, as a user's program does.
include tests/lm/tokenizer.mk
include tests/lm/gguf.mk
include tests/lm/model.mk
