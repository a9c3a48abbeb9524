"""Packed files whose checksums hold and whose values `crumb verify` refuses: verbs that use values end with 1 and leave no
output, `crumb inspect` says what is wrong and ends with 0. And sound files that one verb cannot write."""

import json
import os
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from sample_checkpoints import normal, write_safetensors

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "formats" / "crumb_file"))
from crumb_builder import Part, layout, tensor  # noqa: E402

NAN, LEAST, LARGEST = struct.pack("<f", float("nan")), struct.pack("<f", -1e-45), struct.pack("<f", -3.4028235e38)
FAULTS = {  # part, byte, what is put there, what the message says
    "a scale of NaN": ("scales", 0, NAN, "scale 0 is nan"),
    "a scale below zero": ("scales", 4, LEAST, "scale 1 is -1e-45"),
    "a large scale below zero": ("scales", 4, LARGEST, "scale 1 is -3.4028235e+38"),
    "a scale of -0": ("scales", 4, b"\0\0\0\x80", "scale 1 is -0"),
    "an infinite scale": ("scales", 0, struct.pack("<f", float("inf")), "scale 0 is inf"),
    "a forbidden code": ("codes", 3, b"\x80", "code -8 at row 0, column 7"),
    "bits behind a row": ("codes", 8, b"\x10", "padding bits of row 0"),
}


def damaged(good, entry_name, part, at, content):
    """A packed file with some bytes of a part changed, all checksums mended."""
    (length,) = struct.unpack("<Q", good[16:24])
    text = good[64 : 64 + length].decode()
    blob = next(entry for entry in json.loads(text)["tensors"] if entry["name"] == entry_name)[part]
    assert blob["codec"] == "none"
    begin, end = blob["offset"], blob["offset"] + blob["stored"]
    content = good[: begin + at] + content + good[begin + at + len(content) :]
    header = text.replace(blob["crc32"], f"{zlib.crc32(content[begin:end]):08x}").encode()
    start = content[:32] + struct.pack("<I", zlib.crc32(header))
    return start + struct.pack("<I", zlib.crc32(start)) + content[40:64] + header + content[64 + length :]


@pytest.fixture
def good(crumb, tmp_path):
    source = write_safetensors(tmp_path / "in.safetensors", {"w": normal(5, 17), "last": normal(40, 50)})
    crumb("quantize", source, "-o", tmp_path / "good.crumb", "--weights", "int4")
    source.unlink()
    return tmp_path / "good.crumb"


def refused(crumb, tmp_path, said, *command):
    """The verb ends with 1, one line says what is wrong, and nothing new lies in the folder."""
    before = sorted(tmp_path.rglob("*"))
    done = crumb(*command, status=1, cwd=tmp_path)
    assert said in done.stderr and done.stderr.count("\n") == 1 and done.stdout == "", done
    assert sorted(tmp_path.rglob("*")) == before, command


@pytest.mark.parametrize("fault", FAULTS)
def test_no_verb_gives_values_of_an_unsound_file(crumb, good, tmp_path, fault):
    part, at, content, said = FAULTS[fault]
    bad = tmp_path / "bad.crumb"
    bad.write_bytes(damaged(good.read_bytes(), "w", part, at, content))
    for command in (["verify", bad], ["dequantize", bad, "-o", "out.safetensors"], ["dequantize", bad, "-o", "out", "--shard", "8KB"],
                    ["compare", good, bad], ["compare", bad, good, "--json"], ["compare", bad, bad]):  # fmt: skip
        refused(crumb, tmp_path, said, *command)


