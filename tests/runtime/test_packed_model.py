"""A packed model answers as the same model dequantized to float: the same integers in the file and in the runtime."""

import json
import os
import shutil

import numpy as np
import pytest
from onnx import helper, numpy_helper, save

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


@pytest.fixture(scope="module")
def sentences(repo, tmp_path_factory):
    text = tmp_path_factory.mktemp("text") / "sentences.txt"
    text.write_bytes(b"\n".join((repo / "examples" / "sentences.txt").read_bytes().splitlines()[::5]))
    return text


@pytest.mark.parametrize("spec", ["int4:group=128", "int8:channel", "mxfp4", "uint4:group=64:zero=int", "int2h:group=32"])
def test_fast_embeddings_are_near_and_the_same_everywhere(crumb, minilm, sentences, tmp_path, spec):
    """Layouts, threads and instruction sets change no bit of what --fast gives, and it is another result than exact's."""
    made = {}
    for layout in ("rows", "tiles"):
        packed = tmp_path / f"{layout}.crumb"
        crumb("quantize", minilm, "-o", packed, "--weights", spec, "--layout", layout)
        for name, flags, env in (("exact", [], {}), ("fast", ["--fast"], {}), ("one", ["--fast", "--threads", "1"], {}),
                                 ("avx2", ["--fast"], {"CRUMB_ISA": "avx2"})):  # fmt: skip
            crumb("embed", packed, "--text", sentences, "-o", tmp_path / f"{layout} {name}.npy", *flags, env=os.environ | env)
            made[layout, name] = np.load(tmp_path / f"{layout} {name}.npy")
    for (layout, name), vectors in made.items():
        assert np.array_equal(vectors, made["rows", "exact" if name == "exact" else "fast"]), (layout, name)
    cosines = (made["rows", "exact"] * made["rows", "fast"]).sum(1)
    assert 0.97 < cosines.min() and cosines.max() < 1 - 1e-7


def test_fast_is_refused_where_others_compute(crumb, minilm, sentences, tmp_path):
    packed = tmp_path / "m.crumb"
    crumb("quantize", minilm, "-o", packed, "--scheme", "W8A16")
    for flags in (["--engine", "libtorch"], ["--all-tensors"]):
        done = crumb("run", packed, "--fast", *flags, "--output-dir", tmp_path / "out", status=2)
        assert "--fast" in done.stderr


def test_a_layout_is_for_packed_files(crumb, tmp_path):
    """Of a graph, too: the same values in either layout; an ONNX file has none."""
    onnx = tmp_path / "net.onnx"
    weight = numpy_helper.from_array(np.random.default_rng(0).standard_normal((40, 70)).astype("f"), "w")
    net = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "net",
                            [helper.make_tensor_value_info("x", 1, ["n", 40])],
                            [helper.make_tensor_value_info("y", 1, ["n", 70])], [weight])  # fmt: skip
    save(helper.make_model(net, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), onnx)
    outputs = {}
    for layout in ("rows", "tiles"):
        packed = tmp_path / f"{layout}.crumb"
        done = crumb("quantize", onnx, "-o", packed, "--weights", "int4:channel", "--layout", layout, status=None)
        assert done.returncode == 0, done.stderr
        crumb("verify", packed)
        crumb("dequantize", packed, "-o", tmp_path / f"{layout}.safetensors")
        outputs[layout] = (tmp_path / f"{layout}.safetensors").read_bytes()
    assert outputs["rows"] == outputs["tiles"]
    done = crumb("quantize", onnx, "-o", tmp_path / "x.onnx", "--weights", "int4:channel", "--layout", "tiles", status=2)
    assert "layout" in done.stderr
    done = crumb("quantize", onnx, "-o", tmp_path / "x.crumb", "--weights", "int4:channel", "--layout", "columns", status=2)
    assert "rows or tiles" in done.stderr
