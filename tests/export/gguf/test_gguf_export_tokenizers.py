"""Tokenizers that go to GGUF and come back: the same tokenizer.json, whatever kind; what GGUF cannot say is refused."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

gguf = pytest.importorskip("gguf")
tokenizers = pytest.importorskip("tokenizers")
safetensors_numpy = pytest.importorskip("safetensors.numpy")
CORPUS = sorted((Path(__file__).resolve().parents[3] / "docs").glob("*.md"))
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_level(name):
    pre = tokenizers.pre_tokenizers
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=name == "llama-bpe"))
    plain, regex = pre.ByteLevel(add_prefix_space=False, use_regex=False), pre.ByteLevel(add_prefix_space=False)
    split = {"llama-bpe": LLAMA3, "smaug-bpe": LLAMA3, "qwen2": LLAMA3.replace("{1,3}", "")}.get(name)
    if split:
        tokenizer.pre_tokenizer = pre.Sequence([pre.Split(tokenizers.Regex(split), "isolated"), plain])
    else:
        tokenizer.pre_tokenizer = pre.Sequence([pre.Digits(individual_digits=True), regex]) if name == "smollm" else regex
    if name == "qwen2":
        tokenizer.normalizer = tokenizers.normalizers.NFC()
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<s>", "</s>", "<|x|>"], initial_alphabet=pre.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train([str(path) for path in CORPUS[:4]], trainer)
    tokenizer.add_tokens([tokenizers.AddedToken("[user]", normalized=False)])
    return tokenizer


def pieces(folder, prefix):
    """A vocabulary of SentencePiece's, as transformers converts it."""
    sentencepiece = pytest.importorskip("sentencepiece")
    sentencepiece.SentencePieceTrainer.train(
        input=[str(path) for path in CORPUS[:4]], model_prefix=str(folder / "m"), vocab_size=800, model_type="bpe",
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2,
    )  # fmt: skip
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "m.model"))
    tokens = [processor.id_to_piece(i) for i in range(processor.vocab_size())]
    ids = {token: i for i, token in enumerate(tokens)}
    found = []
    for token, i in ids.items():
        if processor.is_byte(i) or processor.is_control(i) or processor.is_unknown(i):
            continue
        cuts = [(token[:at], token[at:]) for at in range(1, len(token)) if token[:at] in ids and token[at:] in ids]
        found += [(pair, processor.get_score(i)) for pair in sorted(cuts, key=lambda pair: (ids[pair[0]], ids[pair[1]]))]
    found.sort(key=lambda merge: (merge[1], len(merge[0][0]), len(merge[0][1])), reverse=True)
    model = tokenizers.models.BPE(
        ids, [pair for pair, _ in found], unk_token="<unk>", fuse_unk=True, byte_fallback=True
    )
    tokenizer = tokenizers.Tokenizer(model)
    steps = [tokenizers.normalizers.Prepend("▁")] if prefix else []
    tokenizer.normalizer = tokenizers.normalizers.Sequence([*steps, tokenizers.normalizers.Replace(" ", "▁")])
    tokenizer.decoder = tokenizers.decoders.Sequence(
        [tokenizers.decoders.Replace("▁", " "), tokenizers.decoders.ByteFallback(), tokenizers.decoders.Fuse()]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def write_model(folder, tokenizer, settings=None, rows=None):
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"bos_token": "<s>", "eos_token": "</s>", **(settings or {})}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    rows = rows or tokenizer.get_vocab_size()
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4, "intermediate_size": 4,
              "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": rows, "tie_word_embeddings": True}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    safetensors_numpy.save_file({"model.embed_tokens.weight": np.zeros((rows, 4), np.float32)}, folder / "model.safetensors")
    return folder


def round_trip(crumb, folder, tmp_path):
    crumb("export", folder, "-o", tmp_path / "m.gguf", "--to", "gguf")
    crumb("dequantize", tmp_path / "m.gguf", "-o", tmp_path / "again")
    return json.loads((tmp_path / "again" / "tokenizer.json").read_text())


