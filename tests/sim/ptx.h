/* ptx.h: the representation of a PTX kernel, which ptx_parse.c makes and
 * ptx_run.c runs. Registers, special registers and constants of a thread are
 * slots: elements of one array, which instructions refer to by index. */
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

/* Opcodes of instructions with other effects than computing d from the operands
 * a, b, c. The opcodes of ptx.def follow PTX_TABLE. */
enum {
    PTX_BRA,  /* branches to target */
    PTX_BAR,  /* waits for all threads of the block */
    PTX_RET,
    PTX_LD,   /* loads d, or a vector, from [a + imm] */
    PTX_ST,   /* stores d, or a vector, at [a + imm] */
    PTX_ATOM, /* loads d from [a + imm], then applies kind(b, c) to it */
    PTX_PACK, /* d = a | b << imm */
    PTX_UNPACK, /* d = the lower `bytes` bytes of a >> imm */
    /* mma m16n8k16 of half types into float32. slot[] is the vector D; the next
     * three instructions, PTX_MORE, have the vectors A, B and C. kind: BF16 */
    PTX_MMA,
    PTX_MORE,
    PTX_LDMATRIX, /* ldmatrix.x4: loads 4 registers from [a + imm]; kind: the
                     matrices are transposed */
    PTX_SHUFFLE,  /* shfl.bfly: d = b of the thread whose index in the warp is
                     (own index ^ imm) */
    /* cp.async: copies from [b] to shared [a], completed at PTX_WAIT. Slot c is
     * the number of bytes that are copied; the rest is zeroed. */
    PTX_COPY,
    PTX_COMMIT,
    PTX_WAIT,     /* waits until at most imm committed groups are pending */
    PTX_TABLE
};
enum { PTX_GLOBAL, PTX_SHARED, PTX_LOCAL, PTX_PARAM };
enum { PTX_ATOM_ADD, PTX_ATOM_CAS, PTX_ATOM_EXCH, PTX_ATOM_MIN };

typedef struct ptx_ins {
    uint16_t op;
    uint8_t space, bytes;    /* for LD, ST, ATOM, LDMATRIX, COPY */
    uint8_t part;            /* LD, ST: bytes of each element of a vector */
    uint8_t is_signed, kind; /* is_signed: for LD; kind: for ATOM */
    uint8_t align;           /* alignment in bytes: `bytes`, but smaller for the
                                last bytes of a COPY whose size is not a
                                multiple */
    uint8_t unless;          /* the guard predicate is negated */
    int32_t guard;           /* slot of the guard predicate; -1: none */
    union {
        struct {
            int32_t d, b, c, e, a;
        };
        int32_t slot[5]; /* the same slots as an array; a vector has the first
                          * four */
    };
    int32_t target;          /* index of the instruction that BRA jumps to */
    int32_t line;            /* line in the PTX source */
    int64_t imm;
} ptx_ins;

/* A slot with an initial value (others start as 0xa5a5...): a constant or a
 * special register. */
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
    unsigned shared_shift; /* log2 of the bytes of a granule, the unit in which
                            * accesses to shared memory are tracked: 2 if all
                            * accesses are of 4-byte words, else 0 */
    unsigned most_threads; /* the value of .maxntid */
    bool copies;           /* the kernel has a cp.async */
    ptx_ins *ins; /* owned array */
    int32_t ins_count, slot_count;
    ptx_first *first; /* owned array */
    int32_t first_count;
};

struct ptx_module {
    ptx_kernel *kernel; /* owned array */
    size_t count;
};

/* Returns the opcode of the instruction of this name in ptx.def; -1 if there is
 * none. */
int ptx_row(const char *name);

#endif
