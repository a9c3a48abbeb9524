"""What torch.save writes, in many ways, read by crumb and compared with what torch itself has."""

import json
import os
import pickle
import tarfile
import zipfile
from collections import Counter, OrderedDict

import numpy as np
import pytest

torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")

from torch_samples import FLOATS, FLOATS8, INTEGERS, assert_same, drawn_quantized  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def random_state(seed=0):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Embedding(11, 6),
        torch.nn.Conv1d(6, 5, 3),
        torch.nn.BatchNorm1d(5),
        torch.nn.Linear(5, 7),
        torch.nn.LSTM(7, 3, bidirectional=True),
    )
    return model.state_dict()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_state_dict_in_every_protocol(values, tmp_path, protocol):
    state = random_state(protocol)
    torch.save(state, tmp_path / "m.pt", pickle_protocol=protocol)
    assert_same(values(tmp_path / "m.pt"), state)
    torch.save(dict(state), tmp_path / "m.bin", pickle_protocol=protocol)
    assert_same(values(tmp_path / "m.bin"), state)


@pytest.mark.parametrize("protocol", [2, 5])
def test_every_type(values, tmp_path, protocol):
    torch.manual_seed(1)
    state = {}
    for name in FLOATS + FLOATS8:
        state[name] = (torch.randn(3, 5) * 4).abs().to(getattr(torch, name))
    for name in INTEGERS:
        state[name] = torch.randint(0, 2 if name == "bool" else 100, (4, 3)).to(getattr(torch, name))
    state["int64_wide"] = torch.tensor([-(2**63), 2**63 - 1])
    state["complex64"] = torch.randn(3, dtype=torch.complex64)
    state["special"] = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 1e-42])
    state["scalar"] = torch.tensor(2.5)
    state["empty"] = torch.zeros(0, 3)
    torch.save(state, tmp_path / "m.pt", pickle_protocol=protocol)
    assert_same(values(tmp_path / "m.pt"), state)


def test_views_of_shared_storages(values, tmp_path):
    base = torch.arange(120.0)
    state = {
        "base": base,
        "slice": base[7:19],
        "matrix": base.view(10, 12),
        "transposed": base.view(10, 12).t(),
        "window": base.view(10, 12)[2:7, 3:9],
        "steps": base[5:100:7],
        "permuted": base.view(2, 3, 4, 5).permute(3, 0, 2, 1),
        "expanded": base[:3].view(3, 1).expand(3, 4),
        "all_of_one": base[50:51].expand(6),
        "overlapping": base.unfold(0, 4, 2),
        "row": base.view(10, 12)[9:10],
        "last": base[119],
        "nothing": base[:0],
        "channels_last": torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        "tied": base.view(10, 12),
    }
    torch.save(state, tmp_path / "m.pt")
    assert_same(values(tmp_path / "m.pt"), state)
    sixteen = {name: tensor.bfloat16() for name, tensor in state.items()}
    sixteen["transposed"] = sixteen["matrix"].t()
    torch.save(sixteen, tmp_path / "m.pth")
    assert_same(values(tmp_path / "m.pth"), sixteen)


def test_parameters_buffers_and_tensors_with_attributes(values, tmp_path):
    frozen = torch.nn.Parameter(torch.randn(3, 4), requires_grad=False)
    marked = torch.nn.Parameter(torch.randn(2, 4))
    marked.note = "kept aside"
    plain = torch.randn(5)
    plain.note = {"a": [1, 2]}
    state = {
        "frozen": frozen,
        "marked": marked,
        "plain": plain,
        "buffer": torch.nn.Buffer(torch.randn(2)),
        "needs_grad": torch.randn(3, requires_grad=True),
    }
    torch.save(state, tmp_path / "m.pt")
    assert_same(values(tmp_path / "m.pt"), state)


def test_a_damaged_storage_is_noticed_by_its_checksum(crumb, values, tmp_path):
    weight = torch.randn(64, 40)
    state = {"plain": weight, "turned": torch.randn(30, 20).t()}
    path = tmp_path / "m.pt"
    torch.save(state, path)
    good = path.read_bytes()
    for name, first in (("plain", weight), ("turned", state["turned"].t())):
        content = bytearray(good)
        content[good.index(first.contiguous().numpy().tobytes()) + 1000] ^= 1
        path.write_bytes(content)
        said = crumb("quantize", path, "-o", tmp_path / "o.crumb", "--weights", "int8", status=1).stderr
        assert f"'{name}'" in said and "checksum" in said and "m.pt" in said
        assert "checksum" in crumb("compare", path, path, status=1).stderr
    # Without checksums, and as a part of a storage, tensors are read as they are.
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(state, path)
    finally:
        torch.serialization.set_crc32_options(True)
    assert_same(values(path), state)
    torch.save({"part": weight[3:9]}, path)
    assert_same(values(path), {"part": weight[3:9]})


