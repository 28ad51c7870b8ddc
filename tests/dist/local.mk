# What this room adds to the build: see the head of Makefile.am. Programs here link
# libtenon-parallel.la, as a user's program does.
check_PROGRAMS += tests/dist/test_collectives
tests_dist_test_collectives_SOURCES = tests/dist/test_collectives.c \
	tests/dist/ranks.h
tests_dist_test_collectives_LDADD = libtenon-parallel.la libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/dist/test_faults
tests_dist_test_faults_SOURCES = tests/dist/test_faults.c tests/dist/ranks.h
tests_dist_test_faults_LDADD = libtenon-parallel.la libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/dist/test_ddp
tests_dist_test_ddp_SOURCES = tests/dist/test_ddp.c tests/dist/ranks.h
tests_dist_test_ddp_LDADD = libtenon-parallel.la libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/dist/test_engine
tests_dist_test_engine_SOURCES = tests/dist/test_engine.c tests/dist/ranks.h
tests_dist_test_engine_LDADD = $(TN_LIBS)
check_PROGRAMS += tests/dist/test_calls
tests_dist_test_calls_SOURCES = tests/dist/test_calls.c
tests_dist_test_calls_LDADD = libtenon-parallel.la libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/dist/test_sharded
tests_dist_test_sharded_SOURCES = tests/dist/test_sharded.c \
	tests/dist/sharded_run.h tests/dist/ranks.h
tests_dist_test_sharded_LDADD = libtenon-parallel.la libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/dist/test_sharded_faults
tests_dist_test_sharded_faults_SOURCES = tests/dist/test_sharded_faults.c \
	tests/dist/ranks.h
tests_dist_test_sharded_faults_LDADD = libtenon-parallel.la libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/dist/test_sharded_files
tests_dist_test_sharded_files_SOURCES = tests/dist/test_sharded_files.c
tests_dist_test_sharded_files_LDADD = libtenon-parallel.la libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/dist/test_optim_sharded
tests_dist_test_optim_sharded_SOURCES = tests/dist/test_optim_sharded.c \
	tests/dist/ranks.h
tests_dist_test_optim_sharded_LDADD = libtenon-parallel.la libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/dist/test_mesh
tests_dist_test_mesh_SOURCES = tests/dist/test_mesh.c tests/dist/ranks.h
tests_dist_test_mesh_LDADD = libtenon-parallel.la libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/dist/test_data_parallel
tests_dist_test_data_parallel_SOURCES = tests/dist/test_data_parallel.c
tests_dist_test_data_parallel_LDADD = libtenon-parallel.la libtenon.la $(TN_LIBS)
dist_check_SCRIPTS += tests/dist/test_run.sh tests/dist/test_network.sh \
	tests/dist/test_checkpoint.sh tests/dist/test_mpi.sh tests/dist/namespaces.sh
# What namespaces.sh builds and starts.
EXTRA_PROGRAMS += tests/dist/wire tests/dist/link
tests_dist_wire_SOURCES = tests/dist/wire.c
tests_dist_wire_LDADD =
tests_dist_link_SOURCES = tests/dist/link.c
tests_dist_link_LDADD = libtenon-parallel.la libtenon.la $(TN_LIBS)
CLEANFILES += tests/dist/wire tests/dist/link
EXTRA_DIST += tests/dist/README.md
check_LTLIBRARIES += comm_mute.la
comm_mute_la_SOURCES = tests/dist/engine_mute.c
comm_mute_la_LDFLAGS = -rpath /nowhere $(COMM_LINK_FLAGS)
check_PROGRAMS += tests/dist/test_control
tests_dist_test_control_SOURCES = tests/dist/test_control.c tests/dist/ranks.h \
	lib/dist/predict.c lib/dist/control_wire.c lib/dist/control_tree.c
tests_dist_test_control_CFLAGS = $(AM_CFLAGS) # objects of its own
tests_dist_test_control_LDADD = libtenon-parallel.la libtenon.la $(TN_LIBS)
