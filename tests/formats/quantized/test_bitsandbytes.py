"""Folders of bitsandbytes are read as the values that its loaders compute, bit for bit; damaged ones are refused by name."""

import json
import shutil
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sys.path.append(str(Path(__file__).parent))
import loaders  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bitsandbytes")
    loaders.run("bitsandbytes_folders.py", folder)
    return folder


@pytest.mark.parametrize("name", ["four", "eight"])
def test_bitsandbytes_computes_the_same(crumb, written, tmp_path, name):
    out = tmp_path / "values.safetensors"
    said = crumb("dequantize", written / name, "-o", out).stderr
    assert "read as what bitsandbytes" in said
    loaders.expect_values(load_file(out), load_file(written / f"{name}.values.safetensors"))


def test_a_file_alone_is_read_the_same(crumb, written, tmp_path):
    crumb("dequantize", written / "four" / "model.safetensors", "-o", tmp_path / "values.safetensors")
    loaders.expect_values(load_file(tmp_path / "values.safetensors"), load_file(written / "four.values.safetensors"))


def matrix_with(tensors, *ends):
    """The name of a weight that has parts of these names, and more than one block."""
    for name in tensors:
        weight = name.removesuffix(".absmax")
        if weight != name and tensors[name].numel() > 1 and tensors[name].any():
            if all(any(key.startswith(f"{weight}.{end}") for key in tensors) for end in ends):
                return weight
    raise AssertionError(ends)


def state_of(tensors, weight):
    key = next(name for name in tensors if name.startswith(f"{weight}.quant_state"))
    return key, json.loads(bytes(tensors[key].tolist()))


def with_state(**changes):
    def change(tensors):
        weight = matrix_with(tensors, "nested_absmax")
        key, state = state_of(tensors, weight)
        tensors[key] = torch.tensor(list(json.dumps({**state, **changes}).encode()), dtype=torch.uint8)

    return change


def zeroed(*ends):
    def change(tensors):
        tensors[f"{matrix_with(tensors, *ends)}.{ends[0]}"].zero_()

    return change


def without(end):
    def change(tensors):
        del tensors[f"{matrix_with(tensors, end)}.{end}"]

    return change


def shorter(end):
    def change(tensors):
        name = f"{matrix_with(tensors, end)}.{end}"
        tensors[name] = tensors[name][:-1].clone()

    return change


def no_state(tensors):
    del tensors[state_of(tensors, matrix_with(tensors))[0]]


def zeroed_state(tensors):
    tensors[state_of(tensors, matrix_with(tensors))[0]].zero_()


DAMAGES = {
    "bytes of absmax are zeros": (zeroed("absmax", "nested_absmax"), "nothing but zeros"),
    "absmax is zeros": (zeroed("absmax"), "nothing but zeros"),
    "the table is zeros": (zeroed("quant_map"), "quant_map': it is damaged: value 0 is 0, expected"),
    "the state is zeros": (zeroed_state, "it is damaged"),
    "no state": (no_state, "there is no quant_state"),
    "no absmax": (without("absmax"), "absmax': it is missing"),
    "no nested map": (without("nested_quant_map"), "nested_quant_map': it is missing"),
    "an absmax less": (shorter("absmax"), "absmax': it is ["),
    "a nested absmax less": (shorter("nested_absmax"), "nested_absmax': it is ["),
    "another kind": (with_state(quant_type="int4"), "quant_type is 'int4'"),
    "an odd block": (with_state(blocksize=48), "blocksize is 48"),
    "another shape": (with_state(shape=[3, 5]), "expected the 8 bytes of [3, 5]"),
    "a shape that overflows": (with_state(shape=[1 << 40, 1 << 40]), "its shape"),
    "no dtype": (with_state(dtype="int8"), "dtype is 'int8'"),
    "no offset": (with_state(nested_offset=None), "nested_offset is no number"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_refused_by_name(crumb, written, tmp_path, damage):
    change, said = DAMAGES[damage]
    shutil.copytree(written / "four", tmp_path / "in")
    tensors = load_file(tmp_path / "in" / "model.safetensors")
    change(tensors)
    save_file(tensors, tmp_path / "in" / "model.safetensors")
    stderr = crumb("quantize", tmp_path / "in", "-o", tmp_path / "x.crumb", "--weights", "int8:channel", status=1).stderr
    assert said in stderr and "bitsandbytes" in stderr and str(tmp_path / "in") in stderr
    assert "already quantized" in crumb("inspect", tmp_path / "in").stdout
    assert not (tmp_path / "x.crumb").exists()


def test_rows_that_are_stored_otherwise_are_refused(crumb, written, tmp_path):
    for change in ("format", "zeros", "type"):
        shutil.copytree(written / "eight", tmp_path / change)
        tensors = load_file(tmp_path / change / "model.safetensors")
        if change == "format":
            tensors["layers.1.up_proj.weight_format"].fill_(2)
        elif change == "zeros":
            tensors["layers.1.up_proj.SCB"].zero_()
        else:
            tensors["layers.1.up_proj.weight"] = tensors["layers.1.up_proj.weight"].to(torch.int16)
        save_file(tensors, tmp_path / change / "model.safetensors")
        stderr = crumb("dequantize", tmp_path / change, "-o", tmp_path / "x", status=1).stderr
        meant = {"format": "expected 0: codes row by row", "zeros": "nothing but zeros", "type": "expected I8 with 2 axes"}
        assert "layers.1.up_proj" in stderr and meant[change] in stderr
