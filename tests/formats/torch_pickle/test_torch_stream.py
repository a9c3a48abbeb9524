"""The stream that torch.save wrote before version 1.6 and writes on request: read by crumb as torch reads it, and as the archive
of the same object."""

import json
import os
import pickle
import struct
from collections import OrderedDict
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors.torch")

from python_2_pickler import Python2Pickler  # noqa: E402
from torch_samples import FLOATS, FLOATS8, INTEGERS, assert_same  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

DTYPES = [getattr(torch, name) for name in [*FLOATS, *FLOATS8, *INTEGERS, "complex64"]]
OLD_DTYPES = [dtype for dtype in DTYPES if dtype.itemsize > 1 and "uint" not in str(dtype)] + [torch.uint8, torch.int8, torch.bool]


def save_stream(saved, path, **options):
    torch.save(saved, path, _use_new_zipfile_serialization=False, **options)


def drawn_view(rng, base):
    """Any view of a storage: parts, steps, turned and repeated axes, one element, none."""
    kind = rng.integers(5)
    if kind == 0:
        return base
    if kind == 1:
        return base[int(rng.integers(base.numel()))]
    if kind == 2:
        return base[:0].reshape(0, 3)
    shape = [int(n) for n in rng.integers(1, 4, int(rng.integers(1, 4)))]
    strides = [int(n) for n in rng.integers(0, 9, len(shape))]
    first = int(rng.integers(10))
    return base.as_strided(shape, strides, first)


def drawn_object(rng, dtypes):
    """A nested object of tensors of these types, of which several share a storage, and its tensors by their names in crumb."""
    saved, tensors = OrderedDict(), {}
    for dtype in dtypes:
        name = str(dtype).removeprefix("torch.")
        values = torch.from_numpy(rng.normal(0, 40, 64)).abs()
        base = values > 40 if dtype == torch.bool else values.float().to(dtype)
        views = [drawn_view(rng, base) for _ in range(int(rng.integers(1, 4)))]
        if dtype.is_floating_point and dtype.itemsize > 1 and rng.random() < 0.5:
            views.append(torch.nn.Parameter(views[0], requires_grad=bool(rng.random() < 0.5)))
        saved[name] = {"views": views, "count": len(views)}
        tensors |= {f"{name}.views.{i}": view for i, view in enumerate(views)}
    saved["empty"], saved["scalar"] = torch.zeros(0), torch.tensor(3.5)
    saved["wide"] = torch.tensor([-(2**63), 2**63 - 1])
    saved["note"], saved["left_out"] = "of a run", torch.zeros(2, dtype=torch.complex128)
    return saved, tensors | {name: saved[name] for name in ("empty", "scalar", "wide")}


@pytest.mark.parametrize("seed", range(4))
def test_a_stream_is_what_torch_saved_and_what_the_archive_holds(crumb, values, tmp_path, seed):
    saved, tensors = drawn_object(np.random.default_rng(seed), DTYPES)
    save_stream(saved, tmp_path / "stream.pt", pickle_protocol=2 + seed)
    torch.save(saved, tmp_path / "archive.pt", pickle_protocol=2 + seed)
    assert_same(values(tmp_path / "stream.pt"), tensors)
    inspected = [json.loads(crumb("inspect", tmp_path / f"{form}.pt", "--json").stdout) for form in ("stream", "archive")]
    for report in inspected:
        del report["bytes"]  # of the file
    assert inspected[0] == inspected[1]
    assert {row["name"] for row in inspected[0]["tensors"]} == tensors.keys()
    codes = [tmp_path / "stream.crumb", tmp_path / "archive.crumb"]
    for packed in codes:
        crumb("quantize", packed.with_suffix(".pt"), "-o", packed, "--weights", "int8:channel", "--key", "float32")
    assert_same(*(values(packed.with_suffix(".pt")) for packed in codes))


