/* spectrogram.c: draws the mel spectrogram of a WAV file as a picture.
 *
 *     spectrogram SOUND.wav PICTURE.pgm
 *     spectrogram tone                     writes tone.wav, two seconds of sound
 *
 * A column is a hundredth of a second, a row one of 128 mel filters, high
 * frequencies at the top. 80 dB below the loudest is black. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/sound.h>
#include <tenon/tenon.h>

enum { RATE = 16000, MELS = 128 };

/* Returns the levels of the file as uint8, (MELS, frames). */
static tn_tensor *draw(const char *path)
{
    int64_t rate;
    tn_tensor *x = tn_wav_load(path, &rate);
    if (!x)
        return NULL;
    x = tn_mean(tn_resample(x, rate, RATE), .dim = 0); /* channels together */
    tn_tensor *mel = tn_mel_spectrogram(x, RATE, .n_fft = 1024,
                                        .hop_length = RATE / 100,
                                        .n_mels = MELS);
    tn_tensor *db = tn_amplitude_to_db(mel, .top_db = 80);
    tn_tensor *level = tn_add_scalar(tn_sub(db, tn_amax(db)), 80);
    level = tn_flip(tn_mul_scalar(level, 255.0 / 80), tn_dims(0));
    return tn_to_dtype(level, TN_U8);
}

/* Writes a picture in the format PGM: a line of text, then the bytes. */
static tn_status write_picture(void *context, tn_file *file)
{
    char head[64];
    tn_tensor *picture = context;
    const size_t bytes = (size_t)tn_tensor_numel(picture);
    unsigned char *pixels = malloc(bytes);
    snprintf(head, sizeof head, "P5 %lld %d 255\n",
             (long long)tn_tensor_size(picture, 1), MELS);
    tn_status status = tn_tensor_to_array(picture, pixels, bytes);
    if (status == TN_OK)
        status = tn_file_write(file, head, strlen(head));
    if (status == TN_OK)
        status = tn_file_write(file, pixels, bytes);
    free(pixels);
    return status;
}

/* Writes a tone that rises from 200 to 4000 Hz. */
static tn_status write_tone(void)
{
    tn_tensor *t = tn_div_scalar(tn_arange(0, 2 * RATE, 1, .dtype = TN_F32),
                                 RATE);
    tn_tensor *cycles = tn_add(tn_mul_scalar(t, 200),
                               tn_mul_scalar(tn_mul(t, t), 950));
    tn_tensor *x = tn_sin(tn_mul_scalar(cycles, 6.283185307179586));
    return tn_wav_save("tone.wav", tn_mul_scalar(x, 0.5), RATE,
                       .format = "pcm16");
}

int main(int argc, char **argv)
{
    tn_tensor *picture = NULL;
    tn_status status;
    if (argc == 2 && strcmp(argv[1], "tone") == 0)
        status = write_tone();
    else if (argc != 3)
        return fprintf(stderr, "usage: spectrogram SOUND.wav PICTURE.pgm\n"), 2;
    else if (!(picture = draw(argv[1])))
        status = tn_error_code();
    else
        status = tn_file_replace(argv[2], "spectrogram", write_picture, picture);
    if (status < 0)
        return fprintf(stderr, "%s\n", tn_error()), 1;
    return 0;
}
