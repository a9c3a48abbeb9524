"""How families of models split text into words: "pre_tokenizer" as their tokenizer.json have it, by the name GGUF has for it.

Each entry: the steps, and what else the name says ("normalizer", "ignore_merges").
"""


def split(regex):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


def kept(regex):
    """The same where every character belongs to a match."""
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Removed", "invert": True}


def level(regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": regex}


BYTES, GPT2 = level(False), level(True)
OLD_GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}  # before there was use_regex
DIGITS = {"type": "Digits", "individual_digits": True}
NFC = {"type": "NFC"}
ENDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = ENDS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + TAIL
QWEN2 = LLAMA3.replace("{1,3}", "")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def cased(behind, numbers, upper=UPPER, lower=LOWER):
    lead = r"[^\r\n\p{L}\p{N}]?"
    tail = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    return f"{lead}{upper}*{lower}+{behind}|{lead}{upper}+{lower}*{behind}|{numbers}{tail}"


O200K = cased(ENDS + "?", r"\p{N}{1,3}")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
CHINESE, KANA = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
# The letters with two cases, up to Unicode 11.
CASED = (
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄ"
    "ῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏"
    "𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
)
# With line ends that stand there themselves.
DEEPSEEK3 = [
    split(r"\p{N}{1,3}"), split(KANA),
    split(r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^""" + "\r\n" + r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+["
          + "\r\n" + r"]*|\s*[" + "\r\n" + r"]+|\s+(?!\S)|\s+"),
]  # fmt: skip

FAMILIES = {
    "gpt-2": ([OLD_GPT2], {}),
    "mpt": ([GPT2], {"normalizer": NFC}),
    "smollm": ([DIGITS, OLD_GPT2], {}),
    "command-r": ([DIGITS, GPT2], {"normalizer": NFC}),
    "llama-bpe": ([split(LLAMA3), BYTES], {"ignore_merges": True}),
    "smaug-bpe": ([kept(LLAMA3), BYTES], {}),
    "qwen2": ([split(QWEN2), BYTES], {"normalizer": {"type": "Sequence", "normalizers": [NFC]}}),
    "hunyuan": ([split(QWEN2), BYTES], {"normalizer": {"type": "Sequence", "normalizers": []}}),
    "qwen35": ([split(QWEN2.replace(r"]?\p{L}+", r"]?[\p{L}\p{M}]+").replace(r"^\s\p{L}\p{N}", r"^\s\p{L}\p{M}\p{N}")), BYTES], {}),
    "tekken": ([split(cased("", r"\p{N}")), BYTES], {"ignore_merges": True}),
    "gpt-4o": ([kept(O200K), BYTES], {}),
    "granite-embed-multi-97m": ([split(O200K), BYTES], {"ignore_merges": True}),
    "deepseek-llm": ([split("[\r\n]"), split(CASED), split("\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+"), split(r"\s+$"), split(CHINESE), DIGITS, BYTES], {}),
    "deepseek-coder": ([split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(CHINESE), DIGITS, BYTES], {}),
    "deepseek-v3": ([*DEEPSEEK3, BYTES], {}),
    "falcon": (
        [{"type": "Punctuation", "behavior": "Contiguous"}, OLD_GPT2, {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]")],
        {},
    ),
    "bloom": ([split(BLOOM), BYTES], {}),
    "viking": ([split(BLOOM), DIGITS, BYTES], {}),
    "tiny_aya": ([split(r"\d{1,3}(?=(?:\d{3})*\b)"), split(O200K), BYTES], {}),
    "superbpe": ([split(r"\p{N}+"), split(r"(?=(\d{3})+(?!\d))"), BYTES], {}),
    "minicpm5": ([split(r"\p{N}{1,3}"), split(LLAMA3.replace("{1,3}", "+")), BYTES], {"ignore_merges": True}),
    "seed-coder": (
        [split(ENDS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}" + "\r\n" + r"]+|\s*[" + "\r\n" + r"]+|\s+(?!\S)|\s+"), BYTES],
        {},
    ),
    "bailingmoe": (
        [split(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"), BYTES],
        {},
    ),
    "exaone-moe": (
        [split(ENDS + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"), BYTES],
        {},
    ),
    "jais-2": (
        [split(LLAMA3.replace(r"|\s+(?!\S)|\s+", "".join(rf"|\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4, "1,2")) + r"|\s{1}")), BYTES],
        {},
    ),
    "kimi-k2": (
        [split(r"[\p{Han}]+|" + cased(ENDS + "?", r"\p{N}{1,3}", UPPER[:-1] + r"&&[^\p{Han}]]", LOWER[:-1] + r"&&[^\p{Han}]]").replace(r"[\r\n/]*", r"[\r\n]*")), BYTES],
        {},
    ),
}  # fmt: skip

# What llama.cpp takes for the same, with another normalizer at most.
KIN = {
    "gpt-2": ["phi-2", "olmo", "mpt", "modern-bert", "jais", "trillion", "granite-docling", "gigachat", "exaone4", "a.x-4.0", "mellum",
              "jina-es", "jina-de", "jina-v1-en", "jina-v2-es", "jina-v2-de", "jina-v2-code", "roberta-bpe"],
    "smollm": ["starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"],
    "llama-bpe": ["llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "glm4", "glm5"],
    "smaug-bpe": ["dbrx", "chatglm-bpe"],
    "qwen2": ["deepseek-r1-qwen", "f2llmv2", "hunyuan", "solar-open", "grok-2", "kormo", "megrez", "stablelm2"],
    "gpt-4o": ["llama4", "kanana2", "talkie", "minimax-m2"],
    "tiny_aya": ["cohere2moe"],
    "deepseek-v3": ["hunyuan-dense", "joyai-llm", "hy_v4"],
    "bloom": ["poro-chat", "gpt3-finnish"],
    "bailingmoe": ["bailingmoe2", "llada-moe"],
}  # fmt: skip
# Read as llama.cpp has them.
ALONE = ["default", "afmoe", "spark2_5", "youtu", "laguna", "ufakzeka", "chameleon"]
TEXT = ["gemma4", "granite-embed-multi-311m", "sarvam-moe", "whitespace"]