def test_wrappers_parameters_and_a_tensor_alone(values, tmp_path):
    net = torch.nn.Linear(5, 3)
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.randn(2, 5)).sum().backward()
    optimizer.step()
    save_stream({"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, tmp_path / "m.pth")
    assert_same(values(tmp_path / "m.pth"), net.state_dict())
    states = optimizer.state_dict()["state"]
    assert_same(
        values(tmp_path / "m.pth", "--key", "optimizer"),
        {f"state.{i}.{name}": value for i, state in states.items() for name, value in state.items()},
    )
    save_stream(net.weight, tmp_path / "weight.pt")
    assert_same(values(tmp_path / "weight.pt"), {"weight": net.weight})
    folder = tmp_path / "folder"
    folder.mkdir()
    save_stream(net.state_dict(), folder / "pytorch_model.bin")
    assert_same(values(folder), net.state_dict())


def as_module(pickler):
    """What torch.save takes as its pickle_module."""
    return SimpleNamespace(
        __name__=pickler.__name__, Pickler=pickler, dump=lambda value, file, protocol: pickler(file, protocol).dump(value)
    )


class ViewPickler(pickle._Pickler):
    """Makes of each storage its last two thirds, as a view of the whole, which torch wrote before version 0.4."""

    def save_pers(self, pid):
        name, kind, key, location, count, _ = pid
        first = count // 3
        super().save_pers((name, kind, key, location, count, (key + "0", first, count - first)))


def test_views_of_storages(values, tmp_path):
    base, small = torch.arange(60.0), torch.arange(30, dtype=torch.int16)
    saved = {"start": base[:10], "part": base[7:25].reshape(3, 6).t(), "small": small[3:20:2], "empty": base[:0]}
    save_stream(saved, tmp_path / "m.pt", pickle_module=as_module(ViewPickler))
    loaded = torch.load(tmp_path / "m.pt", weights_only=False)
    assert torch.equal(loaded["start"], base[20:30]) and torch.equal(loaded["small"], small[13:30:2])
    assert_same(values(tmp_path / "m.pt"), loaded)


def test_files_of_python_2(values, tmp_path):
    saved, tensors = drawn_object(np.random.default_rng(5), OLD_DTYPES)
    saved["head"] = torch.nn.BatchNorm1d(4).state_dict()  # with metadata, which is the dictionary's state
    saved["seed"], saved["text"], saved["nothing"] = 2**40, "x" * 300, OrderedDict()
    tensors |= {f"head.{name}": tensor for name, tensor in saved["head"].items()}
    save_stream(saved, tmp_path / "m.pt", pickle_module=as_module(Python2Pickler))
    assert b"I1099511627776\n" in (tmp_path / "m.pt").read_bytes()
    loaded = torch.load(tmp_path / "m.pt", weights_only=False)  # what is written is what torch reads
    assert loaded["seed"] == 2**40 and type(loaded["nothing"]) is OrderedDict
    for dtype in ("float32", "int64", "bool"):
        pairs = zip(loaded[dtype]["views"], saved[dtype]["views"], strict=True)
        assert all(torch.equal(found, wanted) for found, wanted in pairs)
    assert_same(values(tmp_path / "m.pt"), tensors)


class Evil:
    """A pickle of this runs a command where pickles are executed."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_what_is_outside_the_allow_list_is_refused_by_name(refusal, tmp_path):
    trace, path = tmp_path / "was_here", tmp_path / "m.pt"
    save_stream({"w": torch.zeros(2), "x": Evil(trace)}, path)
    assert "os.system" in refusal(path) and not trace.exists()
    save_stream(torch.nn.Linear(2, 2), path)
    said = refusal(path)
    assert "'torch.nn.modules.linear.Linear'" in said and "state_dict()" in said
    # The pickles around the object need no names at all.
    header = pickle.dumps(0x1950A86A20F9469CFC6C, 2)
    path.write_bytes(header + pickle.dumps(Evil(trace), 2))
    assert "system'" in refusal(path) and "expected numbers" in refusal(path) and not trace.exists()


def test_damaged_streams(refusal, tmp_path):
    path = tmp_path / "m.pt"
    state = OrderedDict(w=torch.arange(100.0), v=torch.ones(3, dtype=torch.int16))
    save_stream(state, path)
    whole = path.read_bytes()
    # The list of storages is sorted by key: find out which of the two is last.
    last = "w" if whole.endswith(state["w"].numpy().tobytes()) else "v"
    bytes_of_last = state[last].numpy().nbytes
    at = len(whole) - bytes_of_last - 8
    counts = {"w": 100, "v": 3}

    def said(content):
        path.write_bytes(content)
        return refusal(path)

    assert f"takes {bytes_of_last} bytes behind its count, of which {bytes_of_last - 1} are there" in said(whole[:-1])
    assert f"at byte {at} begins with a count of 8" in said(whole[: at + 3])
    for wrong in (counts[last] + 1, -1, 2**63 - 1):
        message = said(whole[:at] + struct.pack("<q", wrong) + whole[at + 8 :])
        assert f"at byte {at} has the count {wrong}, but" in message and f"{counts[last]} elements" in message
    assert "goes on for 4 bytes behind its last storage" in said(whole + b"more")
    assert "goes on for" in said(whole + whole)
    big = whole.replace(b"little_endianq\x02\x88", b"little_endianq\x02\x89", 1)
    assert big != whole and "'little_endian' is False, expected True" in said(big)
    assert "the version of the form is 1002, expected 1001" in said(whole.replace(b"M\xe9\x03", b"M\xea\x03", 1))
    for size in (40, len(whole) // 4, at - 20):
        assert "cut short" in said(whole[:size]), size
