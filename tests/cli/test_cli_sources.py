"""The same tensors in every kind of file that holds tensors: the same codes, byte for byte."""

import json

import numpy as np
import pytest
from sample_checkpoints import normal, small_tensors, write_folder, write_gguf, write_safetensors, write_shards

RECIPES = {
    "int4": ["--weights", "int4:group=32:pad:search=mse", "--embeddings", "int8:channel"],
    "palette": ["--weights", "palette3:channel", "--zstd", "3"],
    "zero": ["--weights", "uint4:group=16:pad:zero=int", "--exclude", "*key*"],
    "nvfp4": ["--weights", "nvfp4:pad"],
}


def tensors():
    """Of every kind and type that all these files can hold."""
    return small_tensors() | {
        "wide.weight": normal(300, 515, seed=9),
        "half.weight": normal(130, 64, seed=10, dtype=np.float16),
        "flags": np.array([True, False, True]),
        "counts": np.arange(12, dtype=np.int32).reshape(3, 4),
        "bytes": np.arange(7, dtype=np.uint8),
        "none.weight": np.zeros((0, 8), np.float32),
    }


def arrays():
    return {name: np.ascontiguousarray(value).reshape(np.shape(value)) for name, value in tensors().items()}


def torch_tensors(layout):
    torch = pytest.importorskip("torch")
    out = {}
    for name, array in arrays().items():
        tensor = torch.from_numpy(np.array(array))
        if layout == "transposed" and tensor.ndim == 2:
            tensor = tensor.T.contiguous().T  # the same values in another order of memory
        if layout == "views" and tensor.ndim >= 1 and len(tensor):
            twice = torch.stack([tensor, tensor + 1 if tensor.dtype != torch.bool else ~tensor], dim=tensor.ndim)
            tensor = twice[..., 0]  # every second element of a storage
        out[name] = tensor
    return torch, out


def as_safetensors(folder):
    return write_safetensors(folder / "m.safetensors", tensors())


def as_folder(folder):
    return write_folder(folder / "hf", tensors())


def as_shards(folder):
    return write_shards(folder / "hf", tensors(), 3)


def as_pt(layout="", wrapped=False):
    def write(folder):
        torch, state = torch_tensors(layout)
        if wrapped:
            state = {"model": state, "epoch": 3}
        torch.save(state, folder / "m.pt")
        return folder / "m.pt"

    return write


def as_bin_folder(folder):
    torch, state = torch_tensors("")
    names = list(state)
    placed = {}
    for i in range(2):
        file = f"pytorch_model-{i + 1:05}-of-00002.bin"
        torch.save({name: state[name] for name in names[i::2]}, folder / file)
        placed |= dict.fromkeys(names[i::2], file)
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    return folder


def as_npz(save, fortran=False, big=False):
    def write(folder):
        found = arrays()
        if fortran:
            found = {name: np.asarray(array, order="F") for name, array in found.items()}
        if big:
            found = {name: array.astype(array.dtype.newbyteorder(">")) for name, array in found.items()}
        save(folder / "m.npz", **found)
        return folder / "m.npz"

    return write


def as_onnx(external=False, raw=True):
    def write(folder):
        onnx = pytest.importorskip("onnx")
        made = []
        for name, array in arrays().items():
            if raw:
                made.append(onnx.numpy_helper.from_array(array, name))
            else:
                kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
                made.append(onnx.helper.make_tensor(name, kind, array.shape, array.ravel().tolist()))
        value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
        node = onnx.helper.make_node("Identity", ["x"], ["y"])
        result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
        model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [value], [result], made))
        options = {"save_as_external_data": True, "location": "weights.data", "size_threshold": 64} if external else {}
        onnx.save(model, folder / "m.onnx", **options)
        assert (folder / "weights.data").exists() == external
        return folder / "m.onnx"

    return write


SOURCES = {
    "folder": as_folder, "shards": as_shards, "pt": as_pt(), "pt transposed": as_pt("transposed"),
    "pt views": as_pt("views"), "pt wrapped": as_pt(wrapped=True), "bin": as_bin_folder, "npz": as_npz(np.savez),
    "npz deflated": as_npz(np.savez_compressed), "npz fortran": as_npz(np.savez, fortran=True),
    "npz big-endian deflated": as_npz(np.savez_compressed, big=True), "onnx": as_onnx(),
    "onnx external": as_onnx(external=True), "onnx numbers": as_onnx(raw=False),
}  # fmt: skip