def test_inspect_says_what_is_wrong(crumb, good, tmp_path):
    bad = tmp_path / "bad.crumb"
    for part, at, content, said in FAULTS.values():
        bad.write_bytes(damaged(good.read_bytes(), "w", part, at, content))
        done = crumb("inspect", bad, "--tensors")
        line = next(line for line in done.stdout.split("\n") if line.startswith("not sound: "))
        assert said in line and "'w'" in line and "int4:channel" in done.stdout
        shown = json.loads(crumb("inspect", bad, "--json").stdout)
        assert shown["sound"] is False and said in shown["fault"] and len(shown["tensors"]) == 2
    assert "not sound" not in crumb("inspect", good).stdout
    shown = json.loads(crumb("inspect", good, "--json").stdout)
    assert shown["sound"] is True and "fault" not in shown


def test_embed_refuses_an_unsound_model(crumb, minilm, tmp_path):
    crumb("quantize", minilm, "-o", tmp_path / "good.crumb", "--weights", "int8")
    (tmp_path / "text").write_text("a line\n")
    crumb("embed", tmp_path / "good.crumb", "--text", tmp_path / "text", "-o", tmp_path / "out.npy")
    (tmp_path / "out.npy").unlink()
    name = "encoder.layer.5.output.dense.weight"
    content = (tmp_path / "good.crumb").read_bytes()
    (tmp_path / "good.crumb").unlink()
    for part, at, change, said in (("scales", 0, NAN, "scale 0 is nan"), ("codes", 5, b"\x80", "code -128 at row 0, column 5")):
        (tmp_path / "bad.crumb").write_bytes(damaged(content, name, part, at, change))
        refused(crumb, tmp_path, said, "embed", "bad.crumb", "--text", "text", "-o", "out.npy")
        for model, baseline in (("bad.crumb", minilm), (minilm, "bad.crumb")):
            refused(crumb, tmp_path, said, "eval", model, "--baseline", baseline, "--data", "text")


def test_eval_refuses_an_unsound_graph(crumb, tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto as T
    from onnx import helper as h

    x, y = (h.make_tensor_value_info(name, T.FLOAT, ["N", size]) for name, size in (("x", 32), ("y", 8)))
    graph = h.make_graph([h.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [onnx.numpy_helper.from_array(normal(32, 8), "w")])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8), tmp_path / "net.onnx")
    crumb("quantize", tmp_path / "net.onnx", "-o", tmp_path / "good.crumb", "--weights", "int4")
    np.save(tmp_path / "x.npy", normal(3, 32))
    crumb("eval", tmp_path / "good.crumb", "--baseline", tmp_path / "net.onnx", "--data", tmp_path / "x.npy")
    for part, at, change, said in (("scales", 0, NAN, "scale 0 is nan"), ("codes", 3, b"\x80", "code -8")):
        (tmp_path / "bad.crumb").write_bytes(damaged((tmp_path / "good.crumb").read_bytes(), "w", part, at, change))
        for model, baseline in (("bad.crumb", "net.onnx"), ("net.onnx", "bad.crumb")):
            refused(crumb, tmp_path, said, "eval", model, "--baseline", baseline, "--data", "x.npy")


@pytest.mark.parametrize("command", [["cost"], ["lint", "--for", "qonnx"], ["verify"], ["verify", "--accumulator"], ["passes", "-o", "o.onnx", "tidy"],
                                     ["passes", "-o", "o.crumb", "tidy"], ["dequantize", "-o", "o.safetensors"]], ids=" ".join)  # fmt: skip
def test_graphs_of_unsound_files_are_refused(crumb, tmp_path, command):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto as T
    from onnx import helper as h

    graph = h.make_graph([h.make_node("Relu", ["w"], ["y"])], "g", [h.make_tensor_value_info("w", T.FLOAT, [3, 16])],
                         [h.make_tensor_value_info("y", T.FLOAT, [3, 16])])  # fmt: skip
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 21)], ir_version=10)
    onnx.helper.set_model_props(model, {"crumb.inputs": "0"})
    header = {"format": "crumb", "model": "graph", "tensors": [tensor("w", (3, 16), "int4", block=(1, 16))],
              "files": [{"path": "graph.onnx", "data": Part(model.SerializeToString())}]}  # fmt: skip
    path = tmp_path / "net.crumb"
    path.write_bytes(damaged(layout(header), "w", "scales", 4, NAN))
    refused(crumb, tmp_path, "scale 1 is nan", command[0], path, *command[1:])
    shown = crumb("inspect", path).stdout
    assert "not sound: tensor 'w': scales: scale 1 is nan" in shown and "holds graph.onnx" in shown


