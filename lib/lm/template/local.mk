# Build rules of this folder, in the form that Makefile.am describes.
libtenon_lm_la_SOURCES += \
	lib/lm/template/template.h \
	lib/lm/template/template_arena.c \
	lib/lm/template/template_arguments.c \
	lib/lm/template/template_characters.c \
	lib/lm/template/template_expressions.c \
	lib/lm/template/template_filters.c \
	lib/lm/template/template_format.c \
	lib/lm/template/template_functions.c \
	lib/lm/template/template_lex.c \
	lib/lm/template/template_loop.c \
	lib/lm/template/template_member.c \
	lib/lm/template/template_methods.c \
	lib/lm/template/template_methods.h \
	lib/lm/template/template_operators.c \
	lib/lm/template/template_parse.c \
	lib/lm/template/template_parse.h \
	lib/lm/template/template_parts.c \
	lib/lm/template/template_run.c \
	lib/lm/template/template_select.c \
	lib/lm/template/template_tests.c \
	lib/lm/template/template_text.c \
	lib/lm/template/template_value.c
EXTRA_DIST += lib/lm/template/README.md
