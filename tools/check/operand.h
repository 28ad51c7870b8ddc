/* operand.h: strided operands of a primitive or an extension: laid out and
 * filled by chance, given to the plugin, and compared when they come back. */
#ifndef TN_CHECK_OPERAND_H
#define TN_CHECK_OPERAND_H

#include "by_hand.h"
#include "kernel/kernel.h"
#include "random_source.h"

enum {
    OPERAND_POINTS = 4096, /* most of them */
    OPERAND_BEFORE = 3,    /* elements of margin, that nobody writes */
    OPERAND_BEHIND = 64,   /* more than a line that is too long */
    /* bytes of memory: every other element, and the margins */
    OPERAND_ROOM =
        (2 * OPERAND_POINTS + OPERAND_BEFORE + OPERAND_BEHIND + 1) * 8
};

/* The case that a process is at: one at a time. */
typedef struct operand_case {
    random_source source;
    const by_hand *device;
    uint64_t fpu;      /* as the call found it */
    char trouble[256]; /* a call that failed; "": none did */
    char what[160];    /* the call, in words */
    char wrong[160];   /* the first element or byte that is not right */
} operand_case;
extern operand_case now;
void operand_case_begin(const by_hand *device, uint64_t seed);

/* An operand in host memory and in the plugin's; value[] are its elements by
 * point, in row-major order. */
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

/* Lays out and fills an operand: any order of dimensions, negative strides; one
 * that is read may repeat elements. Dense: as a new tensor lies. */
void operand_init(operand *o, tn_dtype dtype, uint32_t ndim,
                  const int64_t *extent, bool writes);
void operand_init_dense(operand *o, tn_dtype dtype, uint32_t ndim,
                        const int64_t *extent);
/* Other numbers; tame: small and finite. */
void operand_fill(operand *o, bool tame);
/* Reads value[] from memory. */
void operand_read(operand *o);

bool operand_is_float(const operand *o);
/* Where point i lies, in elements. */
int64_t operand_offset(const operand *o, int64_t i);
tn_number operand_load(const operand *o, int64_t at);
void operand_store(operand *o, int64_t at, tn_number x);
/* x as it reads back from memory of this dtype. */
tn_number operand_rounded(tn_dtype dtype, tn_number x);

/* Gives the plugin its copy. */
void operand_send(operand *o);
/* Fetches what became of it; returns how many elements of the view differ from
 * value[], and one more if anything else of its memory changed. */
int64_t operand_receive(operand *o);

/* Was the call well? The first that was not is kept in `now`. */
/* Puts the call into words: its name, one of its arguments, what it reads. */
void operand_words(const char *call, const char *argument, int64_t value,
                   const operand *of);

bool operand_went(tn_status status, const char *what);
/* Around a call: the plugin's work is done with the rounding that its caller
 * has chosen, the plain definition's never is. */
void operand_enter(void);
void operand_leave(void);

/* One of those that the device stores. */
tn_dtype operand_any_dtype(void);

/* op of two elements, or the fold of kind as REDUCE has it, in the register
 * type of dtype. */
tn_number operand_eval(uint8_t op, tn_dtype dtype, tn_number x, tn_number y);
tn_number operand_fold(unsigned kind, tn_dtype dtype, tn_number x, tn_number y);

#endif