# --- Sound files that a verb cannot write -----------------------------------------------------------------------------


def kept(name):
    return {"name": name, "dtype": "F32", "shape": [1], "data": Part(bytes(4))}


def packed(tmp_path, tensors, files=()):
    path = tmp_path / "m.crumb"
    entries = [{"path": name, "data": Part(b"x")} for name in files]
    path.write_bytes(layout({"format": "crumb", "model": "", "tensors": tensors, "files": entries}))
    return path


def test_a_tensor_that_safetensors_has_no_name_for(crumb, tmp_path):
    path = packed(tmp_path, [kept("a"), kept("__metadata__")], ["config.json"])
    crumb("verify", path)
    for flags in ([], ["--shard", "1KB"], ["--shard", "1B"]):
        refused(crumb, tmp_path, "tensor '__metadata__' cannot be written: safetensors keeps that name", "dequantize", path, "-o", "out", *flags)


@pytest.mark.parametrize("name", ["model.safetensors", "model.safetensors/x", "x.safetensors.index.json/y", "a.partial"])
def test_a_file_where_the_tensors_will_stand(crumb, tmp_path, name):
    path = packed(tmp_path, [kept("a"), kept("b")], ["config.json", name])
    crumb("verify", path)
    refused(crumb, tmp_path, "would mix with the tensor files", "dequantize", path, "-o", "out", "--shard", "1KB")


@pytest.mark.parametrize("name", ["x" * 300, "a/" + "x" * 300, "/".join(["b" * 200] * 30)])
def test_a_file_that_the_system_cannot_hold_leaves_nothing(crumb, tmp_path, name):
    path = packed(tmp_path, [kept("a"), kept("b")], ["0/1/config.json", "config.json", name, "z/1"])
    crumb("verify", path)
    refused(crumb, tmp_path, "File name too long", "dequantize", path, "-o", "out", "--shard", "4B")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "config.json").write_bytes(b"x")  # of an earlier run
    refused(crumb, tmp_path, "File name too long", "dequantize", path, "-o", "out", "--shard", "4B")


def test_messages_count_one_thing_as_one(crumb, tmp_path):
    path = packed(tmp_path, [kept("a")], ["config.json"])
    assert crumb("verify", path).stdout.endswith("1 tensor, 1 file\n")
    assert ", 1 tensor\n" in crumb("inspect", path).stdout
    assert crumb("dequantize", path, "-o", tmp_path / "o.safetensors").stdout.endswith(": 1 tensor\n")
    assert crumb("dequantize", path, "-o", tmp_path / "o", "--shard", "1KB").stdout.endswith(": 1 tensor in 1 file\n")


def test_expected_inputs_name_packed_files_where_they_are_taken(crumb, tmp_path):
    (tmp_path / "x.txt").write_text("words")
    os.mkdir(tmp_path / "folder")
    for wrong in ("x.txt", "folder", "none"):
        for command in (["inspect", wrong], ["compare", wrong, wrong], ["embed", wrong, "--text", "x.txt", "-o", "y"]):
            said = crumb(*command, status=1, cwd=tmp_path).stderr
            assert "expected a Hugging Face folder" in said and "or a packed file (.crumb)" in said, said
        said = crumb("quantize", wrong, "-o", "y", "--weights", "int4", status=1, cwd=tmp_path).stderr
        assert "expected a Hugging Face folder" in said and "packed file" not in said, said
    np.testing.assert_equal(sorted(path.name for path in tmp_path.iterdir()), ["folder", "x.txt"])