def packed(path):
    """{tensor: everything that the file says and holds of it, but for where it lies}."""
    content = path.read_bytes()
    header = json.loads(content[64 : 64 + int.from_bytes(content[16:24], "little")])
    found = {}
    for entry in header["tensors"]:
        said = {}
        for key, value in entry.items():
            if isinstance(value, dict) and "offset" in value:
                bytes_of = content[int(value["offset"]) : int(value["offset"]) + int(value["stored"])]
                said[key] = bytes_of, value["raw"], value["codec"]
            else:
                said[key] = value
        found[entry["name"]] = said
    return found


@pytest.fixture(scope="module")
def expected(crumb, tmp_path_factory):
    folder = tmp_path_factory.mktemp("expected")
    source = as_safetensors(folder)
    found = {}
    for name, options in RECIPES.items():
        crumb("quantize", source, "-o", folder / "o.crumb", *options)
        found[name] = packed(folder / "o.crumb")
        assert set(found[name]) == set(tensors())
    return found


@pytest.mark.parametrize("kind", SOURCES)
def test_every_kind_of_file_gives_the_same_codes(crumb, tmp_path, expected, kind):
    (tmp_path / "in").mkdir()
    source = SOURCES[kind](tmp_path / "in")
    plain = ["--tensors-only"] if kind.startswith("onnx") else []
    for name, options in RECIPES.items():
        crumb("quantize", source, "-o", tmp_path / "o.crumb", *options, *plain)
        found = packed(tmp_path / "o.crumb")
        assert set(found) == set(expected[name])
        for tensor in found:
            assert found[tensor] == expected[name][tensor], (name, tensor)
        crumb("verify", tmp_path / "o.crumb")
    # The original and the packed file are compared, whatever the original is.
    report = json.loads(crumb("compare", source, tmp_path / "o.crumb", "--json").stdout)
    assert len(report["tensors"]) == len(tensors())


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_one_npy_gives_the_same_codes(crumb, tmp_path, order, version):
    array = normal(96, 160, seed=3)
    with open(tmp_path / "layer.weight.npy", "wb") as file:
        np.lib.format.write_array(file, np.asarray(array, order=order), version=version)
    source = write_safetensors(tmp_path / "m.safetensors", {"layer.weight": array})
    found = []
    for path in (source, tmp_path / "layer.weight.npy"):
        crumb("quantize", path, "-o", tmp_path / "o.crumb", "--weights", "int4:group=32")
        found.append(packed(tmp_path / "o.crumb"))
    assert found[0] == found[1] and list(found[0]) == ["layer.weight"]


def test_bfloat16_is_read_from_every_kind_that_has_it(crumb, tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    tensor = torch.from_numpy(normal(64, 96)).bfloat16()
    save_file({"w.weight": tensor}, tmp_path / "m.safetensors")
    torch.save({"w.weight": tensor}, tmp_path / "m.pt")
    sources = [tmp_path / "m.safetensors", tmp_path / "m.pt"]
    onnx = pytest.importorskip("onnx")
    made = onnx.helper.make_tensor("w.weight", onnx.TensorProto.BFLOAT16, tensor.shape,
                                   tensor.view(torch.int16).numpy().tobytes(), raw=True)  # fmt: skip
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], [made])), tmp_path / "m.onnx")
    sources.append(tmp_path / "m.onnx")
    found = []
    for path in sources:
        crumb("quantize", path, "-o", tmp_path / "o.crumb", "--weights", "int4:group=32:search=mse", "--tensors-only")
        found.append(packed(tmp_path / "o.crumb"))
    assert all(other == found[0] for other in found)


def test_gguf_gives_the_same_codes(crumb, tmp_path):
    pytest.importorskip("gguf")
    held = {"flags", "bytes", "none.weight"}  # GGUF has no such types, and its writer no empty tensors
    kept = {name: array for name, array in arrays().items() if name not in held and array.ndim in range(1, 5)}
    assert len(kept) >= 5
    source = write_safetensors(tmp_path / "m.safetensors", kept)
    write_gguf(tmp_path / "m.gguf", kept)
    for name, options in RECIPES.items():
        found = []
        for path in (source, tmp_path / "m.gguf"):
            crumb("quantize", path, "-o", tmp_path / "o.crumb", *options)
            found.append(packed(tmp_path / "o.crumb"))
        assert set(found[0]) == set(kept)
        assert found[0] == found[1], name
    report = json.loads(crumb("compare", tmp_path / "m.gguf", tmp_path / "o.crumb", "--json").stdout)
    assert len(report["tensors"]) == len(kept)
