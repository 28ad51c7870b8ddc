/* freeze.h: constants of a frozen function (.freeze): what depends only on them
 * is computed when the program is made, and the device prepares the weights of
 * products and convolutions. */
#ifndef TN_LIB_COMPILE_FREEZE_H
#define TN_LIB_COMPILE_FREEZE_H

#include <compile/capture.h>

/* The results of the calls that were made once. */
typedef struct tn__constants {
    tn_tensor **tensor; /* owned array, one reference to each */
    size_t count, room;
    int64_t calls;
    uint64_t bytes;     /* of all tensors */
} tn__constants;

/* Marks the values of a capture that are constants, makes the calls whose
 * results depend only on these, and removes their steps. A value that other
 * steps read becomes a CONSTANT. Records an error and returns false if memory
 * runs out or a call fails. */
bool tn__pass_constants(tn__capture *capture, tn__constants *constants);
void tn__constants_release(tn__constants *constants);

/* The weights that the device has prepared for commands of a program. */
typedef struct tn__prepared_weights {
    struct tn__prepared_weight {
        tn_prepared *handle;
        void (*release)(tn_plugin_device *device, tn_prepared *prepared);
    } *weight; /* owned array */
    size_t count, room;
    uint64_t bytes; /* memory of all */
} tn__prepared_weights;

/* Lets the device prepare the constant weights of the commands from `first` on.
 * Records an error and returns false if memory runs out. */
bool tn__prepare_weights(tn_device *device, tn__command *first,
                         const tn__capture *capture,
                         tn__prepared_weights *prepared);
void tn__prepared_release(tn_device *device, tn__prepared_weights *prepared);

#endif
