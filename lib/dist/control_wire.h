/* control_wire.h: the messages of the control plane, as bytes.
 *
 * All messages have one form: a length, numbers of fixed width, and three byte
 * strings. Numbers are little-endian. */
#ifndef TN_LIB_DIST_CONTROL_WIRE_H
#define TN_LIB_DIST_CONTROL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <tenon/comm_plugin.h>

/* Up: towards rank 0. Down: to all ranks, or to the rank `to`. */
enum {
    TN__HELLO = 1,    /* child to parent, first: record is the token's first
                         half, value the process, text the host */
    TN__WELCOME = 2,  /* parent to child, first: the token's second half */
    TN__BEAT = 3,     /* up: the rank is alive; record, position */
    TN__ANNOUNCE = 4, /* up: the rank wants to begin (group, sequence, check);
                         value is the group's size, state 1 if the step did not
                         repeat; record, position as in a row */
    TN__RECALL = 5,   /* down: announce (group, sequence) in any case */
    TN__GO = 6,       /* down: all ranks agree on (group, sequence) */
    TN__DIFFER = 7,   /* down: they do not */
    TN__LOOK = 8,     /* up: the rank wants the rows of all */
    TN__QUERY = 9,    /* down: send a row about `group` */
    TN__ROW = 10,     /* up: the answer; down: to the rank that looks: state is
                         the life, value the process, silent_ns, text the host */
    TN__LOOKED = 11,  /* down: that was the last row */
    TN__ABORT = 12,   /* up: the rank ends the job: state is the code, text */
    TN__VERDICT = 13, /* down: the job is over: the same */
    TN__GONE = 14,    /* up, down: the connection to the rank was lost */
    TN__LEAVE = 15,   /* up, down: the rank closes the group after `sequence`
                         collectives */
    TN__BYE = 16,     /* up, down: the rank has closed the job */
    TN__WIRE_END = 17
};

typedef struct tn__wire {
    uint32_t type;
    uint32_t state;
    int32_t rank;          /* whom it is about */
    int32_t to;            /* the rank that gets it; -1: see above */
    uint64_t group, sequence, check, value, silent_ns;
    uint32_t record_bytes, position_bytes, text_bytes;
    unsigned char record[TN_COMM_RECORD];
    unsigned char position[TN_COMM_RECORD];
    char text[TN_COMM_TEXT]; /* ends with 0; printable */
} tn__wire;

/* The bytes of a message: at least FIXED, at most MOST. */
enum {
    TN__WIRE_FIXED = 4 + 4 * 4 + 5 * 8 + 3 * 2,
    TN__WIRE_MOST = TN__WIRE_FIXED + 2 * TN_COMM_RECORD + TN_COMM_TEXT
};

/* Writes the message. Returns its bytes. */
size_t tn__wire_write(const tn__wire *message, unsigned char out[TN__WIRE_MOST]);
/* Reads the message at the beginning of data. Returns its bytes, 0 if more are
 * needed, or -1 if this is no message, as soon as that can be seen. */
int tn__wire_read(const unsigned char *data, size_t bytes, tn__wire *out);
/* Copies a text that fits, with spaces for control characters. */
void tn__wire_set_text(tn__wire *message, const char *text);

/* A token is TN__TOKEN bytes. Compares without a hint of where they differ. */
enum { TN__TOKEN = 32 };
bool tn__token_is(const unsigned char *a, const unsigned char *b, size_t bytes);

#endif
