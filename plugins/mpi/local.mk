# What this room adds to the build: see the head of Makefile.am. One plugin for
# each implementation of MPI, from the same sources.
mpi_sources = plugins/local/sum.c plugins/local/sum.h plugins/mpi/engine.h \
	plugins/mpi/board.c plugins/mpi/talk.c plugins/mpi/flight.c \
	plugins/mpi/collective.c plugins/mpi/pair.c plugins/mpi/join.c \
	plugins/mpi/table.c
if HAVE_OPENMPI
tenonplugin_LTLIBRARIES += comm_openmpi.la
comm_openmpi_la_SOURCES = $(mpi_sources)
comm_openmpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(OPENMPI_CPPFLAGS)
comm_openmpi_la_LDFLAGS = $(COMM_LINK_FLAGS)
comm_openmpi_la_LIBADD = $(OPENMPI_LIBS) $(TN_LIBS)
endif
if HAVE_MPICH
tenonplugin_LTLIBRARIES += comm_mpich.la
comm_mpich_la_SOURCES = $(mpi_sources)
comm_mpich_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPICH_CPPFLAGS)
comm_mpich_la_LDFLAGS = $(COMM_LINK_FLAGS)
comm_mpich_la_LIBADD = $(MPICH_LIBS) $(TN_LIBS)
endif
EXTRA_DIST += plugins/mpi/README.md
