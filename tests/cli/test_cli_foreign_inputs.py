"""Inputs that are not what a verb takes are called by their names, with what to do: texts in other encodings, files of other tools,
adapters in a model's place, archives of arrays as samples."""

import json
import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

TOKENIZER = {"model": {"type": "BPE", "vocab": {"a": 0, "\u00e9": 1}, "merges": []}}
LETTERS = {"ISO-8859-1": "éèàüßñ", "WINDOWS-1252": "éè“”…–ß"}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    return folder


def test_encodings_of_drawn_texts_are_named_and_counted(crumb, tokenizer, tmp_path):
    draw = random.Random(5)
    for _ in range(60):
        name = draw.choice(list(LETTERS))
        text = "".join(draw.choice("abc xyz\n,.") for _ in range(draw.randint(1, 200)))
        letters = [draw.choice(LETTERS[name]) for _ in range(draw.randint(1, 9))]
        if name == "WINDOWS-1252":
            letters.append(draw.choice("“”…–"))
        for letter in letters:  # each between letters of ASCII
            at = draw.randint(0, len(text))
            text = text[:at] + "a" + letter + "b" + text[at:]
        encoded = text.encode(name)
        (tmp_path / "t.txt").write_bytes(encoded)
        said = crumb("tokenize", tokenizer, "--text", tmp_path / "t.txt").stderr
        wrong = len(encoded.decode("utf-8", "replace")) - len(encoded.decode("utf-8", "ignore"))
        assert f"holds {wrong} byte" in said and f"iconv -f {name} -t UTF-8" in said and "U+FFFD" in said, (name, said)
    (tmp_path / "t.txt").write_text(text)  # the same in UTF-8
    assert crumb("tokenize", tokenizer, "--text", tmp_path / "t.txt").stderr == ""
    (tmp_path / "t.txt").write_bytes(bytes(range(256)) * 4)
    assert "looks like no text" in crumb("tokenize", tokenizer, "--text", tmp_path / "t.txt").stderr


@pytest.mark.parametrize("encoding, name", [("utf-16", "UTF-16"), ("utf-16-le", "UTF-16LE"), ("utf-16-be", "UTF-16BE"), ("utf-32", "UTF-32")])
def test_texts_of_wide_characters_are_refused(crumb, tokenizer, tmp_path, encoding, name):
    (tmp_path / "t.txt").write_bytes("Some words, and a line.\n".encode(encoding))
    said = crumb("tokenize", tokenizer, "--text", tmp_path / "t.txt", status=1).stderr
    assert f"looks like {name}" in said and f"iconv -f {name} -t UTF-8" in said
    assert "standard input" in crumb("tokenize", tokenizer, "--text", "-", stdin=None, input="a b".encode(encoding), text=False,
                                     status=1).stderr.decode()  # fmt: skip


@pytest.mark.parametrize("file, content, words", [
    ("m.tflite", b"\x1c\0\0\0TFL3" + bytes(64), "TensorFlow Lite model (.tflite)"),
    ("m.bin", b"\x1c\0\0\0TFL3" + bytes(64), "TensorFlow Lite model (.tflite)"),
    ("m.h5", b"\x89HDF\r\n\x1a\n" + bytes(64), "Keras model in HDF5"),
    ("m.hdf", b"\x89HDF\r\n\x1a\n" + bytes(64), "HDF5 file"),
    ("m.keras", b"PK\x03\x04" + bytes(64), "Keras model (.keras)"),
    ("m.pb", b"\x0a\x13\x0a\x01x\x12\x0bPlaceholder" + bytes(9), "TensorFlow graph (.pb)"),
    ("m.mlmodel", b"\x08\x01\x12" + bytes(64), "Core ML model (.mlmodel)"),
    ("m.pdmodel", bytes(64), "Paddle model (.pdmodel)"),
    ("m.caffemodel", bytes(64), "Caffe model"),
    ("m.engine", bytes(64), "TensorRT engine"),
    ("m.msgpack", bytes(64), "Flax model"),
])  # fmt: skip
def test_models_of_other_tools_are_refused_by_name(crumb, tmp_path, file, content, words):
    (tmp_path / file).write_bytes(content)
    for verb in (["inspect"], ["quantize", "-o", tmp_path / "x.crumb", "--weights", "int8"]):
        said = crumb(verb[0], tmp_path / file, *verb[1:], status=1).stderr
        assert words in said and file in said and "not supported" in said, said


