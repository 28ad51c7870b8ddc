/* json_file.h: reads a JSON file as a whole. */
#ifndef TN_LIB_LM_MODEL_JSON_FILE_H
#define TN_LIB_LM_MODEL_JSON_FILE_H

#include <json/json.h>
#include <tenon/error.h>

typedef struct tn__lm_json {
    tn__json json;
    const tn__json_value *root;
    char *text; /* owned */
} tn__lm_json;

enum { TN__LM_JSON_BYTES = 64 << 20 }; /* larger files are refused */

/* Reads and parses the file. On failure records an error of `call` and returns
 * false; tn__lm_json_close must be called then, too. */
bool tn__lm_json_open(tn__lm_json *file, const char *path, const char *call);
void tn__lm_json_close(tn__lm_json *file);
/* Returns the error code for a file that open() rejected with this errno. */
tn_status tn__lm_file_code(int why);
/* Reads a whole file of at most TN__LM_JSON_BYTES bytes to memory from malloc,
 * followed by a NUL, or returns NULL with an error. */
char *tn__lm_file_read(const char *path, const char *call, size_t *bytes);

#endif
