# Build rules of the tests of lib/lm/gguf, in the form that Makefile.am describes.
check_PROGRAMS += tests/lm/test_gguf tests/lm/test_gguf_models tests/lm/gguf
tests_lm_test_gguf_SOURCES = tests/lm/test_gguf.c tests/lm/gguf_writer.h
tests_lm_test_gguf_LDADD = libtenon-lm.la libtenon.la
tests_lm_test_gguf_models_SOURCES = tests/lm/test_gguf_models.c \
	tests/lm/gguf_model.h tests/lm/gguf_writer.h tests/lm/golden.h
tests_lm_test_gguf_models_LDADD = libtenon-lm.la libtenon.la $(TN_LIBS)
tests_lm_gguf_SOURCES = tests/lm/gguf.c tests/lm/gguf_model.h tests/lm/golden.h
tests_lm_gguf_LDADD = libtenon-lm.la libtenon.la $(TN_LIBS)
EXTRA_DIST += tests/lm/data/README.md tests/lm/data/tiny-llama-f32.gguf \
	tests/lm/data/gguf_blocks.safetensors tests/lm/data/tiny-llama.safetensors \
	tests/lm/data/llama_h256-q4_K_M.gguf tests/lm/data/llama_h256.safetensors
