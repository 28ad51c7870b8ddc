# Build rules of this folder, in the form that Makefile.am describes. Programs
# here link libtenon-onnx.la, as a user's program does.
noinst_PROGRAMS += tests/onnx/golden tests/onnx/nodes
tests_onnx_golden_SOURCES = tests/onnx/golden.c
tests_onnx_golden_LDADD = libtenon-onnx.la libtenon.la $(TN_LIBS)
tests_onnx_nodes_SOURCES = tests/onnx/nodes.c
tests_onnx_nodes_LDADD = libtenon-onnx.la libtenon.la $(TN_LIBS)
check_PROGRAMS += tests/onnx/test_onnx tests/onnx/test_nodes \
	tests/onnx/test_hostile
tests_onnx_test_onnx_SOURCES = tests/onnx/test_onnx.c tests/onnx/writer.h \
	tests/onnx/scratch.h
tests_onnx_test_nodes_SOURCES = tests/onnx/test_nodes.c tests/onnx/writer.h \
	tests/onnx/scratch.h
tests_onnx_test_nodes_LDADD = libtenon-onnx.la libtenon.la $(TN_LIBS)
tests_onnx_test_onnx_LDADD = libtenon-onnx.la libtenon.la $(TN_LIBS)
tests_onnx_test_hostile_SOURCES = tests/onnx/test_hostile.c \
	tests/onnx/writer.h tests/onnx/scratch.h
tests_onnx_test_hostile_LDADD = libtenon-onnx.la libtenon.la $(TN_LIBS)
EXTRA_DIST += tests/onnx/data
