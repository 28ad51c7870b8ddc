# What this room adds to the build: see the head of Makefile.am.
libtenon_parallel_la_SOURCES += lib/parallel/parallel.h lib/parallel/bucket.c \
	lib/parallel/packs.c lib/parallel/buffers.c lib/parallel/ddp.c \
	lib/parallel/optim_sharded.c lib/parallel/optim_pieces.c lib/parallel/data_parallel.c \
	lib/parallel/xxh64.h lib/parallel/region.h lib/parallel/region.c \
	lib/parallel/manifest.h lib/parallel/manifest.c \
	lib/parallel/agree.h lib/parallel/agree.c \
	lib/parallel/checkpoint.h lib/parallel/checkpoint_folder.c \
	lib/parallel/checkpoint_open.c lib/parallel/checkpoint_read.c \
	lib/parallel/checkpoint_file.c lib/parallel/checkpoint_save.c \
	lib/parallel/checkpoint_load.c \
	lib/json/json.h lib/json/json_read.c lib/json/json_write.c
tenoninclude_HEADERS += include/tenon/parallel.h include/tenon/sharded.h
EXTRA_DIST += lib/parallel/README.md
