"""Ways to split text into words: from tokenizer.json to GGUF by their names, and back, with the ids that `tokenizers` gives."""

import json
import random
import unicodedata

import numpy as np
import pytest
from word_families import ALONE, FAMILIES, GPT2, KIN, TEXT

gguf = pytest.importorskip("gguf")
tokenizers = pytest.importorskip("tokenizers")
safetensors_numpy = pytest.importorskip("safetensors.numpy")

# Kinds of pieces: what stands between words, digits, contractions, marks of punctuation, scripts without spaces.
SPACES = [" ", "  ", "   ", "\t", " \t ", "\u3000", "\u00a0", "    ", "\u2003 "]
LINES = ["\n", "\r\n", " \n", "\n\n", "\r", "\n \n"]
SHORTS = ["'s", "'T", "'re", "'VE", "'ll", "'m", "'d", "'x", "'\u017f"]
ASCII = ".,!?;:/()[]{}<>=+-*&^%$#@~`|\\_\"'"
ASIA = "漢字語龥一あアー가힣ก์क्ษ、。！？，।۔…"


def classes():
    """Characters that Unicode has had since 3.2, by their category, which has stayed the same."""
    found = {}
    for code in (*range(0x20, 0x3400), *range(0xF900, 0x10500), *range(0x1D100, 0x1D800)):
        kind = unicodedata.ucd_3_2_0.category(chr(code))
        if kind not in ("Cn", "Co", "Cs") and kind == unicodedata.category(chr(code)):
            found.setdefault(kind, []).append(chr(code))
    return [found[kind] for kind in sorted(found) if kind not in ("Zl", "Zp")]


CLASSES = classes()


def piece(draw, lines):
    match draw.randrange(12):
        case 0:
            return draw.choice(SPACES + lines)
        case 1:
            return "".join(draw.choices("0123456789", k=draw.randint(1, 9)))
        case 2:
            return draw.choice(SHORTS)
        case 3:
            return "".join(draw.choices(ASCII, k=draw.randint(1, 3))) + (draw.choice(lines) if lines else "")
        case 4:
            return "".join(draw.choices(ASIA, k=draw.randint(1, 4)))
        case 5 | 6:
            return "".join(draw.choice(draw.choice(CLASSES)) for _ in range(draw.randint(1, 3)))
        case _:
            letters = "".join(draw.choices("abcdefgXYZéßÑжЖσΣ", k=draw.randint(1, 6)))
            return draw.choice(["", " "]) + letters


def drawn(seed, count, lines=()):
    draw = random.Random(seed)
    texts = ["".join(piece(draw, list(lines)) for _ in range(draw.randint(1, 8))) for _ in range(count)]
    # --lines takes these for ends of a text, or reads none where nothing is left.
    return texts if lines else ["".join(c for c in text if c not in "\n\r") + "." for text in texts]


TEXTS, DOCUMENT = drawn(1, 1500), "".join(drawn(2, 1500, LINES))
CORPUS = drawn(3, 400, LINES)


def trained(steps, said):
    """A tokenizer of a family, whose merges were found in drawn texts."""
    words = steps[0] if len(steps) == 1 else {"type": "Sequence", "pretokenizers": steps}
    model = {"type": "BPE", "vocab": {}, "merges": [], "ignore_merges": said.get("ignore_merges", False)}
    whole = {"version": "1.0", "added_tokens": [], "normalizer": said.get("normalizer"), "pre_tokenizer": words, "post_processor": None,
             "decoder": GPT2, "model": model}  # fmt: skip
    made = tokenizers.Tokenizer.from_str(json.dumps(whole))
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(CORPUS, tokenizers.trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False))
    trained_model = json.loads(made.to_str())["model"]
    whole["model"] = {**trained_model, "ignore_merges": model["ignore_merges"]}
    if model["ignore_merges"]:  # a word that no merges make
        whole["model"]["vocab"]["ĠXabcdefg"] = len(trained_model["vocab"])
    return whole


def write_model(folder, whole):
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    rows = len(whole["model"]["vocab"])
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4, "intermediate_size": 4,
              "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": rows, "tie_word_embeddings": True}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    safetensors_numpy.save_file({"model.embed_tokens.weight": np.zeros((rows, 4), np.float32)}, folder / "model.safetensors")
    return folder


