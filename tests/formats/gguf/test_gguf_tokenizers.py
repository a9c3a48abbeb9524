"""Tokenizers that go into GGUF as llama.cpp's converter puts them there, and come out as tokenizer.json: the same ids."""

from pathlib import Path

import gguf
import numpy as np
import pytest

tokenizers = pytest.importorskip("tokenizers")
REPO = Path(__file__).resolve().parents[3]
CORPUS = sorted((REPO / "docs").glob("*.md"))
TEXTS = [
    "", " ", "a", " a", "a ", "  two  spaces", "tabs\tand\nlines\n\n\n  x", "it's WE'LL they'd I'M", "1234567 12 3.14 1,000",
    "naïve café, Ærø", "日本語のテキスト", "Ελληνικά και русский", "emoji 🙂👩‍🚀!", "!!!??? ...", "e\u0301 combining", "x = {'a': [1, 2]}\r\n",
    "<s> </s> <|x|> x<|x|>y", "\u00a0no-break\u2003wide",
]  # fmt: skip
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")


def texts():
    return TEXTS + [path.read_text() for path in CORPUS[:6]]


def write(path, entries):
    writer = gguf.GGUFWriter(path, "llama")
    sizes = {"context_length": 8, "embedding_length": 4, "block_count": 1, "feed_forward_length": 4, "head_count": 2,
             "layer_norm_rms_eps": 1e-5}  # fmt: skip
    for name, value in {**sizes, **entries}.items():
        getattr(writer, f"add_{name}")(value)
    writer.add_tensor("token_embd.weight", np.zeros((len(entries["token_list"]), 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_back(crumb, path):
    done = crumb("dequantize", path, "-o", path.with_suffix(""))
    assert "note" not in done.stderr
    return tokenizers.Tokenizer.from_file(str(path.with_suffix("") / "tokenizer.json"))


def byte_level(name):
    """A trained tokenizer with the splitting that llama.cpp calls by a name."""
    pre, models = tokenizers.pre_tokenizers, tokenizers.models
    tokenizer = tokenizers.Tokenizer(models.BPE())
    plain, regex = pre.ByteLevel(add_prefix_space=False, use_regex=False), pre.ByteLevel(add_prefix_space=False)
    split = {"llama-bpe": LLAMA3, "qwen2": QWEN2}.get(name)
    if split:
        tokenizer.pre_tokenizer = pre.Sequence([pre.Split(tokenizers.Regex(split), "isolated"), plain])
    else:
        tokenizer.pre_tokenizer = pre.Sequence([pre.Digits(individual_digits=True), regex]) if name == "smollm" else regex
    if name == "qwen2":
        tokenizer.normalizer = tokenizers.normalizers.NFC()
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=900, special_tokens=["<s>", "</s>", "<|x|>"], initial_alphabet=pre.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train([str(path) for path in CORPUS], trainer)
    return tokenizer


@pytest.mark.parametrize("name", ["gpt-2", "smollm", "llama-bpe", "qwen2"])
def test_byte_level_tokenizers_give_the_same_ids(crumb, tmp_path, name):
    import json

    original = byte_level(name)
    model = json.loads(original.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    entries = {"tokenizer_model": "gpt2", "tokenizer_pre": name, "token_list": tokens,
               "token_types": [3 if i < 3 else 1 for i in range(len(tokens))],
               "token_merges": [" ".join(pair) for pair in model["merges"]], "add_bos_token": False}  # fmt: skip
    write(tmp_path / "m.gguf", entries)
    made = read_back(crumb, tmp_path / "m.gguf")
    for text in texts():
        ids = original.encode(text).ids
        assert made.encode(text).ids == ids, text[:80]
        assert made.decode(ids) == original.decode(ids)


def test_tokens_around_a_text_are_added(crumb, tmp_path):
    tokens = ["<s>", "</s>", "a", "b", "ab"]
    entries = {"tokenizer_model": "gpt2", "tokenizer_pre": "gpt-2", "token_list": tokens, "token_types": [3, 3, 1, 1, 1],
               "token_merges": ["a b"], "add_bos_token": True, "add_eos_token": True, "bos_token_id": 0,
               "eos_token_id": 1}  # fmt: skip
    write(tmp_path / "m.gguf", entries)
    made = read_back(crumb, tmp_path / "m.gguf")
    assert made.encode("abab").ids == [0, 4, 4, 1]
    assert made.encode("abab", add_special_tokens=False).ids == [4, 4]


@pytest.mark.parametrize("prefix", [True, False])
def test_pieces_give_the_ids_of_sentencepiece(crumb, tmp_path, prefix):
    sentencepiece = pytest.importorskip("sentencepiece")
    sentencepiece.SentencePieceTrainer.train(
        input=[str(path) for path in CORPUS], model_prefix=str(tmp_path / "m"), vocab_size=1000, model_type="bpe",
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=prefix,
        split_digits=True, allow_whitespace_only_pieces=True, character_coverage=0.999, minloglevel=2,
    )  # fmt: skip
    original = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "m.model"))
    count = range(original.vocab_size())
    kinds = [2 if original.is_unknown(i) else 3 if original.is_control(i) else 6 if original.is_byte(i) else 1 for i in count]
    entries = {"tokenizer_model": "llama", "token_list": [original.id_to_piece(i) for i in count],
               "token_scores": [original.get_score(i) for i in count], "token_types": kinds, "unk_token_id": 0,
               "bos_token_id": 1, "eos_token_id": 2, "add_bos_token": True, "add_space_prefix": prefix}  # fmt: skip
    write(tmp_path / "m.gguf", entries)
    made = read_back(crumb, tmp_path / "m.gguf")
    for text in texts():
        if "<s>" in text or not text:  # control tokens are not read from texts by sentencepiece
            continue
        ids = original.encode(text)
        assert made.encode(text).ids == [1, *ids], text[:80]
        assert made.decode(ids) == original.decode(ids)


def test_a_tokenizer_that_is_not_known_is_said(crumb, tmp_path):
    entries = {"tokenizer_model": "gpt2", "tokenizer_pre": "some-other", "token_list": ["a", "b"], "token_merges": []}
    write(tmp_path / "m.gguf", entries)
    done = crumb("dequantize", tmp_path / "m.gguf", "-o", tmp_path / "m")
    assert "'some-other'" in done.stderr and "is not known" in done.stderr
    assert not (tmp_path / "m" / "tokenizer.json").exists()
    assert (tmp_path / "m" / "config.json").exists()
