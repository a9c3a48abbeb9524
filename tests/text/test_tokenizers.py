"""crumb tokenize and detokenize against the `tokenizers` library: each kind of tokenizer of decoders, trained here."""

import json
import random

import numpy as np
import pytest
from safetensors.numpy import save_file
from sample_tokenizers import KINDS, LINES, save_tokenizer

pytest.importorskip("tokenizers")


@pytest.fixture(scope="module", params=KINDS)
def trained(request, tmp_path_factory):
    """(the library's tokenizer, a folder with its tokenizer.json)"""
    folder = tmp_path_factory.mktemp(request.param)
    return save_tokenizer(request.param, folder), folder


def printed(crumb, *arguments, text):
    return json.loads(crumb(*arguments, "--json", stdin=None, input=text).stdout)["texts"]


def decoded(crumb, folder, lists, *flags):
    lines = "".join(" ".join(map(str, ids)) + "\n" for ids in lists)
    return printed(crumb, "detokenize", folder, "--file", "-", "--lines", *flags, text=lines)


def test_ids_and_pieces(crumb, trained):
    theirs, folder = trained
    ours = printed(crumb, "tokenize", folder, "--text", "-", "--lines", text="\n".join(LINES) + "\n")
    assert len(ours) == len(LINES)
    for line, made in zip(LINES, ours):
        expected = theirs.encode(line)
        assert (made["ids"], made["pieces"]) == (expected.ids, expected.tokens), line


@pytest.mark.parametrize("flags", [[], ["--special"]], ids=["skipped", "special"])
def test_texts_of_ids(crumb, trained, flags):
    theirs, folder = trained
    lists = [theirs.encode(line).ids for line in LINES]
    assert decoded(crumb, folder, lists, *flags) == [theirs.decode(ids, skip_special_tokens=not flags) for ids in lists]


def test_texts_of_random_ids(crumb, trained):
    """Sequences that no text gives: cut characters, runs of bytes that are no UTF-8."""
    theirs, folder = trained
    draw = random.Random(7)
    lists = [draw.choices(range(theirs.get_vocab_size()), k=draw.randint(1, 12)) for _ in range(2000)]
    few = [theirs.token_to_id(t) for t in ("<s>", "<0xE4>", "<0xB8>", "<0xAD>", "<0x41>", "ä", "¸", "Ń", "a", "▁")]
    few = [id for id in few if id is not None]
    lists += [draw.choices(few, k=draw.randint(1, 9)) for _ in range(1000)]
    assert decoded(crumb, folder, lists) == [theirs.decode(ids) for ids in lists]


def test_a_whole_file_is_one_text(crumb, trained, tmp_path):
    theirs, folder = trained
    text = "\n".join(LINES[:50]) + "\n\n  end"
    (tmp_path / "t.txt").write_text(text)
    done = crumb("tokenize", folder / "tokenizer.json", "--text", tmp_path / "t.txt")
    ids = [int(word) for word in done.stdout.split()]
    assert ids == theirs.encode(text).ids
    back = crumb("detokenize", folder, "--ids", done.stdout).stdout
    assert back == theirs.decode(ids) + "\n"
    crumb("detokenize", folder, "--ids", "1 x", status=2)
    crumb("detokenize", folder, "--ids", "99999999", status=2)


LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
DECODERS = [
    {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": "a", "start": 2, "stop": 1}]},
    {"type": "Strip", "content": "中", "start": 1, "stop": 0},
    {"type": "Replace", "pattern": {"String": "ab"}, "content": "b"},
    {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Replace", "pattern": {"String": "aab"}, "content": ""}]},
    {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Replace", "pattern": {"Regex": "a+|b$"}, "content": "中"}]},
    {"type": "BPEDecoder", "suffix": "b"},
    {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Metaspace", "replacement": "a"}]},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"},
    {"type": "Sequence", "decoders": [LEVEL, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    None,
]  # fmt: skip


@pytest.mark.parametrize("decoder", DECODERS, ids=[f"{i}" for i in range(len(DECODERS))])
def test_each_decoder(crumb, tmp_path, decoder):
    from tokenizers import Tokenizer

    tokens = "a b ab aab ba 中 ▁ ▁a a▁b <0x61> <0xE4> <0xB8> <0xAD> <0xag> Ġ ä ¸ Ń aaaab".split()
    model = {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": []}
    whole = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None,
             "decoder": decoder, "model": model}  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(whole))
    theirs = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    draw = random.Random(8)
    lists = [draw.choices(range(len(tokens)), k=draw.randint(3, 10)) for _ in range(1000)]
    stripped = {i for i, token in enumerate(tokens) if decoder and decoder["type"] == "Strip" and len(token) < 2}
    lists = [ids for ids in ([i for i in ids if i not in stripped] for ids in lists) if ids]
    assert decoded(crumb, tmp_path, lists) == [theirs.decode(ids) for ids in lists]


def test_what_is_not_supported_is_refused_by_its_name_and_place(crumb, tmp_path):
    model = {"type": "BPE", "vocab": {"a": 0}, "merges": []}
    cases = [
        ({"decoder": {"type": "CTC"}}, "tokenizer.decoder: the decoder CTC is not supported"),
        ({"decoder": {"type": "Sequence", "decoders": [{"type": "Other"}]}}, "decoder.decoders[0]: the decoder Other is not supported"),
        ({"decoder": {"type": "Strip", "content": "ab", "start": 1, "stop": 0}}, "its content is not one character"),
        ({"normalizer": {"type": "Nmt"}}, "tokenizer.normalizer: the normalizer Nmt is not supported"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAA"}}, "precompiled_charsmap is not in base64"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="}}, "the trie of a table of characters takes"),
        ({"model": {"type": "WordPiece", "vocab": {"a": 0}}}, "unk_token '[UNK]' is not in the vocabulary"),
        ({"pre_tokenizer": {"type": "UnicodeScripts"}}, "the pre-tokenizer UnicodeScripts is not supported"),
        ({"post_processor": {"type": "Other"}}, "the post-processor Other is not supported"),
        ({"model": {"type": "WordLevel", "vocab": {}}}, "the model WordLevel is not supported"),
        ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": r"(a)\1"}, "behavior": "Isolated"}}, "regular expression"),
    ]  # fmt: skip
    for changed, words in cases:
        (tmp_path / "tokenizer.json").write_text(json.dumps({"model": model, **changed}))
        said = crumb("tokenize", tmp_path, "--text", "-", stdin=None, input="a", status=1).stderr
        assert words in said and str(tmp_path) in said, said


def test_a_tokenizer_that_makes_too_much_of_a_text_is_refused(crumb, tmp_path):
    model = {"type": "BPE", "vocab": {"a": 0}, "merges": []}
    double = {"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaa"}
    whole = {"model": model, "normalizer": {"type": "Sequence", "normalizers": [double] * 20},
             "decoder": {"type": "Sequence", "decoders": [double] * 20}}  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(whole))
    said = crumb("tokenize", tmp_path, "--text", "-", stdin=None, input="a", status=1, timeout=30).stderr
    assert "makes more than 67108864 bytes" in said
    assert "makes more than" in crumb("detokenize", tmp_path, "--ids", "0", status=1, timeout=30).stderr
    level = {"type": "ByteLevel", "use_regex": False}
    whole = {"model": model, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [level] * 40}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(whole))
    said = crumb("tokenize", tmp_path, "--text", "-", stdin=None, input="é", status=1, timeout=60).stderr
    assert "makes more than 67108864 bytes" in said


def test_special_tokens_around_a_text(crumb, trained):
    _, folder = trained
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps({"bos_token": "<s>", "add_bos_token": True}))
    try:
        bare = crumb("tokenize", folder, "--text", "-", "--no-special", stdin=None, input="x=1").stdout.split()
        ids = crumb("tokenize", folder, "--text", "-", stdin=None, input="x=1").stdout.split()
        assert ids[1:] == bare
        pieces = crumb("tokenize", folder, "--text", "-", "--pieces", stdin=None, input="x=1").stdout
        assert pieces.startswith("'<s>' ")
    finally:
        config.unlink()


def test_tokenizers_inside_of_models(crumb, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    save_file({"a.weight": np.ones((4, 8), np.float32)}, folder / "model.safetensors")
    theirs = save_tokenizer("gpt2", folder)
    packed = tmp_path / "model.crumb"
    crumb("quantize", folder, "-o", packed, "--weights", "int8")
    said = crumb("tokenize", folder, "--text", "-", stdin=None, input="the fox's 12345").stdout
    assert [int(word) for word in said.split()] == theirs.encode("the fox's 12345").ids
    assert crumb("tokenize", packed, "--text", "-", stdin=None, input="the fox's 12345").stdout == said
    assert crumb("detokenize", packed, "--ids", said).stdout == "the fox's 12345\n"
    assert "tokenizer.json" in crumb("tokenize", folder / "model.safetensors", "--text", "-", status=1).stderr


def test_the_tokenizer_of_a_sentence_encoder(crumb, minilm):
    from tokenizers import Tokenizer

    theirs = Tokenizer.from_file(str(minilm / "tokenizer.json"))
    theirs.no_truncation()
    theirs.no_padding()
    ours = printed(crumb, "tokenize", minilm, "--text", "-", "--lines", text="\n".join(LINES) + "\n")
    expected = [theirs.encode(line) for line in LINES]
    assert [made["ids"] for made in ours] == [made.ids for made in expected]
    lists = [made.ids for made in expected]
    assert decoded(crumb, minilm, lists) == [theirs.decode(ids) for ids in lists]


def test_the_tokenizer_of_a_gguf_file(crumb, smollm2):
    text = "The quick brown fox"
    assert crumb("tokenize", smollm2, "--text", "-", stdin=None, input=text).stdout == "504 2365 6354 16438\n"
    assert crumb("detokenize", smollm2, "--ids", "504 2365 6354 16438").stdout == text + "\n"
    long = "".join(LINES[:300])
    ids = crumb("tokenize", smollm2, "--text", "-", stdin=None, input=long).stdout
    assert crumb("detokenize", smollm2, "--file", "-", "--special", stdin=None, input=ids).stdout == long + "\n"
