"""Tokenizers of GGUF files against llama.cpp's own: the vocabularies that it is tested by, with texts and their ids."""

import json
import os
import struct
from pathlib import Path

import pytest

CACHE = os.environ.get("CRUMB_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crumb"
FOLDER = Path(CACHE) / "llama_models"
FILES = sorted(path for path in FOLDER.glob("ggml-vocab-*.gguf") if path.with_name(path.name + ".inp").is_file())
# Of what Crumb reads; the others are architectures or splittings into words that it refuses.
READ = {"llama-bpe", "llama-spm", "phi-3", "qwen2"}
LARGE = {"llama-bpe", "qwen2"}
STRING, ARRAY = 8, 9
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def end_of_metadata(data):
    """Where the metadata of a GGUF file end, and how many tokens they list."""
    at, tokens = 24, 0

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
        name_at = at
        skip(STRING)
        name = bytes(data[name_at + 8 : at])
        kind = struct.unpack_from("<I", data, at)[0]
        at += 4
        count = skip(kind)
        if name == b"tokenizer.ggml.tokens":
            tokens = count
    return at, tokens


def with_a_tensor(source, path):
    """The vocabulary with a tensor, without which a file is no checkpoint."""
    data = bytearray(source.read_bytes())
    end, tokens = end_of_metadata(data)
    data[8:16] = struct.pack("<Q", 1)
    name = b"token_embd.weight"
    info = struct.pack("<Q", len(name)) + name + struct.pack("<IQQIQ", 2, 1, tokens, 0, 0)
    head = bytes(data[:end]) + info
    path.write_bytes(head + bytes(-len(head) % 32) + bytes(4 * tokens))
    return path


def name_of(source):
    return source.stem.removeprefix("ggml-vocab-")


CASES = [pytest.param(path, marks=[pytest.mark.slow] if name_of(path) in LARGE else [], id=name_of(path)) for path in FILES]


@pytest.mark.skipif(not FILES, reason="llama.cpp's vocabularies are not there: scripts/setup tests")
@pytest.mark.parametrize("source", CASES or [None])
def test_ids_are_llama_cpp_s(crumb, source, tmp_path):
    name = name_of(source)
    path = with_a_tensor(source, tmp_path / "model.gguf")
    texts = source.with_name(source.name + ".inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    expected = source.with_name(source.name + ".out").read_text().split("\n")
    if name not in READ:
        said = crumb("tokenize", path, "--text", "-", stdin=None, input="a", status=None)
        assert said.returncode == 1 and "tokenizer" in said.stderr, said
        pytest.skip(f"{name} is an architecture or a splitting into words that is not read")
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
        assert ids[i] == [int(word) for word in expected[i].split()], text