def test_nesting_is_flattened(values, crumb, tmp_path):
    t = torch.randn
    saved = {"enc": OrderedDict(w=t(2, 3), layers=[{"k": t(3)}, (t(1), t(2))]), 7: t(4), "head": {"bias": t(2)}}
    torch.save(saved, tmp_path / "m.pt")
    assert_same(
        values(tmp_path / "m.pt"),
        {
            "enc.w": saved["enc"]["w"],
            "enc.layers.0.k": saved["enc"]["layers"][0]["k"],
            "enc.layers.1.0": saved["enc"]["layers"][1][0],
            "enc.layers.1.1": saved["enc"]["layers"][1][1],
            "7": saved[7],
            "head.bias": saved["head"]["bias"],
        },
    )


def checkpoint():
    """What a training script saves: a model, an optimizer, and plain values of every kind that torch allows."""
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1).state_dict(),
        "epoch": 3,
        "step": 1 << 80,
        "loss": 0.5,
        "name": "run \u00e9",
        "best": None,
        "done": True,
        "tags": {"a", "b"},
        "frozen": frozenset([1]),
        "raw": b"\x00\xff",
        "no_bytes": b"",
        "array": bytearray(b"xyz"),
        "z": 1j,
        "part": slice(1, 9, 2),
        "range": range(3),
        "device": torch.device("cuda", 1),
        "dtype": torch.bfloat16,
        "size": torch.Size([1, 2]),
        "layout": torch.strided,
        "counts": Counter("aab"),
        "args": {"lr": 1e-3, "names": ["x", "y"]},
    }


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_wrappers(values, tmp_path, protocol):
    saved = checkpoint()
    torch.save(saved, tmp_path / "m.pt", pickle_protocol=protocol)
    assert_same(values(tmp_path / "m.pt"), saved["model"])
    assert_same(values(tmp_path / "m.pt", "--key", "model"), saved["model"])
    states = saved["optimizer"]["state"]
    assert_same(
        values(tmp_path / "m.pt", "--key", "optimizer"),
        {f"state.{i}.{name}": value for i, state in states.items() for name, value in state.items()},
    )


def test_a_key_that_is_not_there(refusal, tmp_path):
    torch.save(checkpoint(), tmp_path / "m.pt")
    said = refusal(tmp_path / "m.pt", "--key", "modle")
    assert "no entry 'modle'" in said and "did you mean 'model'?" in said and "'optimizer'" in said
    assert "'model' has no entry" in refusal(tmp_path / "m.pt", "--key", "model.w")
    assert "an integer" in refusal(tmp_path / "m.pt", "--key", "epoch")


def test_one_tensor_is_named_after_its_file(values, tmp_path):
    tensor = torch.randn(3, 4)
    torch.save(tensor, tmp_path / "bias.pt")
    assert_same(values(tmp_path / "bias.pt"), {"bias": tensor})


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_archives_zipped_again(values, tmp_path, method):
    state = {**random_state(), "zeros": torch.zeros(100, 100), "turned": torch.randn(30, 20).t()}
    torch.save(state, tmp_path / "m.pt")
    with zipfile.ZipFile(tmp_path / "m.pt") as old, zipfile.ZipFile(tmp_path / "again.pt", "w", method) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert_same(values(tmp_path / "again.pt"), state)


