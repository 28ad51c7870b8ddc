# Build rules of this folder, in the form that Makefile.am describes.
noinst_PROGRAMS += \
	examples/tensors \
	examples/device_rules \
	examples/autograd \
	examples/own_operator \
	examples/own_layer \
	examples/digits \
	examples/two_devices \
	examples/digits_sequence \
	examples/char_gpt \
	examples/mnist \
	examples/generate \
	examples/embed_search \
	examples/onnx_classify \
	examples/onnx_detect \
	examples/image_folder \
	examples/spectrogram \
	examples/ddp
examples_ddp_SOURCES = examples/ddp.c
examples_ddp_LDADD = libtenon-parallel.la libtenon.la
examples_image_folder_SOURCES = examples/image_folder.c
examples_image_folder_LDADD = libtenon-media.la libtenon.la
examples_spectrogram_SOURCES = examples/spectrogram.c
examples_spectrogram_LDADD = libtenon-media.la libtenon.la
examples_onnx_classify_SOURCES = examples/onnx_classify.c
examples_onnx_classify_LDADD = libtenon-onnx.la libtenon.la
examples_onnx_detect_SOURCES = examples/onnx_detect.c
examples_onnx_detect_LDADD = libtenon-onnx.la libtenon.la
examples_generate_SOURCES = examples/generate.c
examples_generate_LDADD = libtenon-lm.la libtenon.la
examples_embed_search_SOURCES = examples/embed_search.c
examples_embed_search_LDADD = libtenon-lm.la libtenon.la
examples_tensors_SOURCES = examples/tensors.c
examples_tensors_LDADD = libtenon.la
examples_device_rules_SOURCES = examples/device_rules.c
examples_device_rules_LDADD = libtenon.la
examples_autograd_SOURCES = examples/autograd.c
examples_autograd_LDADD = libtenon.la
examples_own_operator_SOURCES = examples/own_operator.c
examples_own_operator_LDADD = libtenon.la
examples_own_layer_SOURCES = examples/own_layer.c
examples_own_layer_LDADD = libtenon.la
examples_digits_SOURCES = examples/digits.c
examples_digits_LDADD = libtenon.la
examples_two_devices_SOURCES = examples/two_devices.c
examples_two_devices_LDADD = libtenon.la
examples_digits_sequence_SOURCES = examples/digits_sequence.c
examples_digits_sequence_LDADD = libtenon.la
examples_char_gpt_SOURCES = examples/char_gpt.c
examples_char_gpt_LDADD = libtenon.la
examples_mnist_SOURCES = examples/mnist.c
examples_mnist_LDADD = libtenon.la

dist_check_SCRIPTS += tests/test_examples.sh

# The sources of the examples are installed as documentation.
exampledir = $(docdir)/examples
dist_example_DATA = examples/README.md \
	$(examples_tensors_SOURCES) \
	$(examples_device_rules_SOURCES) \
	$(examples_autograd_SOURCES) \
	$(examples_own_operator_SOURCES) \
	$(examples_own_layer_SOURCES) \
	$(examples_digits_SOURCES) \
	$(examples_two_devices_SOURCES) \
	$(examples_digits_sequence_SOURCES) \
	$(examples_char_gpt_SOURCES) \
	$(examples_mnist_SOURCES) \
	$(examples_generate_SOURCES) \
	$(examples_embed_search_SOURCES) \
	$(examples_onnx_classify_SOURCES) \
	$(examples_onnx_detect_SOURCES) \
	$(examples_image_folder_SOURCES) \
	$(examples_spectrogram_SOURCES) \
	$(examples_ddp_SOURCES)

# The template of a plugin, and the script that copies it. tests/test_install.sh
# uses both to build a plugin outside of the source tree.
templatedir = $(pkgdatadir)/plugin
dist_template_DATA = examples/plugin/README.md examples/plugin/plugin.mk
dist_template_SCRIPTS = examples/plugin/new.sh
referencedir = $(templatedir)/reference
dist_reference_DATA = $(tn_reference_la_SOURCES) \
	plugins/reference/tn_reference.conf plugins/reference/README.md
