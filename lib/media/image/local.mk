# What this room adds to the build: see the head of Makefile.am.
libtenon_media_la_SOURCES +=
tenoninclude_HEADERS +=
EXTRA_DIST += lib/media/image/README.md
