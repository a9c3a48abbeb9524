"""Tokenizers as decoders have them, trained on lines of mixed text, the same ones each time."""

import random

A = ["the", "quick", " ", "  ", "é", "e\u0301", "中文", "👩‍🚀", "\t", "12", "345", "fox's", "I'LL", ".", "!?", "_", "\u3000", "<s>",
     "ſ", "x=1;", "ÀB", "\u180e"]  # fmt: skip
LINES = ["".join(random.Random(i).choices(A, k=random.Random(-i - 1).randint(0, 14))) for i in range(2000)]

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")  # fmt: skip
QWEN2 = LLAMA3.replace("{1,3}", "")
KINDS = ["gpt2", "smollm", "llama3", "qwen2", "llama2", "gemma", "unigram_always", "unigram_first", "unigram_never", "words",
         "wordpiece", "precompiled"]  # fmt: skip


def charsmap():
    """SentencePiece's table of characters nmt_nfkc_cf, as its models carry it."""
    import io

    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c"] * 9), model_writer=made, vocab_size=8, model_type="bpe", normalization_rule_name="nmt_nfkc_cf", minloglevel=2
    )
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(made.getvalue())
    return model.normalizer_spec.precompiled_charsmap


def untrained(kind):
    """A tokenizer and its trainer."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    if kind in ("gpt2", "smollm", "llama3", "qwen2"):
        tokenizer = Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
        level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind in ("gpt2", "smollm"))
        steps = {
            "smollm": [pre_tokenizers.Digits(individual_digits=True)],
            "llama3": [pre_tokenizers.Split(Regex(LLAMA3), "isolated")],
            "qwen2": [pre_tokenizers.Split(Regex(QWEN2), "isolated")],
        }
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*steps.get(kind, []), level])
        tokenizer.decoder = decoders.ByteLevel()
        if kind == "qwen2":
            tokenizer.normalizer = normalizers.NFC()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        return tokenizer, trainers.BpeTrainer(
            vocab_size=500, special_tokens=["<s>"], initial_alphabet=alphabet, show_progress=False
        )
    if kind in ("llama2", "gemma"):
        tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        if kind == "llama2":
            tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), tokenizer.normalizer])
            steps.append(decoders.Strip(" ", 1, 0))
        else:
            tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        tokenizer.decoder = decoders.Sequence(steps)
        special = ["<unk>", "<s>", *(f"<0x{i:02X}>" for i in range(256))]
        return tokenizer, trainers.BpeTrainer(
            vocab_size=400, limit_alphabet=20, special_tokens=special, show_progress=False
        )
    if kind == "words":
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
        tokenizer.normalizer = normalizers.Lowercase()
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.decoder = decoders.BPEDecoder()
        return tokenizer, trainers.BpeTrainer(
            vocab_size=200, special_tokens=["<unk>", "<s>"], end_of_word_suffix="</w>", show_progress=False
        )
    if kind == "wordpiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>", max_input_chars_per_word=20))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
        return tokenizer, trainers.WordPieceTrainer(
            vocab_size=150, limit_alphabet=40, special_tokens=["<unk>", "<s>"], show_progress=False
        )
    tokenizer = Tokenizer(models.Unigram())
    scheme = kind.removeprefix("unigram_") if kind != "precompiled" else "always"
    tokenizer.normalizer = normalizers.Precompiled(charsmap()) if kind == "precompiled" else normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
    return tokenizer, trainers.UnigramTrainer(
        vocab_size=150, unk_token="<unk>", special_tokens=["<unk>", "<s>"], show_progress=False
    )


def save_tokenizer(kind, folder):
    """The tokenizer, which is tokenizer.json in the folder then."""
    tokenizer, trainer = untrained(kind)
    tokenizer.train_from_iterator(LINES[:1000], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer
