#!/usr/bin/env python3
"""make_tokens.py OUT: writes the cases in tok/ whose names begin with "kind-" or
"random-", with the Python package tokenizers 0.23.3.

Each case is a small tokenizer with one kind of step, random texts, and the results of
the package: ids, offsets of characters, and decoded texts. If the model's tokens are
bytes, the ids show the normalized text. If the model knows no word, the offsets show
how the pre-tokenizer splits the text. Texts have random Unicode characters, and
malformed bytes as bytes.decode(errors="replace") replaces them."""
import json, os, random, sys
from tokenizers import (AddedToken, Regex, Tokenizer, decoders as D, models,
                        normalizers as N, pre_tokenizers as P, processors as R)

out = sys.argv[1]
random.seed(20261127)
WORDS = ("the quick brown fox don't I'll WE'VE naïve Straße ΣΑΣ 12345 3.14 <s> </s> [MASK] "
         "İstanbul ﬁn Å é 한국어 日本語 ไทย हिन्दी 👨‍👩‍👧 \u200b\ufeff").split()

def character():
    k = random.random()
    if k < .4:
        return chr(random.randint(32, 126))
    if k < .6:
        return random.choice(" \n\t\r'.,0123456789")
    if k < .75:
        return chr(random.randint(0xa0, 0x7ff))
    if k < .8:
        return chr(random.randint(0x300, 0x36f))
    c = random.randint(0x800, 0x1ffff)
    return 'x' if 0xd800 <= c < 0xe000 else chr(c)

def text():
    k = random.random()
    if k < .3:
        return ''.join(character() for _ in range(random.randint(0, 40)))
    if k < .85:
        return ''.join(random.choice([character(), random.choice(WORDS), ' ', ' '])
                       for _ in range(random.randint(0, 30)))
    return bytes(random.choice([random.randint(0, 255), random.randint(0x20, 0x7f),
                                random.choice([0xc3, 0xe2, 0x80, 0xf0, 0x9f, 0xed, 0xa0])])
                 for _ in range(random.randint(1, 30))).decode('utf-8', 'replace')

TEXTS = [text() for _ in range(60)]
BYTES = {'<unk>': 0, **{'<0x%02X>' % i: i + 1 for i in range(256)}}

def normalized(normalizer):
    t = Tokenizer(models.BPE(vocab=BYTES, merges=[], unk_token='<unk>', byte_fallback=True))
    t.normalizer = normalizer
    return t

def split(pretokenizer):
    t = Tokenizer(models.WordLevel({'[UNK]': 0, 'a': 1}, unk_token='[UNK]'))
    t.pre_tokenizer = pretokenizer
    return t

def added(t):
    t.add_tokens([AddedToken('quick', single_word=True), AddedToken('the brown', normalized=False),
                  AddedToken('fox', lstrip=True, rstrip=True), AddedToken('  ', normalized=False)])
    t.add_special_tokens([AddedToken('<s>', rstrip=True), AddedToken('[MASK]', lstrip=True), '</s>'])
    return t

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
kinds = {
    'nfc': normalized(N.NFC()), 'nfd': normalized(N.NFD()), 'nfkc': normalized(N.NFKC()),
    'nfkd': normalized(N.NFKD()), 'lowercase': normalized(N.Lowercase()),
    'strip': normalized(N.Strip()), 'bert': normalized(N.BertNormalizer()),
    'accents': normalized(N.Sequence([N.NFD(), N.StripAccents()])),
    'replace': normalized(N.Replace(Regex(r'\s+|x*'), '-')),
    'nmt': normalized(N.Nmt()), 'bytes': normalized(N.ByteLevel()),
    'whitespace': split(P.Whitespace()), 'bert-split': split(P.BertPreTokenizer()),
    'metaspace': split(P.Metaspace(prepend_scheme='first')), 'digits': split(P.Digits()),
    'punctuation': split(P.Punctuation('merged_with_previous')),
    'scripts': split(P.UnicodeScripts()), 'byte-level': split(P.ByteLevel()),
    'length': split(P.FixedLength(3)), 'delimiter': split(P.CharDelimiterSplit('e')),
    'llama3': split(P.Split(Regex(LLAMA3), 'isolated')),
    'next': split(P.Split(Regex(r'\w+'), 'merged_with_next')),
    'contiguous': split(P.Split(Regex(r'\s'), 'contiguous', True)),
    'look': split(P.Split(Regex(r'\d{1,3}(?=(?:\d{3})*\b)|(?<=\s)\S|\b\w'), 'removed')),
    'added': added(normalized(N.Lowercase())),
}
for name, t in kinds.items():
    e = [t.encode(x, add_special_tokens=False) for x in TEXTS]
    t.save(f'{out}/kind-{name}.json', pretty=False)
    with open(f'{out}/kind-{name}.golden.json', 'w') as f:
        json.dump(dict(source=f'kind-{name}.json', texts=TEXTS, ids=[x.ids for x in e],
                       offsets=[x.offsets for x in e]), f, separators=(',', ':'))
for name in ('bpe-gpt2', 'bpe-llama2', 'bpe-llama3', 'unigram', 'wordpiece'):
    t = Tokenizer.from_file(f'{out}/trained-{name}.json')
    e = [t.encode(x, add_special_tokens=False) for x in TEXTS]
    with open(f'{out}/random-{name}.golden.json', 'w') as f:
        json.dump(dict(source=f'trained-{name}.json', texts=TEXTS, ids=[x.ids for x in e],
                       offsets=[x.offsets for x in e],
                       decoded=[t.decode(x.ids, skip_special_tokens=False) for x in e]),
                  f, separators=(',', ':'))
