/* operand.h: random strided tensors as operands of a primitive or an extension.
 * The functions lay them out in memory, fill them, copy them to the plugin and
 * back, and compare them with the expected values. */
#ifndef TN_CHECK_OPERAND_H
#define TN_CHECK_OPERAND_H

#include "by_hand.h"
#include "kernel/kernel.h"
#include "random_source.h"

enum {
    OPERAND_POINTS = 4096, /* maximum number of elements */
    OPERAND_BEFORE = 3,    /* elements before the operand, which no call may
                              write */
    OPERAND_BEHIND = 64,   /* elements after the operand, which no call may
                              write */
    /* Size of an operand's memory in bytes. Elements may have gaps of one
     * element between them and take at most 8 bytes. */
    OPERAND_ROOM =
        (2 * OPERAND_POINTS + OPERAND_BEFORE + OPERAND_BEHIND + 1) * 8
};

/* The state of the one case that the process is running. */
typedef struct operand_case {
    random_source source;
    const by_hand *device;
    uint64_t fpu;      /* the caller's floating-point state before the call */
    char trouble[256]; /* message of the first failed call; "" if none failed */
    char what[160];    /* description of the tested call, for messages */
    char wrong[160];   /* description of the first wrong element or byte */
} operand_case;
extern operand_case now;
void operand_case_begin(const by_hand *device, uint64_t seed);

/* An operand. `memory` is a copy of its buffer on the device. */
typedef struct operand {
    const char *name; /* name of the field in the call's argument struct, or
                         NULL */
    tn_strided view;
    int64_t extent[TN_MAX_NDIM];
    int64_t count; /* number of elements */
    size_t bytes;  /* size of the buffer */
    unsigned char memory[OPERAND_ROOM];
    tn_number value[OPERAND_POINTS]; /* the elements in row-major order; for a
                                        result, the expected values */
    double tolerance[OPERAND_POINTS]; /* allowed error; 0 means that the bits
                                         must be equal, except that any NaN
                                         equals any other */
} operand;

/* Lay out and fill an operand. operand_init chooses any order of dimensions and
 * may use negative strides, or strides that repeat elements if the call does
 * not write the operand. operand_init_dense makes it contiguous. */
void operand_init(operand *o, tn_dtype dtype, uint32_t ndim,
                  const int64_t *extent, bool writes);
void operand_init_dense(operand *o, tn_dtype dtype, uint32_t ndim,
                        const int64_t *extent);
/* Fills an operand with random numbers. If `tame` is true, the numbers are
 * small and finite; otherwise they may be infinite, NaN or subnormal. */
void operand_fill(operand *o, bool tame);
/* Sets value[] to the elements in memory[]. */
void operand_read(operand *o);

bool operand_is_float(const operand *o);
/* Returns the offset of element i (in row-major order) in memory[], in
 * elements. */
int64_t operand_offset(const operand *o, int64_t i);
tn_number operand_load(const operand *o, int64_t at);
void operand_store(operand *o, int64_t at, tn_number x);
/* Rounds x to dtype, as storing and loading it would. */
tn_number operand_rounded(tn_dtype dtype, tn_number x);

/* Copies the operand to a buffer on the device. */
void operand_send(operand *o);
/* Copies the operand back from the device. Returns how many elements differ
 * from value[], plus one if any byte between, before or after the elements
 * changed. */
int64_t operand_receive(operand *o);

/* Describes the tested call for messages: its name, the name and value of an
 * argument, and the shape and dtype of an operand. */
void operand_words(const char *call, const char *argument, int64_t value,
                   const operand *of);

/* Returns whether a call of the plugin succeeded. Stores the first failure in
 * `now`. */
bool operand_succeeded(tn_status status, const char *what);
/* Set and restore the floating-point state in which the plugin is called. The
 * reference loops always run in the default state. */
void operand_enter(void);
void operand_leave(void);

/* Returns a random dtype that the device supports in memory. */
tn_dtype operand_any_dtype(void);

/* Compute instruction op of two elements, or one step of a reduction, in the
 * register type that elements of dtype are loaded to. */
tn_number operand_eval(uint8_t op, tn_dtype dtype, tn_number x, tn_number y);
tn_number operand_fold(unsigned kind, tn_dtype dtype, tn_number x, tn_number y);

#endif
