/* event_file.h: the container of event files: records with checksums
 * (TFRecord), each an Event message. */
#ifndef TN_LIB_MEDIA_RUN_EVENT_FILE_H
#define TN_LIB_MEDIA_RUN_EVENT_FILE_H

#include <media/run/message.h>
#include <tenon/events.h>

/* A record is its length (8 bytes, little endian), the checksum of these bytes,
 * the data, and the checksum of the data. */
enum { TN__RECORD_HEAD = 12, TN__RECORD_TAIL = 4 };

/* The largest data of a record that is read or written: 1 GiB. */
#define TN__RECORD_MAX ((uint64_t)1 << 30)

/* Returns the checksum of a record: its CRC-32C, rotated by 15 bits, plus a
 * constant. */
uint32_t tn__record_checksum(const void *data, size_t count);

/* Appends one event: the current time, the step, and a Summary message with one
 * value, which is freed. call is the public function that failed if this
 * fails. */
tn_status tn__events_append(tn_events *events, const char *call, int64_t step,
                            tn__message *value);

/* Checks the arguments that all functions have in common. */
tn_status tn__events_check(const tn_events *events, const char *call,
                           const char *tag, int64_t step);

/* Returns whether text is valid UTF-8, which protocol buffers demand. */
bool tn__events_utf8(const char *text);

/* The fields of the messages, by the names of TensorFlow's event.proto,
 * summary.proto and tensor.proto. */
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_FILE_VERSION = 3,
    EVENT_SUMMARY = 5,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE_VALUE = 2,
    VALUE_IMAGE = 4,
    VALUE_HISTO = 5,
    VALUE_TENSOR = 8,
    VALUE_METADATA = 9,
    METADATA_PLUGIN_DATA = 1,
    PLUGIN_DATA_NAME = 1,
    PLUGIN_DATA_CONTENT = 2,
    IMAGE_HEIGHT = 1,
    IMAGE_WIDTH = 2,
    IMAGE_COLORSPACE = 3,
    IMAGE_ENCODED = 4,
    HISTO_MIN = 1,
    HISTO_MAX = 2,
    HISTO_NUM = 3,
    HISTO_SUM = 4,
    HISTO_SUM_SQUARES = 5,
    HISTO_BUCKET_LIMIT = 6,
    HISTO_BUCKET = 7,
    TENSOR_DTYPE = 1,
    TENSOR_SHAPE = 2,
    TENSOR_CONTENT = 4,
    TENSOR_FLOAT_VAL = 5,
    TENSOR_DOUBLE_VAL = 6,
    TENSOR_STRING_VAL = 8,
    SHAPE_DIM = 2,
    DIM_SIZE = 1,
    DT_FLOAT = 1,
    DT_DOUBLE = 2,
    DT_STRING = 7
};

#endif
