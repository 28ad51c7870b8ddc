/* regex_property.c: names of properties and POSIX classes. */
#include <lm/tokenizer/regex_parse.h>

#include <string.h>

typedef enum class_id {
    CLASS_ANY,
    CLASS_ASCII,
    CLASS_SPACE,
    CLASS_BLANK,
    CLASS_WORD,
    CLASS_ALPHA,
    CLASS_ALNUM,
    CLASS_HEX,
    CLASS_PUNCT,
    CLASS_UPPER,
    CLASS_LOWER
} class_id;

/* The names of Unicode properties, in lower case and without blanks, "_" and
 * "-". */
static const struct {
    const char *name;
    class_id id;
} class_table[] = {
    {"any", CLASS_ANY},          {"ascii", CLASS_ASCII},
    {"space", CLASS_SPACE},      {"whitespace", CLASS_SPACE},
    {"blank", CLASS_BLANK},      {"word", CLASS_WORD},
    {"alpha", CLASS_ALPHA},      {"alphabetic", CLASS_ALPHA},
    {"alnum", CLASS_ALNUM},      {"xdigit", CLASS_HEX},
    {"asciihexdigit", CLASS_HEX}, {"punct", CLASS_PUNCT},
    {"upper", CLASS_UPPER},      {"uppercase", CLASS_UPPER},
    {"lower", CLASS_LOWER},      {"lowercase", CLASS_LOWER},
};

/* The ranges of Other_Uppercase and Other_Lowercase in Unicode 16. */
static const tn__range other_upper[] = {{0x2160, 0x216f},
                                        {0x24b6, 0x24cf},
                                        {0x1f130, 0x1f149},
                                        {0x1f150, 0x1f169},
                                        {0x1f170, 0x1f189}};
static const tn__range other_lower[] = {
    {0xaa, 0xaa},       {0xba, 0xba},       {0x295, 0x295},
    {0x2b0, 0x2b8},     {0x2c0, 0x2c1},     {0x2e0, 0x2e4},
    {0x345, 0x345},     {0x37a, 0x37a},     {0x10fc, 0x10fc},
    {0x1d2c, 0x1d6a},   {0x1d78, 0x1d78},   {0x1d9b, 0x1dbf},
    {0x2071, 0x2071},   {0x207f, 0x207f},   {0x2090, 0x209c},
    {0x2170, 0x217f},   {0x24d0, 0x24e9},   {0x2c7c, 0x2c7d},
    {0xa69c, 0xa69d},   {0xa770, 0xa770},   {0xa7f2, 0xa7f4},
    {0xa7f8, 0xa7f9},   {0xab5c, 0xab5f},   {0xab69, 0xab69},
    {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107b0},
    {0x107b2, 0x107ba}, {0x1e030, 0x1e06d}};

static const struct {
    const char *name, *category;
} category_table[] = {
    {"letter", "L"},
    {"mark", "M"},
    {"number", "N"},
    {"punctuation", "P"},
    {"symbol", "S"},
    {"separator", "Z"},
    {"other", "C"},
    {"digit", "Nd"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"control", "Cc"},
    {"cntrl", "Cc"},
    {"format", "Cf"},
    {"surrogate", "Cs"},
    {"privateuse", "Co"},
    {"unassigned", "Cn"},
};

static void add_range(void *context, int32_t first, int32_t last)
{
    tn__ranges_add(context, first, last);
}

static void add_categories(tn__ranges *to, const char *name)
{
    tn__ranges_add_categories(to,
                              tn__unicode_category_mask(name, strlen(name)),
                              TN__UNICODE_REGEX);
}

static void add_class(tn__ranges *to, class_id id)
{
    switch (id) {
    case CLASS_ANY:
        tn__ranges_add(to, 0, TN__UNICODE_END - 1);
        return;
    case CLASS_ASCII:
        tn__ranges_add(to, 0, 0x7f);
        return;
    case CLASS_SPACE:
        tn__ranges_add_space(to);
        return;
    case CLASS_BLANK:
        add_categories(to, "Zs");
        tn__ranges_add(to, '\t', '\t');
        return;
    case CLASS_WORD: /* Oniguruma's \w also has the numbers of Latin-1 (such as
                        U+00B2) */
        tn__ranges_add_word(to);
        tn__ranges_add(to, 0xb2, 0xb3);
        tn__ranges_add(to, 0xb9, 0xb9);
        tn__ranges_add(to, 0xbc, 0xbe);
        return;
    case CLASS_ALNUM:
        add_categories(to, "Nd");
        /* fall through */
    case CLASS_ALPHA:
        add_categories(to, "L");
        add_categories(to, "Nl");
        tn__unicode_other_alphabetic(add_range, to);
        return;
    case CLASS_HEX:
        tn__ranges_add(to, '0', '9');
        tn__ranges_add(to, 'A', 'F');
        tn__ranges_add(to, 'a', 'f');
        return;
    case CLASS_PUNCT: /* Oniguruma: and symbols */
        add_categories(to, "P");
        add_categories(to, "S");
        return;
    case CLASS_UPPER:
        add_categories(to, "Lu");
        for (size_t i = 0; i < sizeof other_upper / sizeof *other_upper; i++)
            tn__ranges_add(to, other_upper[i].first, other_upper[i].last);
        return;
    case CLASS_LOWER:
        add_categories(to, "Ll");
        for (size_t i = 0; i < sizeof other_lower / sizeof *other_lower; i++)
            tn__ranges_add(to, other_lower[i].first, other_lower[i].last);
    }
}

bool tn__regex_property(tn__ranges *to, const char *name, size_t bytes)
{
    char plain[40];
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        const char c = name[i];
        if (c == ' ' || c == '_' || c == '-')
            continue;
        if (n + 1 == sizeof plain || (unsigned char)c >= 0x80)
            return false;
        plain[n++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    plain[n] = '\0';
    for (size_t i = 0; i < sizeof class_table / sizeof *class_table; i++)
        if (strcmp(plain, class_table[i].name) == 0) {
            add_class(to, class_table[i].id);
            return true;
        }
    for (size_t i = 0; i < sizeof category_table / sizeof *category_table; i++)
        if (strcmp(plain, category_table[i].name) == 0) {
            add_categories(to, category_table[i].category);
            return true;
        }
    if (n == 1 || n == 2) { /* categories may be written in lower case, as in
                               \p{lu} */
        char category[3] = {(char)(plain[0] >= 'a' && plain[0] <= 'z'
                                       ? plain[0] - 32
                                       : plain[0]),
                            plain[1], '\0'};
        const uint32_t mask = tn__unicode_category_mask(category, n);
        tn__ranges_add_categories(to, mask, TN__UNICODE_REGEX);
        return mask != 0;
    }
    return tn__unicode_script(plain, n, add_range, to);
}
