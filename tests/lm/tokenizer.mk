# Build rules of the tests of lib/lm/tokenizer, in the form that Makefile.am describes.
check_PROGRAMS += tests/lm/tokens tests/lm/test_tokenizer
tests_lm_tokens_SOURCES = tests/lm/tokens.c lib/json/json_read.c \
	lib/base/plain.c
tests_lm_tokens_CFLAGS = $(AM_CFLAGS) # objects of its own
tests_lm_tokens_LDADD = libtenon-lm.la libtenon.la $(TN_LIBS)
tests_lm_test_tokenizer_SOURCES = tests/lm/test_tokenizer.c
tests_lm_test_tokenizer_LDADD = libtenon-lm.la libtenon.la -lpthread
check_PROGRAMS += tests/lm/test_chat
tests_lm_test_chat_SOURCES = tests/lm/test_chat.c lib/json/json_read.c \
	lib/base/plain.c
tests_lm_test_chat_CFLAGS = $(AM_CFLAGS) # objects of its own
tests_lm_test_chat_LDADD = libtenon-lm.la libtenon.la $(TN_LIBS)
EXTRA_DIST += tests/lm/data/make_chats.py tests/lm/data/chat
EXTRA_DIST += tests/lm/data/make_tokens.py tests/lm/data/tokenizers.tar.xz
check_DATA += tests/lm/tokenizers/.stamp
tests/lm/tokenizers/.stamp: tests/lm/data/tokenizers.tar.xz
	$(AM_V_GEN)rm -rf $(@D) && $(MKDIR_P) $(@D)
	$(AM_V_at)xz -dc $< | (cd $(@D) && tar -xf -)
	$(AM_V_at)touch $@
