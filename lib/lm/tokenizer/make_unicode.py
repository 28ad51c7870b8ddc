#!/usr/bin/env python3
"""Makes unicode_data.h: the Unicode properties that tokenizers need.

    make_unicode.py UCD OLD NEW > unicode_data.h

UCD is the folder of Debian's package unicode-data 15.0 (/usr/share/unicode). OLD and
NEW are folders with the Python package unicodedata2, versions 16.0 and 17.0
(pip install -t OLD unicodedata2==16.0.0): categories, decompositions and lower case
are those of 17.0, so that they cover characters newer than Debian's files.

The age of a character is the version of Unicode that introduced it. Published
tokenizers were made with different versions; a character that is newer than a
version has there the category Cn and no mappings."""
import importlib.util, sys, glob

ucd, old, new = sys.argv[1:4]

def module(folder):
    path = glob.glob(folder + '/unicodedata2*.so')[0]
    spec = importlib.util.spec_from_file_location('unicodedata2', path)
    m = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(m)
    return m

u17 = module(new)
ALL = range(0x110000)

CATEGORY = ['Cn', 'Cc', 'Cf', 'Cs', 'Co', 'Lu', 'Ll', 'Lt', 'Lm', 'Lo', 'Mn', 'Mc', 'Me',
            'Nd', 'Nl', 'No', 'Pc', 'Pd', 'Ps', 'Pe', 'Pi', 'Pf', 'Po', 'Sm', 'Sc', 'Sk',
            'So', 'Zs', 'Zl', 'Zp']
category = [CATEGORY.index(u17.category(chr(c))) for c in ALL]
u16 = module(old)
assert u17.unidata_version == '17.0.0' and u16.unidata_version == '16.0.0'
in16 = [u16.category(chr(c)) != 'Cn' for c in ALL]

def rows(name):
    for line in open(ucd + '/' + name, encoding='utf-8'):
        line = line.split('#')[0].strip()
        if line:
            field = [f.strip() for f in line.split(';')]
            ends = [int(x, 16) for x in field[0].split('..')]
            yield ends[0], ends[-1], field[1:]

age = [16 if in16[c] else 17 for c in ALL]
for first, last, field in rows('DerivedAge.txt'):
    for c in range(first, last + 1):
        age[c] = max(8, int(field[0].split('.')[0]))
        if field[0] == '12.1':
            age[c] = 13
for c in ALL:
    if category[c] == 0:
        age[c] = 8

def put(kind, name, values, comment):
    print(f'\n/* {comment} */\nstatic const {kind} {name}[] = {{')
    line = '   '
    for v in values:
        if len(line) + len(v) + 2 > 79:
            print(line)
            line = '   '
        line += f' {v},'
    print(line + '\n};')

def ranges(value):
    out = []
    for c in ALL:
        v = value(c)
        if not out or out[-1][1] != v:
            out.append((c, v))
    return out

print('''/* unicode_data.h: made by make_unicode.py; do not edit.
 * Data: Unicode 17.0 (unicodedata2 17.0.0, 16.0.0 for ages) and 15.0 (Debian's
 * unicode-data 15.0.0-1: scripts, grapheme breaks, case folding).
 * Copyright 1991-2025 Unicode, Inc., Unicode License V3
 * (https://www.unicode.org/license.txt). */''')
print('\nstatic const char category_name[][3] = {')
print('    ' + ', '.join(f'"{x}"' for x in CATEGORY[:15]) + ',')
print('    ' + ', '.join(f'"{x}"' for x in CATEGORY[15:]) + '};')
put('uint32_t', 'category_range', ['0x%xu' % (c << 11 | v) for c, v in
    ranges(lambda c: category[c] << 5 | age[c])],
    'first character << 11 | category << 5 | age')

# lower case, and case folding to one character
lower, special = [], {}
for c in ALL:
    if 0xd800 <= c < 0xe000:
        continue
    u = chr(c)
    low = u.lower()
    if len(low) == 1 and low != u:
        lower.append((c, ord(low)))
# Python's own tables may be older: what unicodedata2 17 adds, as simple pairs.
known = {c for c, _ in lower}
for first, last, delta in ((0x1c89, 0x1c89, 1), (0xa7cb, 0xa7cb, 0x264 - 0xa7cb),
                           (0xa7cc, 0xa7cc, 1), (0xa7ce, 0xa7ce, 1), (0xa7d2, 0xa7d2, 1),
                           (0xa7d4, 0xa7d4, 1), (0xa7da, 0xa7da, 1),
                           (0xa7dc, 0xa7dc, 0x19b - 0xa7dc), (0x10d50, 0x10d65, 0x20),
                           (0x16ea0, 0x16eb8, 0x1b)):
    for c in range(first, last + 1):
        if c not in known:
            lower.append((c, c + delta))
