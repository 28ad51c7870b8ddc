# Build rules of this folder, in the form that Makefile.am describes.
fuzz_driver = tests/fuzz/driver.c tests/fuzz/fuzz.h
check_PROGRAMS += \
	tests/fuzz/test_calls \
	tests/fuzz/test_chat \
	tests/fuzz/test_checkpoint \
	tests/fuzz/test_cifar \
	tests/fuzz/test_config \
	tests/fuzz/test_control \
	tests/fuzz/test_csv \
	tests/fuzz/test_curves \
	tests/fuzz/test_devices \
	tests/fuzz/test_einsum \
	tests/fuzz/test_gguf \
	tests/fuzz/test_idx \
	tests/fuzz/test_image \
	tests/fuzz/test_json \
	tests/fuzz/test_kernel \
	tests/fuzz/test_manifest \
	tests/fuzz/test_mathfile \
	tests/fuzz/test_model \
	tests/fuzz/test_npy \
	tests/fuzz/test_npz \
	tests/fuzz/test_objects \
	tests/fuzz/test_onnx \
	tests/fuzz/test_pt \
	tests/fuzz/test_regex \
	tests/fuzz/test_safetensors \
	tests/fuzz/test_sharded \
	tests/fuzz/test_signature \
	tests/fuzz/test_spec \
	tests/fuzz/test_text \
	tests/fuzz/test_tokenizer \
	tests/fuzz/test_trace \
	tests/fuzz/test_wav
tests_fuzz_test_calls_SOURCES = tests/fuzz/calls.c $(fuzz_driver)
tests_fuzz_test_chat_SOURCES = tests/fuzz/chat.c $(fuzz_driver)
tests_fuzz_test_chat_LDADD = libtenon-lm.la libtenon.la
tests_fuzz_test_checkpoint_SOURCES = tests/fuzz/checkpoint.c $(fuzz_driver)
tests_fuzz_test_cifar_SOURCES = tests/fuzz/cifar.c $(fuzz_driver)
tests_fuzz_test_cifar_LDADD = libtenon-media.la libtenon.la
tests_fuzz_test_config_SOURCES = tests/fuzz/config.c $(fuzz_driver)
tests_fuzz_test_config_LDADD = libtenon-lm.la libtenon.la
tests_fuzz_test_control_SOURCES = tests/fuzz/control.c \
	lib/dist/control_wire.c lib/dist/control_wire.h $(fuzz_driver)
tests_fuzz_test_control_CFLAGS = $(AM_CFLAGS) # objects of its own
tests_fuzz_test_csv_SOURCES = tests/fuzz/csv.c $(fuzz_driver)
tests_fuzz_test_curves_SOURCES = tests/fuzz/curves.c $(fuzz_driver)
tests_fuzz_test_curves_LDADD = libtenon-media.la libtenon.la
tests_fuzz_test_devices_SOURCES = tests/fuzz/devices.c $(fuzz_driver)
tests_fuzz_test_einsum_SOURCES = tests/fuzz/einsum.c $(fuzz_driver)
tests_fuzz_test_gguf_SOURCES = tests/fuzz/gguf.c lib/lm/gguf/gguf_parse.c \
	lib/lm/gguf/gguf_parse.h $(fuzz_driver)
tests_fuzz_test_idx_SOURCES = tests/fuzz/idx.c $(fuzz_driver)
tests_fuzz_test_image_SOURCES = tests/fuzz/image.c $(fuzz_driver)
tests_fuzz_test_image_LDADD = libtenon-media.la libtenon.la -lz
tests_fuzz_test_json_SOURCES = tests/fuzz/json.c $(fuzz_driver)
tests_fuzz_test_kernel_SOURCES = tests/fuzz/kernel.c $(fuzz_driver)
tests_fuzz_test_manifest_SOURCES = tests/fuzz/manifest.c $(fuzz_driver)
tests_fuzz_test_mathfile_SOURCES = tests/fuzz/mathfile.c $(fuzz_driver)
tests_fuzz_test_model_SOURCES = tests/fuzz/model.c $(fuzz_driver)
tests_fuzz_test_model_LDADD = libtenon-lm.la libtenon.la
tests_fuzz_test_npy_SOURCES = tests/fuzz/npy.c $(fuzz_driver)
tests_fuzz_test_npy_LDADD = libtenon-media.la libtenon.la
tests_fuzz_test_npz_SOURCES = tests/fuzz/npz.c $(fuzz_driver)
tests_fuzz_test_npz_LDADD = libtenon-media.la libtenon.la
tests_fuzz_test_objects_SOURCES = tests/fuzz/objects.c $(fuzz_driver)
tests_fuzz_test_onnx_SOURCES = tests/fuzz/onnx.c $(fuzz_driver)
tests_fuzz_test_onnx_LDADD = libtenon-onnx.la libtenon.la
tests_fuzz_test_pt_SOURCES = tests/fuzz/pt.c $(fuzz_driver)
tests_fuzz_test_pt_LDADD = libtenon-media.la libtenon.la
tests_fuzz_test_regex_SOURCES = tests/fuzz/regex.c $(fuzz_driver) \
	lib/lm/tokenizer/memory.c lib/lm/tokenizer/set.c \
	lib/lm/tokenizer/unicode.c lib/lm/tokenizer/regex_class.c \
	lib/lm/tokenizer/regex_compile.c \
	lib/lm/tokenizer/regex_match.c lib/lm/tokenizer/regex_parse.c \
	lib/lm/tokenizer/regex_property.c
tests_fuzz_test_regex_CFLAGS = $(AM_CFLAGS) # objects of its own
tests_fuzz_test_safetensors_SOURCES = tests/fuzz/safetensors.c $(fuzz_driver)
tests_fuzz_test_sharded_SOURCES = tests/fuzz/sharded.c \
	lib/parallel/manifest.c lib/parallel/manifest.h \
	lib/parallel/region.c lib/parallel/region.h $(fuzz_driver)
tests_fuzz_test_sharded_CFLAGS = $(AM_CFLAGS) # objects of its own
tests_fuzz_test_signature_SOURCES = tests/fuzz/signature.c $(fuzz_driver)
tests_fuzz_test_spec_SOURCES = tests/fuzz/spec.c $(fuzz_driver)
tests_fuzz_test_text_SOURCES = tests/fuzz/text.c $(fuzz_driver)
tests_fuzz_test_tokenizer_SOURCES = tests/fuzz/tokenizer.c $(fuzz_driver)
tests_fuzz_test_tokenizer_LDADD = libtenon-lm.la libtenon.la
tests_fuzz_test_trace_SOURCES = tests/fuzz/trace.c tools/tenon_trace.c \
	tools/tenon_trace.h $(fuzz_driver)
tests_fuzz_test_wav_SOURCES = tests/fuzz/wav.c $(fuzz_driver)
tests_fuzz_test_wav_LDADD = libtenon-media.la libtenon.la
EXTRA_DIST += tests/fuzz/README.md tests/fuzz/corpus
CLEANFILES += fuzz-*.bin
