# Build rules of this folder, in the form that Makefile.am describes. The
# folders below add their files.
lib_LTLIBRARIES += libtenon-media.la
libtenon_media_la_SOURCES = lib/base/library_options.c lib/base/library_lock.c \
	lib/base/library_lock.h lib/media/result.c lib/media/result.h
libtenon_media_la_CFLAGS = $(AM_CFLAGS) # objects of its own
libtenon_media_la_CPPFLAGS = $(AM_CPPFLAGS) $(PNG_CFLAGS) $(JPEG_CFLAGS)
libtenon_media_la_LDFLAGS = $(libtenon_la_LDFLAGS)
libtenon_media_la_LIBADD = libtenon.la $(ZLIB_LIBS) $(PNG_LIBS) $(JPEG_LIBS) $(TN_LIBS)
EXTRA_libtenon_media_la_DEPENDENCIES = lib/tenon.map
pkgconfig_DATA += tenon-media.pc
EXTRA_DIST += lib/media/README.md