lower.sort()
put('uint32_t', 'lower_pair', ['0x%x, 0x%x' % p for p in lower],
    'character, its lower case, if that is one character')
fold = [(f, int(x[1], 16)) for f, _, x in rows('CaseFolding.txt') if x[0] in 'CS']
fold += [(c, l) for c, l in lower if age[c] > 15]
put('uint32_t', 'fold_pair', ['0x%x, 0x%x' % p for p in sorted(fold)],
    'character, its simple case folding')

# decompositions: one step; the code applies them repeatedly
pool, index = [], []
compose = []
excluded = set()
for first, last, field in rows('DerivedNormalizationProps.txt'):
    if field[0] == 'Full_Composition_Exclusion':
        excluded |= set(range(first, last + 1))
for c in ALL:
    d = u17.decomposition(chr(c))
    if not d or 0xac00 <= c < 0xd7a4:
        continue
    compat = d[0] == '<'
    to = [int(x, 16) for x in d.split()[compat:]]
    if not compat and len(to) == 2 and c not in excluded:
        compose.append((to[0], to[1], c))
    index.append((c, len(pool), len(to), compat))
    pool += to
assert len(pool) < 1 << 16
put('decomposition', 'decompose', ['{0x%x, %d, %d, %d, %d}' % (c, at, n, k, age[c])
    for c, at, n, k in index], 'character, place and count in decomposed, compatibility, age')
put('uint32_t', 'decomposed', ['0x%x' % c for c in pool], 'what they become')
put('uint32_t', 'compose', ['0x%x, 0x%x, 0x%x' % t for t in sorted(compose)],
    'first, second, their composition')
put('uint32_t', 'combining_range', ['0x%xu' % (c << 8 | v) for c, v in
    ranges(lambda c: u17.combining(chr(c)))],
    'first character << 8 | canonical combining class')

# scripts
script = ['Unknown'] * 0x110000
for first, last, field in rows('Scripts.txt'):
    for c in range(first, last + 1):
        script[c] = field[0]
names = sorted(set(script))
print('\n/* Names of scripts, sorted, in lower case without underscores. */')
print('static const char *const script_name[] = {')
line = '   '
for n in names:
    piece = ' "%s",' % n.lower().replace('_', '')
    if len(line) + len(piece) > 79:
        print(line)
        line = '   '
    line += piece
print(line + '\n};')
number = {n: i for i, n in enumerate(names)}
put('uint32_t', 'script_range', ['0x%xu' % (c << 8 | v) for c, v in
    ranges(lambda c: number[script[c]])], 'first character << 8 | script')

# properties by name, and the classes of grapheme cluster boundaries
BREAK = ['Other', 'CR', 'LF', 'Control', 'Extend', 'ZWJ', 'Regional_Indicator', 'Prepend',
         'SpacingMark', 'L', 'V', 'T', 'LV', 'LVT', 'Extended_Pictographic']
brk = [0] * 0x110000
for first, last, field in rows('emoji/emoji-data.txt'):
    if field[0] == 'Extended_Pictographic':
        for c in range(first, last + 1):
            brk[c] = BREAK.index(field[0])
for first, last, field in rows('auxiliary/GraphemeBreakProperty.txt'):
    for c in range(first, last + 1):
        brk[c] = BREAK.index(field[0])
print('\nenum {')
for i, n in enumerate(BREAK):
    print(f'    BREAK_{n.upper()},')
print('};')
put('uint32_t', 'break_range', ['0x%xu' % (c << 4 | v) for c, v in ranges(lambda c: brk[c])],
    'first character << 4 | class of grapheme cluster boundaries')
alpha = set()
for first, last, field in rows('DerivedCoreProperties.txt'):
    if field[0] == 'Alphabetic':
        alpha |= set(range(first, last + 1))
# Other_Alphabetic, beside the categories L and Nl, which have ages of their own
extra = {c for c in alpha if CATEGORY[category[c]] not in ('Lu', 'Ll', 'Lt', 'Lm', 'Lo', 'Nl')}
put('uint32_t', 'alphabetic_range', ['0x%xu' % (c << 1 | v) for c, v in
    ranges(lambda c: c in extra)],
    'first character << 1 | alphabetic although neither L nor Nl')
