"""A packed model answers as the same model dequantized to float: the same integers in the file and in the runtime."""

import json
import shutil

import numpy as np
import pytest

SPECS = [
    "int8:channel",
    "int4:group=128",
    "int4:group=32",
    "int3:group=64",
    "int2h:group=32:search=mse",
    "uint4:group=64:zero=int",
    "mxfp4",
    "mxint8",
    "nvfp4",
    "e3m2:channel",
    "nf4:group=64",
    "palette3:tensor",
    "ternary:channel",
    "binary:group=32:scale=e8m0",
]


def embed(crumb, model, text, folder):
    crumb("embed", model, "--text", text, "-o", folder / "y.npy")
    return np.load(folder / "y.npy")


@pytest.mark.parametrize("spec", SPECS)
def test_packed_embeddings_equal_those_of_the_dequantized_model(crumb, minilm, repo, tmp_path, spec):
    packed, floats = tmp_path / "packed.crumb", tmp_path / "floats"
    crumb("quantize", minilm, "-o", packed, "--weights", spec, "--embeddings", "int4:group=32")
    shutil.copytree(minilm, floats, ignore=shutil.ignore_patterns("*.safetensors", "*.bin"))
    crumb("dequantize", packed, "-o", floats / "model.safetensors")
    text = tmp_path / "text"
    text.write_bytes(b"\n".join((repo / "examples" / "sentences.txt").read_bytes().splitlines()[::8]))
    difference = np.abs(embed(crumb, packed, text, tmp_path) - embed(crumb, floats, text, tmp_path)).max()
    assert difference <= 1e-4


def test_the_packed_file_is_all_that_is_needed(crumb, minilm, tmp_path):
    """Configuration and tokenizer are inside: the file runs alone in an empty folder."""
    packed = tmp_path / "alone" / "model.crumb"
    packed.parent.mkdir()
    crumb("quantize", minilm, "-o", packed, "--scheme", "W8A16", "--zstd", "1")
    text = tmp_path / "text"
    text.write_text("one sentence\nanother one\n")
    vectors = tmp_path / "y.npy"
    crumb("embed", packed.name, "--text", text, "-o", vectors, cwd=packed.parent)
    crumb("embed", minilm, "--text", text, "-o", tmp_path / "float.npy")
    agreement = json.loads(crumb("agree", tmp_path / "float.npy", vectors, "--json").stdout)
    assert agreement["least_cosine"] > 0.99