def texts():
    return [
        "", " a", "a ", "  two  spaces", "tabs\tand\nlines\n\n\n  x", "it's WE'LL I'M", "1234567 12 3.14", "naïve café",
        "日本語のテキスト", "🙂👩‍🚀!", "e\u0301", "x = {'a': [1, 2]}\r\n", "<s>x</s> [user] y", *(path.read_text()[:3000] for path in CORPUS[4:6]),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["gpt-2", "smollm", "llama-bpe", "smaug-bpe", "qwen2"])
def test_byte_level_tokenizers_come_back(crumb, tmp_path, name):
    original = byte_level(name)
    again = round_trip(crumb, write_model(tmp_path / "model", original, rows=640), tmp_path)
    before = json.loads(original.to_str())
    fields = {key: field.contents() for key, field in gguf.GGUFReader(tmp_path / "m.gguf").fields.items()}
    assert fields["tokenizer.ggml.pre"] == name
    vocabulary = {token: i for token, i in again["model"]["vocab"].items() if not token.startswith("[PAD")}
    assert vocabulary == {**before["model"]["vocab"], "[user]": original.token_to_id("[user]")}
    assert again["model"]["merges"] == [list(pair) for pair in before["model"]["merges"]]
    assert again["pre_tokenizer"] == before["pre_tokenizer"] and again["normalizer"] == before["normalizer"]
    flags = [(token["content"], token["special"]) for token in again["added_tokens"]]
    assert flags == [("<s>", True), ("</s>", True), ("<|x|>", True), ("[user]", False)]
    made = tokenizers.Tokenizer.from_file(str(tmp_path / "again" / "tokenizer.json"))
    for text in texts():
        assert made.encode(text).ids == original.encode(text).ids, text[:60]


@pytest.mark.parametrize("prefix", [True, False])
def test_pieces_come_back(crumb, tmp_path, prefix):
    original = pieces(tmp_path, prefix)
    again = round_trip(crumb, write_model(tmp_path / "model", original, {"add_bos_token": True}), tmp_path)
    before = json.loads(original.to_str())
    assert again["model"]["vocab"] == before["model"]["vocab"]
    assert again["model"]["merges"] == [list(pair) for pair in before["model"]["merges"]]
    fields = {key: field.contents() for key, field in gguf.GGUFReader(tmp_path / "m.gguf").fields.items()}
    assert fields["tokenizer.ggml.model"] == "llama" and fields["tokenizer.ggml.add_space_prefix"] is prefix
    assert fields["tokenizer.ggml.token_type"][:4] == [2, 3, 3, 6]
    scores = np.array(fields["tokenizer.ggml.scores"])
    assert len(set(scores[scores < 0])) > 400
    made = tokenizers.Tokenizer.from_file(str(tmp_path / "again" / "tokenizer.json"))
    for text in texts()[1:]:
        assert made.encode(text).ids == [1, *original.encode(text).ids], text[:60]


def test_the_frame_of_a_post_processor_goes_along(crumb, tmp_path):
    original = byte_level("gpt-2")
    pair = [("<s>", 0), ("</s>", 1)]
    original.post_processor = tokenizers.processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B:1 </s>:1", pair)
    again = round_trip(crumb, write_model(tmp_path / "model", original), tmp_path)
    assert again["post_processor"]["type"] == "TemplateProcessing"
    made = tokenizers.Tokenizer.from_file(str(tmp_path / "again" / "tokenizer.json"))
    assert made.encode("ab").ids == original.encode("ab").ids
    original.post_processor = tokenizers.processors.TemplateProcessing("<|x|> $A", "<|x|> $A $B:1", [("<|x|>", 2)])
    done = crumb("export", write_model(tmp_path / "other", original), "-o", tmp_path / "n.gguf", "--to", "gguf", status=1)
    assert "the tokenizer puts 1 token before a text" in done.stderr


def swap_far(text):
    """A token that two pairs make, one of them before all others and one behind them: no score says that."""
    merges, vocab = text["model"]["merges"], text["model"]["vocab"]
    for left, right in merges:
        made = left + right
        others = [(made[:i], made[i:]) for i in range(1, len(made)) if i != len(left)]
        other = next(([a, b] for a, b in others if a in vocab and b in vocab), None)
        if other:
            rest = [merge for merge in merges if "".join(merge) != made]
            text["model"]["merges"] = [[left, right], *rest, other]
            return
    raise AssertionError("no token is made by two pairs")


