# What this room adds to the build: see the head of Makefile.am. It and the room
# parallel are one library.
lib_LTLIBRARIES += libtenon-parallel.la
libtenon_parallel_la_SOURCES = lib/base/library_options.c \
	lib/base/plain.c lib/base/plain.h \
	lib/dist/dist.h lib/dist/job.c lib/dist/place.c lib/dist/engine.c \
	lib/dist/world.c lib/dist/group.c lib/dist/work.c lib/dist/collective.c \
	lib/dist/memory.c lib/dist/report.c lib/dist/mesh.c lib/dist/nn.c \
	lib/dist/board.c lib/dist/gate.c lib/dist/predict.c lib/dist/version.c \
	lib/dist/control.h lib/dist/control_wire.h lib/dist/control.c lib/dist/control_judge.c \
	lib/dist/control_link.c lib/dist/control_pass.c lib/dist/control_root.c lib/dist/control_tree.c lib/dist/control_wire.c
libtenon_parallel_la_LDFLAGS = $(libtenon_la_LDFLAGS)
libtenon_parallel_la_LIBADD = libtenon.la $(TN_LIBS)
EXTRA_libtenon_parallel_la_DEPENDENCIES = lib/tenon.map
pkgconfig_DATA += tenon-parallel.pc
tenoninclude_HEADERS += include/tenon/dist.h
EXTRA_DIST += lib/dist/README.md
