"""Weights inside ONNX files against the onnx package: every way to store a tensor, and real models."""

import sys
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ml_dtypes = pytest.importorskip("ml_dtypes")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cli"))

from sample_checkpoints import normal, read_safetensors  # noqa: E402

TYPES = {
    "FLOAT": np.float32, "UINT8": np.uint8, "INT8": np.int8, "UINT16": np.uint16, "INT16": np.int16,
    "INT32": np.int32, "INT64": np.int64, "BOOL": np.bool_, "FLOAT16": np.float16, "DOUBLE": np.float64,
    "UINT32": np.uint32, "UINT64": np.uint64, "BFLOAT16": ml_dtypes.bfloat16,
    "FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn, "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "FLOAT8E5M2": ml_dtypes.float8_e5m2, "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip


def model_of(tensors):
    """A model whose initializers are these; its one node takes the first."""
    node = helper.make_node("Identity", [tensors[0].name], ["y"])
    graph = helper.make_graph([node], "g", [], [helper.make_empty_tensor_value_info("y")], initializer=tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def values_of(kind, shape, seed):
    values = normal(*shape, seed=seed) * 40
    if kind == "BOOL":
        return values > 0
    if np.issubdtype(TYPES[kind], np.unsignedinteger):
        return np.abs(values).astype(TYPES[kind])
    return values.astype(TYPES[kind])


def read_back(crumb, path, tmp_path):
    """{name: (dtype, shape, float32 values or raw bytes)} of what crumb read: quantized nothing, dequantized."""
    packed, out = tmp_path / "m.crumb", tmp_path / "m.safetensors"
    crumb("quantize", path, "-o", packed, "--weights", "int8", "--exclude", "*", "--tensors-only")
    crumb("dequantize", packed, "-o", out)
    return read_safetensors(out)


def assert_equal(found, array):
    dtype, shape, raw = found
    assert shape == list(array.shape)
    if dtype == "F32":
        expected = array.astype(np.float32)
        assert np.array_equal(np.frombuffer(raw, np.float32).reshape(shape), expected, equal_nan=True)
    else:
        assert raw == array.tobytes()


@pytest.mark.parametrize("raw", [True, False], ids=["raw_data", "typed_data"])
@pytest.mark.parametrize("shape", [(7, 5), (3,), (), (2, 3, 1, 5), (0, 4)], ids=str)
def test_every_type_and_encoding(crumb, tmp_path, raw, shape):
    arrays, tensors = {}, []
    for i, kind in enumerate(TYPES):
        array = np.asarray(values_of(kind, shape, i), dtype=TYPES[kind])
        arrays[kind] = array
        number = getattr(TensorProto, kind)
        if raw:
            tensor = helper.make_tensor(kind, number, shape, array.tobytes(), raw=True)
        else:
            tensor = helper.make_tensor(kind, number, shape, array.ravel())
            assert not tensor.raw_data
        assert np.array_equal(np.asarray(numpy_helper.to_array(tensor)).view(np.uint8) if shape else 0,
                              array.view(np.uint8) if shape else 0)  # fmt: skip
        tensors.append(tensor)
    onnx.save(model_of(tensors), tmp_path / "m.onnx")
    found = read_back(crumb, tmp_path / "m.onnx", tmp_path)
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        assert_equal(found[name], array)


@pytest.mark.parametrize("one_file", [True, False])
def test_external_data(crumb, tmp_path, one_file):
    arrays = {f"w{i}": normal(17 + i, 9, seed=i) for i in range(4)}
    model = model_of([numpy_helper.from_array(a, name) for name, a in arrays.items()])
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, all_tensors_to_one_file=one_file,
              location="all.bin" if one_file else None, size_threshold=0)  # fmt: skip
    assert (folder / "all.bin").exists() == one_file and len(list(folder.iterdir())) == (2 if one_file else 5)
    found = read_back(crumb, folder / "m.onnx", tmp_path)
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        assert_equal(found[name], array)

    victim = next(p for p in sorted(folder.iterdir()) if p.suffix != ".onnx")
    victim.write_bytes(victim.read_bytes()[:-1])
    done = crumb("quantize", folder / "m.onnx", "-o", tmp_path / "x.crumb", "--weights", "int8", "--tensors-only", status=1)
    assert victim.name in done.stderr
    victim.unlink()
    done = crumb("quantize", folder / "m.onnx", "-o", tmp_path / "x.crumb", "--weights", "int8", "--tensors-only", status=1)
    assert victim.name in done.stderr and not (tmp_path / "x.crumb").exists()


def test_external_data_stay_inside_the_folder(crumb, tmp_path):
    (tmp_path / "secret").write_bytes(bytes(16))
    (tmp_path / "model").mkdir()
    for location in ("../secret", str(tmp_path / "secret"), "a/../../secret", ".."):
        tensor = numpy_helper.from_array(np.zeros((2, 2), np.float32), "w")
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", location
        (tmp_path / "model" / "m.onnx").write_bytes(model_of([tensor]).SerializeToString())
        done = crumb("inspect", tmp_path / "model" / "m.onnx", status=1)
        assert "folder" in done.stderr


def test_the_same_tensors_give_the_same_codes_as_safetensors(crumb, tmp_path):
    from safetensors.numpy import save_file

    arrays = {"a.weight": normal(64, 128), "b.weight": normal(32, 64, seed=1, dtype=np.float16), "b.bias": normal(32)}
    save_file(arrays, tmp_path / "m.safetensors")
    for raw in (True, False):
        tensors = [
            helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape, a.tobytes() if raw else a.ravel(), raw)
            for name, a in arrays.items()
        ]
        onnx.save(model_of(tensors), tmp_path / "m.onnx")
        for source in ("m.safetensors", "m.onnx"):
            crumb("quantize", tmp_path / source, "-o", tmp_path / f"{source}.crumb", "--weights", "int4:group=32",
                  "--tensors-only")  # fmt: skip
        assert (tmp_path / "m.onnx.crumb").read_bytes() == (tmp_path / "m.safetensors.crumb").read_bytes()


def test_published_models(crumb, networks, tmp_path):
    models = sorted(networks.glob("*.onnx"))
    assert models
    for path in models:
        arrays = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
        if not arrays:
            continue
        found = read_back(crumb, path, tmp_path)
        assert set(found) == set(arrays), path
        for name, array in arrays.items():
            assert_equal(found[name], array)


@pytest.mark.parametrize("raw", [True, False], ids=["raw_data", "typed_data"])
def test_float4(crumb, tmp_path, raw):
    array = (normal(6, 4) * 3).astype(ml_dtypes.float4_e2m1fn)
    if raw:
        tensor = numpy_helper.from_array(array, "w")
    else:
        tensor = helper.make_tensor("w", TensorProto.FLOAT4E2M1, array.shape, array.astype(np.float32).ravel())
    assert bool(tensor.raw_data) == raw
    onnx.save(model_of([tensor]), tmp_path / "m.onnx")
    assert_equal(read_back(crumb, tmp_path / "m.onnx", tmp_path)["w"], array)


def test_more_or_fewer_numbers_than_the_shape_are_refused(crumb, tmp_path):
    tensor = helper.make_tensor("w", TensorProto.INT64, (20,), [1000] * 20)
    for count in (19, 21, 5, 41):
        tensor.dims[0] = count
        (tmp_path / "m.onnx").write_bytes(model_of([tensor]).SerializeToString())
        done = crumb("quantize", tmp_path / "m.onnx", "-o", tmp_path / "m.crumb", "--weights", "int8", "--tensors-only", status=1)
        assert "'w'" in done.stderr
