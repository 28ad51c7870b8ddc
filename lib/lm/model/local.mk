# Build rules of this folder, in the form that Makefile.am describes.
libtenon_lm_la_SOURCES += \
	lib/lm/model/attention.c \
	lib/lm/model/config.c \
	lib/lm/model/config_rope.c \
	lib/lm/model/experts.c \
	lib/lm/model/families.c \
	lib/lm/model/family_bert.c \
	lib/lm/model/family_gemma3.c \
	lib/lm/model/family_gpt.c \
	lib/lm/model/family_llama.c \
	lib/lm/model/family_phi3.c \
	lib/lm/model/gguf_config.c \
	lib/lm/model/gguf_config.h \
	lib/lm/model/json_file.c \
	lib/lm/model/json_file.h \
	lib/lm/model/layer.c \
	lib/lm/model/layers.h \
	lib/lm/model/linear.c \
	lib/lm/model/mlp.c \
	lib/lm/model/model.c \
	lib/lm/model/model.h \
	lib/lm/model/open.c \
	lib/lm/model/rotary.c \
	lib/lm/model/save.c \
	lib/lm/model/spec.h \
	lib/lm/model/weight_entry.h \
	lib/lm/model/weight_list.c \
	lib/lm/model/weights.c \
	lib/lm/model/gguf_weight.c \
	lib/lm/model/weights_gguf.c \
	lib/lm/model/weights.h
tenoninclude_HEADERS += include/tenon/lm.h
EXTRA_DIST += lib/lm/model/README.md