def test_big_endian_storages(values, tmp_path):
    state = {"w": torch.randn(3, 4), "h": torch.randn(5).half(), "n": torch.arange(3), "t": torch.randn(4, 3).t()}
    torch.save(state, tmp_path / "m.pt")
    sizes = {"0": 4, "1": 2, "2": 8, "3": 4}
    with zipfile.ZipFile(tmp_path / "m.pt") as old, zipfile.ZipFile(tmp_path / "big.pt", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            folder, _, last = name.rpartition("/")
            if folder == "m/data":
                data = np.frombuffer(data, f"<u{sizes[last]}").byteswap().tobytes()
            new.writestr(name, b"big" if last == "byteorder" else data)
    assert_same(values(tmp_path / "big.pt"), state)


def test_archives_without_checksums_or_byte_order(values, tmp_path):
    state = random_state()
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(state, tmp_path / "m.pt", _disable_byteorder_record=True)
    finally:
        torch.serialization.set_crc32_options(before)
    assert_same(values(tmp_path / "m.pt"), state)


def test_many_tensors(crumb, tmp_path):
    base = torch.arange(8.0)
    torch.save({f"layers.{i}.weight": base[i % 4 :] for i in range(20000)}, tmp_path / "m.pt")
    listed = json.loads(crumb("inspect", tmp_path / "m.pt", "--json").stdout)
    assert len(listed["tensors"]) == 20000


def test_pairs_of_four_bit_floats_are_listed_as_safetensors_does(crumb, tmp_path):
    pairs = torch.arange(24, dtype=torch.uint8).view(3, 8).view(torch.float4_e2m1fn_x2)
    torch.save({"w": pairs}, tmp_path / "m.pt")
    safetensors_torch.save_file({"w": pairs}, tmp_path / "m.safetensors")
    ours = json.loads(crumb("inspect", tmp_path / "m.pt", "--json").stdout)["tensors"]
    theirs = json.loads(crumb("inspect", tmp_path / "m.safetensors", "--json").stdout)["tensors"]
    assert ours == theirs and ours[0]["dtype"] == "F4"


def test_tensors_of_other_types_are_left_out(values, tmp_path):
    tensor = torch.randn(2, 3)
    saved = {
        "w": tensor,
        "double": torch.zeros(2, dtype=torch.complex128),
        "half": torch.zeros(2, dtype=torch.complex32),
        "storage": torch.zeros(3).untyped_storage(),
    }
    torch.save(saved, tmp_path / "m.pt")
    assert_same(values(tmp_path / "m.pt"), {"w": tensor})


WITHOUT_PLAIN_ELEMENTS = {
    "sparse": (lambda: torch.eye(2).to_sparse(), "to_dense()"),
    "compressed": (lambda: torch.eye(2).to_sparse_csr(), "to_dense()"),
    "meta": (lambda: torch.zeros(2, device="meta"), "no data"),
    "nested": (lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), "nested"),
    "of two bits": (lambda: torch.quantize_per_channel(torch.zeros(4, 8), torch.ones(4), torch.zeros(4), 0, torch.quint4x2), "quint4x2"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WITHOUT_PLAIN_ELEMENTS)
def test_tensors_without_plain_elements_are_refused_by_name(refusal, tmp_path, kind):
    make, word = WITHOUT_PLAIN_ELEMENTS[kind]
    torch.save({"other": torch.ones(2), "a.weight": make()}, tmp_path / "m.pt")
    said = refusal(tmp_path / "m.pt")
    assert "tensor 'a.weight'" in said and word in said, said


@pytest.mark.parametrize("form", ["zip", "compressed", "stream"])
def test_quantized_tensors_are_the_floats_that_they_stand_for(crumb, values, tmp_path, form):
    rng = np.random.default_rng(21)
    saved = {f"l.{i}.weight": drawn_quantized(rng) for i in range(300)} | {"plain": torch.randn(3)}
    torch.save(saved, tmp_path / "m.pt", _use_new_zipfile_serialization=form != "stream")
    if form == "compressed":
        with zipfile.ZipFile(tmp_path / "m.pt") as old, zipfile.ZipFile(tmp_path / "z.pt", "w", zipfile.ZIP_DEFLATED) as new:
            for name in old.namelist():
                new.writestr(name, old.read(name))
        (tmp_path / "z.pt").replace(tmp_path / "m.pt")
    found = values(tmp_path / "m.pt")
    assert found.keys() == saved.keys()
    for name, tensor in saved.items():
        if not tensor.is_quantized:
            assert torch.equal(found[name], tensor)
            continue
        theirs = tensor.dequantize()
        assert found[name].shape == theirs.shape and torch.equal(found[name], theirs), name
    listed = json.loads(crumb("inspect", tmp_path / "m.pt", "--json").stdout)["tensors"]
    assert {row["stored_as"] for row in listed} == {"I8", "U8", "I32", "F32"}


def test_quantized_networks(values, tmp_path):
    """Dynamic and converted layers: what they pack has the weight under the entry's name."""
    import torch.ao.quantization as quantization

    net = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU(), torch.nn.Linear(6, 5, bias=False))
    dynamic = quantization.quantize_dynamic(net, dtype=torch.qint8)
    torch.save(dynamic.state_dict(), tmp_path / "m.pt")
    found = values(tmp_path / "m.pt")
    for i in (0, 2):
        assert torch.equal(found[f"{i}._packed_params._packed_params"], dynamic[i].weight().dequantize())
    assert torch.equal(found["0._packed_params._packed_params.bias"], net[0].bias.detach())
    assert "2._packed_params._packed_params.bias" not in found

    static = torch.nn.Sequential(quantization.QuantStub(), torch.nn.Conv2d(3, 4, 3), torch.nn.Linear(6, 5)).eval()
    static.qconfig = quantization.get_default_qconfig("x86")
    quantization.prepare(static, inplace=True)
    static[1](torch.randn(2, 3, 8, 8))
    static(torch.randn(2, 3, 8, 8))
    quantization.convert(static, inplace=True)
    torch.save({"state_dict": static.state_dict(), "epoch": np.float64(3)}, tmp_path / "m.pt")
    found = values(tmp_path / "m.pt")
    assert torch.equal(found["1.weight"], static[1].weight().dequantize())
    assert torch.equal(found["2._packed_params._packed_params"], static[2].weight().dequantize())
    assert found["1.scale"].shape == ()


