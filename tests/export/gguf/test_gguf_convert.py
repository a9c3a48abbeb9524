"""`crumb convert` between GGUF and packed files: codes and scales stay as they are."""

import json

import numpy as np
import pytest

transformers = pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")
safetensors_numpy = pytest.importorskip("safetensors.numpy")
from gguf_checkpoints import make_folder  # noqa: E402
from newer_types import dequantize  # noqa: E402

SIZES = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1, "head_dim": 64}
KINDS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ2_0", "MXFP4", "NVFP4", "Q1_0", "Q2_0")


def interleave(rows, size):
    return rows.reshape(-1, 2, size // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


@pytest.fixture(scope="module")
def float_file(crumb, tmp_path_factory):
    folder = tmp_path_factory.mktemp("float")
    make_folder(folder / "model", "llama", **SIZES)
    crumb("export", folder / "model", "-o", folder / "m.gguf", "--to", "gguf")
    return folder / "m.gguf"


def random_blocks(kind, shape, seed):
    """Bytes of any codes, with scales of both signs that are finite numbers."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    generator = np.random.default_rng(seed)
    blocks = generator.integers(0, 256, (shape[0], shape[1] // elements, size), dtype=np.uint8)
    scales = generator.normal(0, 0.01, (*blocks.shape[:2], 2)).astype(np.float16)
    if kind.name == "MXFP4":
        blocks[..., 0] = generator.integers(100, 140, blocks.shape[:2])
    elif kind.name == "NVFP4":
        blocks[..., :4] = generator.integers(0, 0x7F, (*blocks.shape[:2], 4))
    elif kind.name == "TQ2_0":
        codes = generator.integers(0, 3, (*blocks.shape[:2], 64, 4), dtype=np.uint8)
        blocks[..., :64] = (codes << np.array([0, 2, 4, 6], np.uint8)).sum(-1, dtype=np.uint8)
        blocks[..., 64:] = scales[..., :1].copy().view(np.uint8)
    else:
        both = 2 if kind.name.endswith(("_1", "_K")) else 1
        blocks[..., : 2 * both] = scales[..., :both].copy().view(np.uint8)
    return blocks.reshape(shape[0], -1)


def rewrite(source, path, kind, seed=3, scale=None):
    """The file with its matrices as random blocks of a type; gives them by name."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, "llama")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value_type = field.types[0]
        sub_type = field.types[-1] if value_type == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), value_type, sub_type=sub_type)
    blocks = {}
    for place, tensor in enumerate(reader.tensors):
        if tensor.name.startswith("blk.") and len(tensor.shape) == 2:
            shape = tuple(int(size) for size in reversed(tensor.shape))
            blocks[tensor.name] = random_blocks(kind, shape, seed + place)
            writer.add_tensor(tensor.name, blocks[tensor.name], raw_dtype=kind)
            if scale is not None:
                writer.add_tensor(tensor.name.replace(".weight", ".scale"), np.array([scale], np.float32))
        else:
            writer.add_tensor(tensor.name, tensor.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return blocks


def data_of(path):
    return {tensor.name: (tensor.tensor_type.name, np.array(tensor.data)) for tensor in gguf.GGUFReader(path).tensors}


@pytest.mark.parametrize("name", KINDS)
def test_codes_and_scales_go_there_and_back(crumb, float_file, tmp_path, name):
    kind = gguf.GGMLQuantizationType[name]
    blocks = rewrite(float_file, tmp_path / "a.gguf", kind)
    crumb("convert", tmp_path / "a.gguf", tmp_path / "b.crumb")
    crumb("verify", tmp_path / "b.crumb")
    crumb("dequantize", tmp_path / "b.crumb", "-o", tmp_path / "b.safetensors")
    floats = safetensors_numpy.load_file(tmp_path / "b.safetensors")
    for tensor, own, size in [
        ("blk.0.attn_q.weight", "self_attn.q_proj", 64),
        ("blk.0.attn_k.weight", "self_attn.k_proj", 64),
        ("blk.0.ffn_down.weight", "mlp.down_proj", 0),
    ]:
        want = dequantize(blocks[tensor], kind)
        got = floats[f"model.layers.0.{own}.weight"]
        assert np.array_equal(interleave(got, size) if size else got, want), tensor
    crumb("convert", tmp_path / "b.crumb", tmp_path / "c.gguf")
    before, after = data_of(tmp_path / "a.gguf"), data_of(tmp_path / "c.gguf")
    assert set(before) == set(after)
    for tensor, (type_name, data) in before.items():
        assert after[tensor][0] == type_name
        assert np.array_equal(after[tensor][1], data), tensor
    fields = {key: field.contents() for key, field in gguf.GGUFReader(tmp_path / "a.gguf").fields.items()}
    again = {key: field.contents() for key, field in gguf.GGUFReader(tmp_path / "c.gguf").fields.items()}
    for key in fields:
        if not key.startswith("GGUF.") and key not in ("general.file_type", "general.quantization_version"):
            assert again[key] == fields[key], key


def test_a_forks_blocks_of_two_bits_are_refused(crumb, float_file, tmp_path, monkeypatch):
    """A fork writes blocks of 128, 34 bytes, under the number of Q2_0."""
    kind = gguf.GGMLQuantizationType["Q2_0"]
    monkeypatch.setitem(gguf.GGML_QUANT_SIZES, kind, (128, 34))
    rewrite(float_file, tmp_path / "a.gguf", kind)
    said = crumb("inspect", tmp_path / "a.gguf", status=1).stderr
    assert "its Q2_0 is that of a fork of llama.cpp, with blocks of 128" in said


def test_the_scale_of_a_tensor_goes_along(crumb, float_file, tmp_path):
    kind = gguf.GGMLQuantizationType["NVFP4"]
    blocks = rewrite(float_file, tmp_path / "a.gguf", kind, scale=0.0123)
    crumb("convert", tmp_path / "a.gguf", tmp_path / "b.crumb")
    crumb("convert", tmp_path / "b.crumb", tmp_path / "c.gguf")
    before, after = data_of(tmp_path / "a.gguf"), data_of(tmp_path / "c.gguf")
    assert set(before) == set(after)
    assert all(np.array_equal(after[name][1], data) for name, (_, data) in before.items())
    crumb("dequantize", tmp_path / "a.gguf", "-o", tmp_path / "a")
    crumb("dequantize", tmp_path / "b.crumb", "-o", tmp_path / "b.safetensors")
    direct = safetensors_numpy.load_file(tmp_path / "a" / "model.safetensors")
    packed = safetensors_numpy.load_file(tmp_path / "b.safetensors")
    name = "model.layers.0.mlp.down_proj.weight"
    assert np.array_equal(direct[name], packed[name])
    want = gguf.quants.dequantize(blocks["blk.0.ffn_down.weight"], kind) * np.float32(0.0123)
    assert np.allclose(packed[name], want, rtol=3e-7, atol=0)


@pytest.mark.parametrize(
    "spec", ["int4:group=32", "int4:group=32:range=full", "int8:group=32", "mxfp4", "nvfp4", "ternary:group=256", "binary:group=128"]
)
def test_a_packed_file_goes_there_and_back(crumb, tmp_path, spec):
    make_folder(tmp_path / "model", "llama", **SIZES)
    crumb("quantize", tmp_path / "model", "-o", tmp_path / "a.crumb", "--weights", spec, "--embeddings", "int8:group=32")
    crumb("convert", tmp_path / "a.crumb", tmp_path / "b.gguf")
    crumb("convert", tmp_path / "b.gguf", tmp_path / "c.crumb")
    listed = [json.loads(crumb("inspect", tmp_path / name, "--json").stdout)["tensors"] for name in ("a.crumb", "c.crumb")]
    assert [(row["name"], row["spec"]) for row in listed[0]] == [(row["name"], row["spec"]) for row in listed[1]]
    rows = json.loads(crumb("compare", tmp_path / "a.crumb", tmp_path / "c.crumb", "--json").stdout)["tensors"]
    assert rows and all(row["exact_fraction"] == 1 for row in rows)


def test_what_has_no_codes_becomes_float(crumb, float_file, tmp_path):
    kind = gguf.GGMLQuantizationType["Q4_K"]
    blocks = rewrite(float_file, tmp_path / "a.gguf", kind)
    done = crumb("convert", tmp_path / "a.gguf", tmp_path / "b.crumb")
    assert "7 tensors of Q4_K become float32" in done.stderr
    crumb("dequantize", tmp_path / "b.crumb", "-o", tmp_path / "b.safetensors")
    got = safetensors_numpy.load_file(tmp_path / "b.safetensors")["model.layers.0.mlp.up_proj.weight"]
    assert np.array_equal(got, gguf.quants.dequantize(blocks["blk.0.ffn_up.weight"], kind))


def test_names_and_flags(crumb, float_file, tmp_path):
    done = crumb("convert", float_file, tmp_path / "a.onnx", status=2)
    assert "--to is missing" in done.stderr
    done = crumb("convert", float_file, tmp_path / "b.crumb", "--opset", "21", status=2)
    assert "takes --json alone" in done.stderr


def test_scales_that_are_no_numbers_are_refused(crumb, float_file, tmp_path):
    kind = gguf.GGMLQuantizationType["Q4_0"]
    rewrite(float_file, tmp_path / "a.gguf", kind)
    tensor = {tensor.name: tensor for tensor in gguf.GGUFReader(tmp_path / "a.gguf", "r+").tensors}["blk.0.ffn_up.weight"]
    tensor.data[1, 0:2] = np.array([np.inf], np.float16).view(np.uint8)
    tensor.data.flush() if hasattr(tensor.data, "flush") else None
    done = crumb("convert", tmp_path / "a.gguf", tmp_path / "b.crumb", status=1)
    assert "'model.layers.0.mlp.up_proj.weight': a block of row 1 has the scale inf" in done.stderr


def test_a_published_file_goes_there_and_back(crumb, smollm2, tmp_path):
    crumb("convert", smollm2, tmp_path / "m.crumb")
    crumb("convert", tmp_path / "m.crumb", tmp_path / "m.gguf")
    before, after = data_of(smollm2), data_of(tmp_path / "m.gguf")
    assert set(before) == set(after)
    assert all(after[name][0] == kind and np.array_equal(after[name][1], data) for name, (kind, data) in before.items())
    fields = {key: field.contents() for key, field in gguf.GGUFReader(smollm2).fields.items()}
    again = {key: field.contents() for key, field in gguf.GGUFReader(tmp_path / "m.gguf").fields.items()}
    for key in fields:
        if key.startswith(("llama.", "tokenizer.")) and key not in ("llama.rope.scaling.type",):
            assert again.get(key) == fields[key], key
