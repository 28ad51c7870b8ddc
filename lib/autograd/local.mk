# Build rules of this folder, in the form that Makefile.am describes.

libtenon_la_SOURCES += \
	lib/autograd/autograd.h lib/autograd/node.h lib/autograd/walk.h \
	lib/autograd/history.h lib/autograd/hooks.h lib/autograd/rerun.h \
	lib/autograd/grad_mode.c lib/autograd/carry.c \
	lib/autograd/node.c lib/autograd/tensor_node.c \
	lib/autograd/node_record.c lib/autograd/node_values.c \
	lib/autograd/saved_value.c \
	lib/autograd/history.c \
	lib/autograd/hooks.c lib/autograd/hook_register.c \
	lib/autograd/grad_cycle.c \
	lib/autograd/recompute.c \
	lib/autograd/registered.c \
	lib/autograd/plan.c \
	lib/autograd/record.c \
	lib/autograd/set_data.c \
	lib/autograd/run.c \
	lib/autograd/walk.c \
	lib/autograd/backward.c lib/autograd/backward.h \
	lib/autograd/backward_walk.c \
	lib/autograd/anomaly.c \
	lib/autograd/gradcheck.c \
	lib/autograd/gradients/gradients_attention.c \
	lib/autograd/gradients/gradients_shape.c \
	lib/autograd/gradients/gradients_linear.c \
	lib/autograd/gradients/gradients_index.c \
	lib/autograd/gradients/gradients_strided.c \
	lib/autograd/gradients/gradients_matrix.c lib/autograd/gradients/gradients_norm.c \
	lib/autograd/gradients/gradients_linalg.c \
	lib/autograd/gradients/gradients_loss.c \
	lib/autograd/gradients/gradients_recurrent.c \
	lib/autograd/gradients/gradients_taps.c lib/autograd/gradients/gradients_grid.c \
	lib/autograd/gradients/gradients_window.c
EXTRA_DIST += lib/autograd/README.md

check_PROGRAMS += tests/autograd/test_backward \
	tests/autograd/test_cycles tests/autograd/test_regions \
	tests/autograd/test_in_place tests/autograd/test_hooks \
	tests/autograd/test_halves tests/autograd/test_recompute \
	tests/autograd/test_carry \
	tests/autograd/test_register tests/autograd/test_fit \
	tests/autograd/test_gradients tests/autograd/test_hard_points \
	tests/autograd/test_anomaly
tests_autograd_test_in_place_SOURCES = tests/autograd/test_in_place.c
tests_autograd_test_hooks_SOURCES = tests/autograd/test_hooks.c
tests_autograd_test_fit_SOURCES = tests/autograd/test_fit.c
tests_autograd_test_register_SOURCES = tests/autograd/test_register.c
check_PROGRAMS += tests/autograd/test_autocast
tests_autograd_test_autocast_SOURCES = tests/autograd/test_autocast.c
tests_autograd_test_halves_SOURCES = tests/autograd/test_halves.c
tests_autograd_test_recompute_SOURCES = tests/autograd/test_recompute.c
tests_autograd_test_carry_SOURCES = tests/autograd/test_carry.c
tests_autograd_test_regions_SOURCES = tests/autograd/test_regions.c
dist_check_SCRIPTS += tests/autograd/test_regions.sh
tests_autograd_test_cycles_SOURCES = tests/autograd/test_cycles.c
tests_autograd_test_backward_SOURCES = tests/autograd/test_backward.c
tests_autograd_test_gradients_SOURCES = tests/autograd/test_gradients.c \
	tests/autograd/words.h \
	tests/autograd/gradient_samples.def
tests_autograd_test_anomaly_SOURCES = tests/autograd/test_anomaly.c
tests_autograd_test_hard_points_SOURCES = tests/autograd/test_hard_points.c \
	tests/autograd/words.h tests/autograd/hard_differs.def \
	tests/autograd/hard_unreached.def
EXTRA_DIST += tests/autograd/hard_points.txt.xz tests/autograd/hard_points.py \
	tests/autograd/hard_cases.py
check_DATA += tests/autograd/hard_points.txt
CLEANFILES += tests/autograd/hard_points.txt
tests/autograd/hard_points.txt: tests/autograd/hard_points.txt.xz
	$(AM_V_GEN)xz -dc $< >$@.tmp && mv $@.tmp $@
