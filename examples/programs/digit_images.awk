# digit_images.awk: writes the digits of data/digits.csv.gz as a folder of images
# and a table, the input of tables_and_images.
#
#     mkdir digits
#     zcat data/digits.csv.gz | LC_ALL=C awk -v folder=digits -f digit_images.awk
#
# Each image is a PGM file of 8 x 8 bytes, digits/0.pgm and so on.
# digits/labels.csv has a line for each: its number, the mean of its pixels,
# the centre of mass of its dark pixels, and the name of the digit.
BEGIN {
    FS = ","
    split("zero one two three four five six seven eight nine", name, " ")
    table = folder "/labels.csv"
    print "image,ink,centre_x,centre_y,label" >table
}
{
    file = folder "/" NR - 1 ".pgm"
    printf "P5\n8 8\n255\n" >file
    ink = x = y = 0
    for (i = 0; i < 64; i++) {
        # Maps 0 .. 16 to 10 .. 250, because some awks cannot print the
        # character 0.
        printf "%c", 10 + 15 * $(i + 1) >file
        ink += $(i + 1)
        x += $(i + 1) * (i % 8)
        y += $(i + 1) * int(i / 8)
    }
    close(file)
    printf "%d,%.4f,%.4f,%.4f,%s\n", NR - 1, ink / 1024, x / ink / 8, \
        y / ink / 8, name[$65 + 1] >table
}