def test_values_of_trainers_are_no_obstacle(values, tmp_path):
    import argparse
    import pathlib

    tensor = torch.randn(2, 3)
    saved = {"model": {"w": tensor}, "best": np.float64(0.9), "step": np.int64(3), "args": argparse.Namespace(lr=1e-3, path=pathlib.Path("x")),
             "where": pathlib.PurePosixPath("a/b")}  # fmt: skip
    for protocol in (2, 4):
        torch.save(saved, tmp_path / "m.pt", pickle_protocol=protocol)
        assert_same(values(tmp_path / "m.pt"), {"w": tensor})


def test_views_to_be_computed_are_refused(refusal, tmp_path):
    complex_tensor = torch.randn(2, dtype=torch.complex64)
    torch.save({"a": complex_tensor.conj()}, tmp_path / "conj.pt")
    assert "'a'" in refusal(tmp_path / "conj.pt") and "resolve_conj" in refusal(tmp_path / "conj.pt")
    torch.save({"a": complex_tensor.conj().imag}, tmp_path / "neg.pt")
    assert "'a'" in refusal(tmp_path / "neg.pt") and "resolve_neg" in refusal(tmp_path / "neg.pt")


class Evil:
    """A pickle of this runs a command where pickles are executed."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


class UserNet(torch.nn.Module):
    """A class that only its script knows."""


@pytest.mark.parametrize("protocol", [2, 4])
def test_what_is_outside_the_allow_list_is_refused_by_name(refusal, tmp_path, protocol):
    trace = tmp_path / "was_here"

    def said(saved):
        torch.save(saved, tmp_path / "m.pt", pickle_protocol=protocol)
        return refusal(tmp_path / "m.pt")

    weights = {"w": torch.zeros(2)}
    assert "os.system" in said({**weights, "x": Evil(trace)})
    assert not trace.exists()
    assert "NumPy" in said({**weights, "x": np.zeros(3)})
    assert "'torch.nn.modules.linear.Linear'" in said(torch.nn.Linear(2, 2))
    assert "state_dict()" in said(torch.nn.Linear(2, 2))
    assert f"'{__name__}.UserNet'" in said(UserNet())
    assert "'builtins.print'" in said({**weights, "x": print})
    assert "'builtins.getattr'" in said({**weights, "x": getattr})
    assert "'builtins.list'" in said({**weights, "x": list})


def test_other_files_of_torch_are_refused_by_name(refusal, tmp_path):
    path = tmp_path / "m.pt"
    with tarfile.open(path, "w") as tar:
        for name in ("storages", "tensors", "pickle"):
            tar.addfile(tarfile.TarInfo(name))
    assert "before version 0.1.10" in refusal(path)
    torch.jit.script(torch.nn.Linear(2, 2)).save(str(path))
    assert "TorchScript" in refusal(path)
    for protocol in (2, 4):
        path.write_bytes(pickle.dumps({"w": 1}, protocol=protocol))
        assert "a Python pickle that torch.save did not write" in refusal(path)
    torch.save({"w": torch.zeros(100)}, path)
    whole = path.read_bytes()
    for size in (len(whole) - 1, len(whole) // 2, 40):
        path.write_bytes(whole[:size])
        assert "cut short" in refusal(path), size


def test_storages_that_are_missing_or_too_small(refusal, tmp_path):
    torch.save({"w": torch.zeros(100), "v": torch.zeros(3)}, tmp_path / "m.pt")

    def rewritten(change):
        with zipfile.ZipFile(tmp_path / "m.pt") as old, zipfile.ZipFile(tmp_path / "bad.pt", "w") as new:
            for name in old.namelist():
                data = old.read(name)
                if name == "m/data/0":
                    data = change(data)
                if data is not None:
                    new.writestr(name, data)
        return refusal(tmp_path / "bad.pt")

    assert "'w'" in rewritten(lambda data: None) and "storage '0' is not there" in rewritten(lambda data: None)
    assert "storage '0' holds 396 bytes" in rewritten(lambda data: data[:-4])
    assert "storage '0' holds 404 bytes" in rewritten(lambda data: data + b"1234")
