/* ptx.h: the representation of a kernel, which ptx_parse.c makes and ptx_run.c
 * runs. An instruction reads slots of the thread: registers, special registers
 * and constants are in one array. */
#ifndef TN_SIM_PTX_H
#define TN_SIM_PTX_H

#include "sim.h"

typedef union ptx_slot {
    uint64_t u64;
    int64_t s64;
    double f64;
    uint32_t u32;
    int32_t s32;
    float f32;
    uint16_t u16;
    int16_t s16;
    uint8_t pred;
} ptx_slot;

/* Instructions that are more than a function of their operands. Those of
 * ptx.def follow. */
enum {
    PTX_BRA,  /* to target */
    PTX_BAR,  /* until all threads of the group are here */
    PTX_RET,
    PTX_LD,   /* d, or a vector, from [a + imm] */
    PTX_ST,   /* d to [a + imm]; likewise */
    PTX_ATOM, /* d from [a + imm], which takes kind(b, c) */
    PTX_PACK, /* d = a | b << imm */
    PTX_UNPACK, /* d = a >> imm, the lower `bytes` of it */
    PTX_MMA,    /* m16n8k16 of halves into f32: a vector, D's; the next three,
                 * PTX_MORE, have those of A, B and C. kind: BF16 */
    PTX_MORE,
    PTX_LDMATRIX, /* x4, a vector from [a + imm]; kind: turned */
    PTX_SHUFFLE,  /* bfly: d = b of the lane whose number is the own ^ imm */
    PTX_COPY,     /* cp.async: bytes from [b] to shared [a], at PTX_WAIT; of
                   * them as many as slot c says, the rest zeros */
    PTX_COMMIT,
    PTX_WAIT,     /* until at most imm committed groups are under way */
    PTX_TABLE
};
enum { PTX_GLOBAL, PTX_SHARED, PTX_LOCAL, PTX_PARAM };
enum { PTX_ATOM_ADD, PTX_ATOM_CAS, PTX_ATOM_EXCH, PTX_ATOM_MIN };

typedef struct ptx_ins {
    uint16_t op;
    uint8_t space, bytes;    /* of LD, ST, ATOM, LDMATRIX, COPY */
    uint8_t part;            /* of LD, ST: of the bytes, each slot's */
    uint8_t is_signed, kind; /* of LD; of ATOM */
    uint8_t align;           /* bytes, but for a COPY's end */
    uint8_t unless;          /* the guard is negated */
    int32_t guard;           /* slot; -1: always */
    union {
        struct {
            int32_t d, b, c, e, a;
        };
        int32_t slot[5]; /* the same; a vector: the first four */
    };
    int32_t target;          /* of BRA */
    int32_t line;            /* of the text */
    int64_t imm;
} ptx_ins;

/* A slot whose initial value is not 0xa5a5...: a constant or a special
 * register. */
enum { PTX_TID, PTX_NTID, PTX_CTAID, PTX_NCTAID, PTX_LANE, PTX_CONSTANT };
typedef struct ptx_first {
    int32_t slot, what;
    uint64_t value;
} ptx_first;

#define PTX_MOST_PARAMETERS 64
struct ptx_kernel {
    char name[128];
    size_t parameter_count, parameter_bytes;
    size_t offset[PTX_MOST_PARAMETERS], bytes[PTX_MOST_PARAMETERS];
    size_t shared_bytes, local_bytes;
    unsigned shared_shift; /* 2 where shared memory is reached by whole words */
    unsigned most_threads; /* .maxntid */
    bool copies;           /* has a cp.async */
    ptx_ins *ins; /* owned */
    int32_t ins_count, slot_count;
    ptx_first *first; /* owned */
    int32_t first_count;
};

struct ptx_module {
    ptx_kernel *kernel; /* owned */
    size_t count;
};

/* The row of ptx.def, as an op; -1. */
int ptx_row(const char *name);

#endif
