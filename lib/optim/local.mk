# Build rules of this folder, in the form that Makefile.am describes.
libtenon_la_SOURCES += \
	lib/optim/adadelta.c \
	lib/optim/adafactor.c \
	lib/optim/adagrad.c \
	lib/optim/adam.c \
	lib/optim/adamax.c \
	lib/optim/asgd.c \
	lib/optim/clip.c lib/optim/compile_step.c \
	lib/optim/schedule_compose.c \
	lib/optim/cycle.c \
	lib/optim/layerwise.c \
	lib/optim/lbfgs.c lib/optim/lbfgs.h \
	lib/optim/lion.c \
	lib/optim/muon.c \
	lib/optim/nadam.c \
	lib/optim/optim.c lib/optim/optim.h \
	lib/optim/plateau.c \
	lib/optim/radam.c lib/optim/restrict.c \
	lib/optim/rmsprop.c \
	lib/optim/rprop.c \
	lib/optim/load_state.c lib/optim/save_state.c \
	lib/optim/scaler.h lib/optim/scaler_round.c \
	lib/optim/state_list.c lib/optim/state_list.h \
	lib/optim/step.c \
	lib/optim/scaler.c \
	lib/optim/schedule.c lib/optim/schedule.h \
	lib/optim/sgd.c
tenoninclude_HEADERS += include/tenon/optim.h include/tenon/schedule.h \
	include/tenon/grad_scaler.h
EXTRA_DIST += lib/optim/README.md

check_PROGRAMS += tests/optim/test_optim
tests_optim_test_optim_SOURCES = tests/optim/test_optim.c
check_PROGRAMS += tests/optim/test_clip
tests_optim_test_clip_SOURCES = tests/optim/test_clip.c
check_PROGRAMS += tests/optim/test_rules
tests_optim_test_rules_SOURCES = tests/optim/test_rules.c
check_PROGRAMS += tests/optim/test_save
tests_optim_test_save_SOURCES = tests/optim/test_save.c
check_PROGRAMS += tests/optim/test_schedule
tests_optim_test_schedule_SOURCES = tests/optim/test_schedule.c
check_PROGRAMS += tests/optim/test_scaler
tests_optim_test_scaler_SOURCES = tests/optim/test_scaler.c
check_PROGRAMS += tests/optim/test_memory
tests_optim_test_memory_SOURCES = tests/optim/test_memory.c
