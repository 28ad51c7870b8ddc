/* operand.h: random strided operands of a primitive or an extension. They are
 * laid out, filled, copied to the plugin, copied back and compared. */
#ifndef TN_CHECK_OPERAND_H
#define TN_CHECK_OPERAND_H

#include "by_hand.h"
#include "kernel/kernel.h"
#include "random_source.h"

enum {
    OPERAND_POINTS = 4096, /* the most elements */
    OPERAND_BEFORE = 3,    /* elements of margin, which no call may write */
    OPERAND_BEHIND = 64,   /* margin longer than a row that is too long */
    /* bytes of memory: every other element, and the margins */
    OPERAND_ROOM =
        (2 * OPERAND_POINTS + OPERAND_BEFORE + OPERAND_BEHIND + 1) * 8
};

/* The current case of the process. */
typedef struct operand_case {
    random_source source;
    const by_hand *device;
    uint64_t fpu;      /* floating-point state before the call */
    char trouble[256]; /* the first failed call; "": none */
    char what[160];    /* the call, in words */
    char wrong[160];   /* the first wrong element or byte */
} operand_case;
extern operand_case now;
void operand_case_begin(const by_hand *device, uint64_t seed);

/* An operand in host memory and in the plugin's. value[] holds its elements in
 * row-major order. */
typedef struct operand {
    const char *name; /* in its args; NULL: "an operand" */
    tn_strided view;
    int64_t extent[TN_MAX_NDIM];
    int64_t count; /* of points */
    size_t bytes;
    unsigned char memory[OPERAND_ROOM];
    tn_number value[OPERAND_POINTS];
    double tolerance[OPERAND_POINTS]; /* 0: the same bits, all NaNs equal */
} operand;

/* Lays out and fills an operand with any order of dimensions and negative
 * strides. If it is only read, strides may repeat elements. _dense: contiguous,
 * as a new tensor. */
void operand_init(operand *o, tn_dtype dtype, uint32_t ndim,
                  const int64_t *extent, bool writes);
void operand_init_dense(operand *o, tn_dtype dtype, uint32_t ndim,
                        const int64_t *extent);
/* Fills it with new numbers; tame ones are small and finite. */
void operand_fill(operand *o, bool tame);
/* Reads value[] from memory. */
void operand_read(operand *o);

bool operand_is_float(const operand *o);
/* The offset of point i, in elements. */
int64_t operand_offset(const operand *o, int64_t i);
tn_number operand_load(const operand *o, int64_t at);
void operand_store(operand *o, int64_t at, tn_number x);
/* x as it reads back from memory of this dtype. */
tn_number operand_rounded(tn_dtype dtype, tn_number x);

/* Copies it to the plugin's buffer. */
void operand_send(operand *o);
/* Copies it back. Returns how many elements of the view differ from value[],
 * plus one if any other byte of its memory changed. */
int64_t operand_receive(operand *o);

/* Describes the call for messages: its name, an argument, what it reads. */
void operand_words(const char *call, const char *argument, int64_t value,
                   const operand *of);

/* Whether the call succeeded. `now` keeps the first that did not. */
bool operand_succeeded(tn_status status, const char *what);
/* Set and restore the caller's floating-point state around a call of the
 * plugin. The plain definitions always run with the default state. */
void operand_enter(void);
void operand_leave(void);

/* A random dtype that the device stores. */
tn_dtype operand_any_dtype(void);

/* op of two elements, or one step of the reduction kind, in the register type
 * of dtype. */
tn_number operand_eval(uint8_t op, tn_dtype dtype, tn_number x, tn_number y);
tn_number operand_fold(unsigned kind, tn_dtype dtype, tn_number x, tn_number y);

#endif
