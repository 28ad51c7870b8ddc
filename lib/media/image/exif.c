/* exif.c: finds the orientation in EXIF data, which has the structure of a TIFF
 * file: byte order, offset of the first directory, entries of 12 bytes. Source:
 * Exif 2.32, section 4.6. */
#include <media/image/format.h>

#include <string.h>

enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3 };

static uint32_t number(const unsigned char *at, int bytes, bool big)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint32_t)at[i] << 8 * (big ? bytes - 1 - i : i);
    return value;
}

int tn__exif_orientation(const unsigned char *data, size_t bytes)
{
    /* Some programs write the head of a JPEG file's EXIF data to PNG files,
     * too. */
    if (bytes > 6 && memcmp(data, "Exif\0\0", 6) == 0) {
        data += 6;
        bytes -= 6;
    }
    if (bytes < 8 || (memcmp(data, "II*\0", 4) && memcmp(data, "MM\0*", 4)))
        return 1;
    const bool big = data[0] == 'M';
    const size_t directory = number(data + 4, 4, big);
    if (directory > bytes - 2)
        return 1;
    const size_t count = number(data + directory, 2, big);
    for (size_t i = 0; i < count; i++) {
        const size_t at = directory + 2 + 12 * i;
        if (at + 12 > bytes)
            return 1;
        if (number(data + at, 2, big) != TAG_ORIENTATION)
            continue;
        const uint32_t value = number(data + at + 8, 2, big);
        return number(data + at + 2, 2, big) == TYPE_SHORT && value >= 1 &&
                       value <= 8
                   ? (int)value
                   : 1;
    }
    return 1;
}
