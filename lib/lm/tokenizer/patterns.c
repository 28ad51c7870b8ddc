/* patterns.c: regular expressions as the authors of the models published them,
 * translated to Oniguruma's syntax: the possessive {1,3}+ of Rust is written
 * {1,3}, and a $ that means the end of the text is written \z. */
#include <lm/tokenizer/patterns.h>

#include <stddef.h>
#include <string.h>

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define GPT2                                                                   \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"        \
    "|\\s+(?!\\S)|\\s+"
#define WORDS(digits)                                                          \
    "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits                               \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3(digits) CONTRACTION "|" WORDS(digits)
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BEFORE "[^\\r\\n\\p{L}\\p{N}]?"
#define O200K(contraction, digits)                                             \
    BEFORE UPPER "*" LOWER "+" contraction "|" BEFORE UPPER "+" LOWER          \
           "*" contraction "|\\p{N}" digits                                    \
           "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define HAN_KANA "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
#define DEEPSEEK3                                                              \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"                    \
    "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"                             \
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* what DeepSeek's pattern calls CJK: Han, and a range that includes Hangul */
#define DEEPSEEK_CJK "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
#define BLOOM " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"

static const tn__pattern pattern_table[] = {
    {"gpt-2 gpt2 r50k_base p50k_base p50k_edit phi-2 mpt olmo jais trillion "
     "granite-docling roberta-bpe jina-es jina-de jina-v1-en jina-v2-code "
     "jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert exaone4 gigachat "
     "jina-v2-zh",
     false, false, {GPT2}},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 "
     "jina-v5-nano",
     true, true, {LLAMA3("{1,3}")}},
    {"dbrx smaug-bpe chatglm-bpe", false, false, {LLAMA3("{1,3}")}},
    {"glm4 glm5", true, false, {LLAMA3("{1,3}")}},
    {"minicpm5", true, false, {"\\p{N}{1,3}", LLAMA3("+")}},
    {"cl100k_base", false, false,
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}"
      "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"qwen2 qwen qwen3 stablelm2 deepseek-r1-qwen hunyuan solar-open grok-2 "
     "megrez kormo f2llmv2",
     false, false, {LLAMA3("")}},
    {"ufakzeka", false, false, {WORDS("")}},
    {"laguna", false, false, {"[^\\n]+|[\\n]+", LLAMA3("")}},
    {"qwen35", false, false,
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                  "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
                  "|\\s+(?!\\S)|\\s+"}},
    {"o200k_base gpt-4o llama4 minimax-m2 kanana2 talkie", false, false,
     {O200K(CONTRACTION "?", "{1,3}")}},
    {"granite-embed-multi-97m", true, false,
     {O200K(CONTRACTION "?", "{1,3}")}},
    {"tiny_aya cohere2moe", false, false,
     {"\\d{1,3}(?=(?:\\d{3})*\\b)", O200K(CONTRACTION "?", "{1,3}")}},
    {"tekken", true, true, {O200K("", "")}},
    {"deepseek-llm", false, false,
     {"[\\r\\n]",
      "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf"
      "\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f"
      "\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481"
      "\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd"
      "\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
      "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57"
      "\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe"
      "\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec"
      "\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d"
      "\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f"
      "\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee"
      "\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787"
      "\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a"
      "\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
      "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
      "\U000118a0-\U000118df\U0001e900-\U0001e943]+",
      "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
      "\\s+\\z", DEEPSEEK_CJK, "\\p{N}+"}},
    {"deepseek-coder", false, false,
     {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_CJK, "\\p{N}"}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", false, false,
     {"\\p{N}{1,3}", HAN_KANA, DEEPSEEK3}},
    {"falcon", false, false,
     {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
     false, false, {"\\p{N}", GPT2}},
    {"bloom poro-chat gpt3-finnish", false, false, {BLOOM}},
    {"viking", false, false, {BLOOM, "\\p{N}"}},
    {"superbpe", false, false, {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}},
    {"bailingmoe bailingmoe2 llada-moe", false, false,
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
      "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"seed-coder", false, false,
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
                  "| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)"
                  "|\\s+"}},
};

const tn__pattern *tn__pattern_find(const char *name)
{
    const size_t bytes = strlen(name);
    for (size_t i = 0; i < sizeof pattern_table / sizeof *pattern_table; i++)
        for (const char *n = pattern_table[i].names; *n;) {
            const size_t length = strcspn(n, " ");
            if (length == bytes && memcmp(n, name, bytes) == 0)
                return &pattern_table[i];
            n += length + (n[length] == ' ');
        }
    return NULL;
}

const tn__known_special tn__known_special_table[] = {
    {"r50k_base", "<|endoftext|>", 50256},
    {"gpt2", "<|endoftext|>", 50256},
    {"p50k_base", "<|endoftext|>", 50256},
    {"p50k_edit", "<|endoftext|>", 50256},
    {"p50k_edit", "<|fim_prefix|>", 50281},
    {"p50k_edit", "<|fim_middle|>", 50282},
    {"p50k_edit", "<|fim_suffix|>", 50283},
    {"cl100k_base", "<|endoftext|>", 100257},
    {"cl100k_base", "<|fim_prefix|>", 100258},
    {"cl100k_base", "<|fim_middle|>", 100259},
    {"cl100k_base", "<|fim_suffix|>", 100260},
    {"cl100k_base", "<|endofprompt|>", 100276},
    {"o200k_base", "<|endoftext|>", 199999},
    {"o200k_base", "<|endofprompt|>", 200018},
    {"qwen", "<|endoftext|>", 151643},
    {"qwen", "<|im_start|>", 151644},
    {"qwen", "<|im_end|>", 151645},
    {NULL, NULL, 0},
};