def test_an_onnx_model_that_is_called_pb_is_still_one(crumb, tmp_path):
    save_network(tmp_path / "m.pb")
    assert "onnx" in crumb("inspect", tmp_path / "m.pb").stdout


def test_an_adapter_in_a_models_place(crumb, tmp_path):
    folder = tmp_path / "lora"
    folder.mkdir()
    save_file({"base_model.model.q_proj.lora_A.weight": np.ones((2, 4), np.float32)}, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": "org/base"}))
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    for verb in (["inspect"], ["generate", "--prompt", "a"], ["quantize", "-o", tmp_path / "x.crumb", "--weights", "int8"],
                 ["export", "-o", tmp_path / "x.onnx", "--to", "float"], ["perplexity", "--text", folder / "tokenizer.json"]):  # fmt: skip
        said = crumb(verb[0], folder, *verb[1:], status=1).stderr
        assert all(word in said for word in ("low-rank adapter", "'org/base'", "--adapter", "crumb merge")), (verb, said)
    (folder / "config.json").write_text("{}")  # a model with an adapter beside it stays a model
    (folder / "adapter_model.safetensors").rename(folder / "model.safetensors")
    crumb("inspect", folder)


def test_a_gguf_file_of_an_unknown_architecture(crumb, tmp_path):
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(str(tmp_path / "m.gguf"), "newest9")
    writer.add_block_count(1)
    writer.add_tensor("token_embd.weight", np.ones((8, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (tmp_path / "t.txt").write_text("words")
    for verb in (["generate", "--prompt", "a"], ["perplexity", "--text", tmp_path / "t.txt"],
                 ["export", "-o", tmp_path / "x.onnx", "--to", "float"]):  # fmt: skip
        assert "the architecture is 'newest9', which Crumb does not know" in crumb(verb[0], tmp_path / "m.gguf", *verb[1:], status=1).stderr


def save_network(path):
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])], [weight])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def test_samples(crumb, engine, tmp_path):
    network = save_network(tmp_path / "m.onnx")
    samples = np.random.default_rng(6).normal(size=(16, 4))
    flags = ["--weights", "int8", "--activations", "int8:tensor"]
    np.save(tmp_path / "x.npy", samples.astype(np.float32))
    np.save(tmp_path / "x64.npy", samples.astype(np.float32).astype(np.float64))
    np.savez(tmp_path / "x.npz", x=samples)
    (tmp_path / "x.json").write_text(json.dumps(samples.tolist()))
    (tmp_path / "model.txt").write_bytes((64).to_bytes(8, "little") + b'{"__metadata__":{}}' + b" " * 60)
    for name in ("x", "x64"):
        crumb("quantize", network, "-o", tmp_path / f"{name}.onnx", *flags, "--data", tmp_path / f"{name}.npy")
    assert (tmp_path / "x.onnx").read_bytes() == (tmp_path / "x64.onnx").read_bytes()
    for wish, words in [("x.npz", "archive of arrays"), ("x.json", "JSON file"), ("model.txt", "safetensors")]:
        for given in (tmp_path / wish, f"x={tmp_path / wish}"):
            said = crumb("quantize", network, "-o", tmp_path / "y.onnx", *flags, "--data", given, status=2).stderr
            assert words in said and wish in said and ".npy" in said, said


def test_a_larger_file_is_called_larger(crumb, tmp_path):
    save_file({"w.weight": np.arange(4, dtype=np.float32).reshape(2, 2)}, tmp_path / "m.safetensors")
    said = crumb("quantize", tmp_path / "m.safetensors", "-o", tmp_path / "m.crumb", "--weights", "int8").stdout
    assert "times larger)" in said and "smaller" not in said
    save_file({"w.weight": np.ones((256, 256), np.float32)}, tmp_path / "m.safetensors")
    assert "times smaller)" in crumb("quantize", tmp_path / "m.safetensors", "-o", tmp_path / "m.crumb", "--weights", "int8").stdout
