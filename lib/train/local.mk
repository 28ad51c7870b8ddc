# Build rules of this folder, in the form that Makefile.am describes.
libtenon_la_SOURCES += \
	lib/train/average.c lib/train/checkpoint.c lib/train/checkpoint_load.c \
	lib/train/checkpoint_parts.h lib/train/evaluate.c \
	lib/train/metric.c lib/train/metric_auroc.c lib/train/metric_classes.c \
	lib/train/metric_kind.h lib/train/metric_kinds.c lib/train/train.c \
	lib/train/train_batch.h
tenoninclude_HEADERS += include/tenon/checkpoint.h include/tenon/average.h include/tenon/metric.h include/tenon/train.h
EXTRA_DIST += lib/train/README.md