def edited(original, change):
    text = json.loads(original.to_str())
    change(text)
    return tokenizers.Tokenizer.from_str(json.dumps(text))


@pytest.mark.parametrize("special", [True, False])
def test_added_tokens_past_the_rows_are_left_out(crumb, tmp_path, special):
    """As llama.cpp's converter leaves them out; Gemma 3's text models have one, and it stands in their vocabulary, too."""
    original = byte_level("gpt-2")
    rows = original.get_vocab_size()
    past = ["<image>", "<video>"]
    original.add_tokens([tokenizers.AddedToken(token, special=special, normalized=False) for token in past])
    folder = write_model(tmp_path / "model", original, {"eos_token": "<image>", "pad_token": "<video>"}, rows=rows)
    text = json.loads((folder / "tokenizer.json").read_text())
    text["model"]["vocab"]["<image>"] = original.token_to_id("<image>")
    (folder / "tokenizer.json").write_text(json.dumps(text))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [rows, rows + 1]}))
    done = crumb("export", folder, "-o", tmp_path / "m.gguf", "--to", "gguf")
    assert f"left out 2 added tokens that the embedding's {rows} rows do not reach, '<image>' first" in done.stderr
    fields = {key: field.contents() for key, field in gguf.GGUFReader(tmp_path / "m.gguf").fields.items()}
    tokens = fields["tokenizer.ggml.tokens"]
    assert len(tokens) == rows and not set(past) & set(tokens)
    assert not [key for key in fields if key.endswith("token_id") and fields[key] >= rows]


def test_what_gguf_cannot_say_is_refused(crumb, tmp_path):
    def refused(name, tokenizer, **options):
        folder = write_model(tmp_path / name, tokenizer, **options)
        return crumb("export", folder, "-o", tmp_path / "m.gguf", "--to", "gguf", status=1).stderr

    plain = byte_level("gpt-2")
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    assert "the way the tokenizer splits text into words has no name in GGUF" in refused("words", plain)
    unigram = tokenizers.Tokenizer(tokenizers.models.Unigram([("<unk>", 0.0), ("a", -1.0)], 0, False))
    assert "the tokenizer's model is 'Unigram'; to GGUF goes BPE" in refused("unigram", unigram)
    assert "has no number below the embedding's 100 rows" in refused("rows", byte_level("gpt-2"), rows=100)

    assert "its merges do not follow from scores of its tokens" in refused("merges", edited(pieces(tmp_path, True), swap_far))


@pytest.mark.parametrize(
    "name",
    ["llama-spm", "phi-3", "deepseek-coder", *(pytest.param(name, marks=pytest.mark.slow) for name in ("falcon", "qwen2", "llama-bpe"))],
)
def test_published_vocabularies_come_back(crumb, tmp_path, name):
    """Those that llama.cpp is tested by; tokens of one score among them, whose merges lie among each other."""
    path = Path(__file__).resolve().parents[2] / "formats" / "gguf" / "test_ggml_vocabularies.py"
    spec = importlib.util.spec_from_file_location("ggml_vocabularies", path)
    vocabularies = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(vocabularies)
    source = vocabularies.FOLDER / f"ggml-vocab-{name}.gguf"
    if not source.is_file():
        pytest.skip("llama.cpp's vocabularies are not there: scripts/setup tests")
    vocabularies.as_a_llama(source, tmp_path / "a.gguf")
    crumb("dequantize", tmp_path / "a.gguf", "-o", tmp_path / "model")
    again = round_trip(crumb, tmp_path / "model", tmp_path)
    before = json.loads((tmp_path / "model" / "tokenizer.json").read_text())
    assert again["model"] == before["model"]
    assert {key: again[key] for key in ("normalizer", "pre_tokenizer", "post_processor", "decoder")} == {
        key: before[key] for key in ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    }