def ids_of(crumb, model, text, *flags):
    said = crumb("tokenize", model, "--no-special", "--text", "-", "--json", *flags, stdin=None, input=text).stdout
    return [entry["ids"] for entry in json.loads(said)["texts"]]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_goes_to_gguf_by_its_name_and_comes_back(crumb, tmp_path, name):
    whole = trained(*FAMILIES[name])
    theirs = tokenizers.Tokenizer.from_str(json.dumps(whole))
    crumb("export", write_model(tmp_path / "model", whole), "-o", tmp_path / "m.gguf", "--to", "gguf")
    assert gguf.GGUFReader(tmp_path / "m.gguf").fields["tokenizer.ggml.pre"].contents() == name
    expected = [one.ids for one in theirs.encode_batch(TEXTS)]
    for text, made, ids in zip(TEXTS, ids_of(crumb, tmp_path / "m.gguf", "\n".join(TEXTS) + "\n", "--lines"), expected, strict=True):
        assert made == ids, text
    document = theirs.encode(DOCUMENT).ids
    assert ids_of(crumb, tmp_path / "m.gguf", DOCUMENT) == [document]
    crumb("dequantize", tmp_path / "m.gguf", "-o", tmp_path / "again")
    again = tokenizers.Tokenizer.from_file(str(tmp_path / "again" / "tokenizer.json"))
    assert [one.ids for one in again.encode_batch(TEXTS)] == expected
    assert again.encode(DOCUMENT).ids == document


def write_named(path, name, tokens=None, merges=("a b",)):
    """A file whose tokens are single bytes, and one pair, or those that are given."""
    tokens = tokens or [*sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()), "ab"]
    writer = gguf.GGUFWriter(path, "llama")
    sizes = {"context_length": 8, "embedding_length": 4, "block_count": 1, "feed_forward_length": 4, "head_count": 2,
             "layer_norm_rms_eps": 1e-5, "tokenizer_model": "gpt2", "tokenizer_pre": name, "token_list": tokens,
             "token_merges": list(merges), "bos_token_id": 0}  # fmt: skip
    if name is None:
        del sizes["tokenizer_pre"]
    for key, value in sizes.items():
        getattr(writer, f"add_{key}")(value)
    writer.add_tensor("token_embd.weight", np.zeros((len(tokens), 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def made_from(crumb, folder, name):
    crumb("dequantize", write_named(folder / f"{name}.gguf", name), "-o", folder / name)
    return json.loads((folder / name / "tokenizer.json").read_text())


def test_names_of_one_way_are_read_alike(crumb, tmp_path):
    for head, kin in KIN.items():
        first = made_from(crumb, tmp_path, head)
        for name in kin:
            made = made_from(crumb, tmp_path, name)
            assert made["pre_tokenizer"] == first["pre_tokenizer"], name
            assert made["model"]["ignore_merges"] == first["model"]["ignore_merges"], name
            starts = made["post_processor"] is not None
            assert starts == (head == "llama-bpe" and not name.startswith("glm")), name


@pytest.mark.parametrize("name", ALONE)
def test_words_of_other_names_are_those_of_the_library(crumb, tmp_path, name):
    """Every word is made a token, so that ids say where words end."""
    whole = made_from(crumb, tmp_path, name)
    pieces = tokenizers.Tokenizer.from_str(json.dumps(whole)).pre_tokenizer.pre_tokenize_str(DOCUMENT)
    words = sorted({word for word, _ in pieces if len(word) > 1})
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: i for i, token in enumerate([*alphabet, *words])}
    whole["model"].update(vocab=vocab, merges=[], ignore_merges=True)
    (tmp_path / "tokenizer.json").write_text(json.dumps(whole))
    assert ids_of(crumb, tmp_path / "tokenizer.json", DOCUMENT) == [[vocab[word] for word, _ in pieces]]


@pytest.mark.parametrize("name", TEXT)
def test_names_of_vocabularies_that_are_text_are_refused(crumb, tmp_path, name):
    said = crumb("dequantize", write_named(tmp_path / "m.gguf", name), "-o", tmp_path / "m").stderr
    assert f"{name!r}" in said and "its tokens are text" in said
    assert not (tmp_path / "m" / "tokenizer.json").exists()


def test_a_file_that_names_no_way_is_read_by_the_default_with_a_note(crumb, tmp_path):
    said = crumb("dequantize", write_named(tmp_path / "m.gguf", None), "-o", tmp_path / "m").stderr
    assert "'tokenizer.ggml.pre': the file does not say how its vocabulary splits text into words" in said
    made = json.loads((tmp_path / "m" / "tokenizer.json").read_text())
    assert made["pre_tokenizer"] == made_from(crumb, tmp_path, "default")["pre_tokenizer"]


def test_what_stands_around_known_words_and_has_no_name_is_refused(crumb, tmp_path):
    steps, said = FAMILIES["deepseek-v3"]
    around = {
        """normalizer '{"type":"Lowercase"}', ignore_merges false""": {"normalizer": {"type": "Lowercase"}},
        "normalizer 'null', ignore_merges true": {"ignore_merges": True},
    }
    for i, (words, changed) in enumerate(around.items()):
        folder = write_model(tmp_path / str(i), trained(steps, {**said, **changed}))
        done = crumb("export", folder, "-o", tmp_path / "m.gguf", "--to", "gguf", status=1).stderr
        assert f"as 'deepseek-v3' does in GGUF, but has what no such name stands for: {words}" in done, done
