# What this room adds to the build: see the head of Makefile.am. Programs in the
# folders below link libtenon-media.la, as a user's program does.
# Headers of libtenon-media, which tests/nulls and tests/overflow leave out:
# programs of these folders call their functions with NULL and with numbers at the
# ends of their types.
media_header_patterns = */npy.h | */torch_file.h | */dlpack.h | \
	*/safetensors_shards.h | */image.h | */transform.h | */vision.h | \
	*/sound.h | */events.h | */curves.h
media_test_libs = libtenon-media.la libtenon.la $(TN_LIBS)
