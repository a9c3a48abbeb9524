"""Tokenizers of GGUF files against llama.cpp's own: the vocabularies that it is tested by, with texts and their ids.

Some have no texts there. They take those of another one, and their ids as llama.cpp's llama-tokenize gives them are fixtures,
which test_llama_cpp_tokenizers.py makes again."""

import json
import os
import struct
from pathlib import Path

import pytest

CACHE = os.environ.get("CRUMB_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crumb"
FOLDER = Path(CACHE) / "llama_models"
OWN_IDS = Path(__file__).resolve().parents[2] / "fixtures" / "ggml_vocabularies"
FILES = sorted(FOLDER.glob("ggml-vocab-*.gguf"))
# Kinds of tokenizers that Crumb does not read.
REFUSED = {
    "bert-bge": "its kind, 'bert' (metadata 'tokenizer.ggml.model'), is not read: it is WordPiece",
    "nomic-bert-moe": "its kind, 't5' (metadata 'tokenizer.ggml.model'), is not read: it is a Unigram vocabulary",
}
LARGE = {"command-r", "deepseek-llm", "falcon", "gemma-4", "llama-bpe", "qwen2", "qwen35"}
STRING, ARRAY = 8, 9
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def entries_of_tokenizer(data):
    """The entries "tokenizer.*" of a GGUF file's metadata, as they stand there, and how many tokens they list."""
    at, tokens, found = 24, 0, []

    def skip(kind):
        nonlocal at
        if kind == STRING:
            at += 8 + struct.unpack_from("<Q", data, at)[0]
        elif kind == ARRAY:
            inner, count = struct.unpack_from("<IQ", data, at)
            at += 12
            if inner in SIZES:
                at += SIZES[inner] * count
            else:
                for _ in range(count):
                    skip(inner)
            return count
        else:
            at += SIZES[kind]
        return 0

    for _ in range(struct.unpack_from("<Q", data, 16)[0]):
        begin = at
        skip(STRING)
        name = bytes(data[begin + 8 : at])
        kind = struct.unpack_from("<I", data, at)[0]
        at += 4
        count = skip(kind)
        if name.startswith(b"tokenizer."):
            found.append(bytes(data[begin:at]))
        if name == b"tokenizer.ggml.tokens":
            tokens = count
    return found, tokens


def as_a_llama(source, path):
    """The vocabulary in a file of an architecture that Crumb reads, with a tensor, without which it is no checkpoint."""
    entries, tokens = entries_of_tokenizer(source.read_bytes())
    text = lambda words: struct.pack("<Q", len(words)) + words  # noqa: E731
    sizes = {b"context_length": 8, b"embedding_length": 4, b"block_count": 1, b"feed_forward_length": 4,
             b"attention.head_count": 2}  # fmt: skip
    head = [text(b"general.architecture") + struct.pack("<I", STRING) + text(b"llama")]
    head += [text(b"llama." + key) + struct.pack("<II", 4, value) for key, value in sizes.items()]
    head.append(text(b"llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5))
    data = b"GGUF" + struct.pack("<IQQ", 3, 1, len(head) + len(entries)) + b"".join(head + entries)
    data += text(b"token_embd.weight") + struct.pack("<IQQIQ", 2, 1, tokens, 0, 0)
    path.write_bytes(data + bytes(-len(data) % 32) + bytes(4 * tokens))
    return path


def name_of(source):
    return source.stem.removeprefix("ggml-vocab-")


def texts_of(source):
    path = source.with_name(source.name + ".inp")
    path = path if path.is_file() else FOLDER / "ggml-vocab-gpt-2.gguf.inp"
    return path.read_bytes().decode().split("\n__ggml_vocab_test__\n")


def ids_of(source):
    """The ids of each text, as llama.cpp has them."""
    path = source.with_name(source.name + ".out")
    path = path if path.is_file() else OWN_IDS / f"{name_of(source)}.out"
    return [[int(word) for word in line.split()] for line in path.read_text().split("\n")][: len(texts_of(source))]


CASES = [pytest.param(path, marks=[pytest.mark.slow] if name_of(path) in LARGE else [], id=name_of(path)) for path in FILES]


@pytest.mark.skipif(not FILES, reason="llama.cpp's vocabularies are not there: scripts/setup tests")
@pytest.mark.parametrize("source", CASES or [None])
def test_ids_are_llama_cpp_s(crumb, source, tmp_path):
    name = name_of(source)
    path = as_a_llama(source, tmp_path / "model.gguf")
    if name in REFUSED:
        said = crumb("dequantize", path, "-o", tmp_path / "model").stderr
        assert REFUSED[name] in said and not (tmp_path / "model" / "tokenizer.json").exists(), said
        return
    texts, expected = texts_of(source), ids_of(source)
    assert len(texts) == len(expected) > 40
    # One folder is read faster than the file again and again.
    crumb("dequantize", path, "-o", tmp_path / "model")
    flags = ["--no-special", "--text", "-", "--json"]
    lines = [i for i, text in enumerate(texts) if "\n" not in text and "\r" not in text]
    joined = "".join(texts[i] + "\n" for i in lines)
    made = json.loads(crumb("tokenize", tmp_path / "model", "--lines", *flags, stdin=None, input=joined).stdout)["texts"]
    ids = dict(zip(lines, (entry["ids"] for entry in made), strict=True))
    for i, text in enumerate(texts):
        if i not in ids:
            whole = crumb("tokenize", tmp_path / "model", *flags, stdin=None, input=text).stdout
            ids[i] = json.loads(whole)["texts"][0]["ids"]
        assert ids[i] == expected[i], text
