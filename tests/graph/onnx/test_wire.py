"""Models are read off their bytes: whatever way a writer of protobuf may put a message, it is the same graph.

Messages are written anew from what Google's own library reads: fields in another order, lists of numbers packed, one by one,
or in pieces, numbers of more bytes than they need, fields that nobody knows among them.
"""

import struct
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from google.protobuf.descriptor import FieldDescriptor as D
from onnx import TensorProto as T
from onnx import helper as h

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "runtime"))
from test_integers import draw_network  # noqa: E402

VARINTS = {D.TYPE_INT32, D.TYPE_INT64, D.TYPE_UINT32, D.TYPE_UINT64, D.TYPE_ENUM, D.TYPE_BOOL}


def varint(number, rng=None):
    number &= 2**64 - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    if rng is not None and len(out) < 9 and rng.random() < 0.1:  # zeros on top
        out[-1] |= 128
        out.append(0)
    return bytes(out)


def tag(number, kind):
    return varint(number << 3 | kind)


def one(field, value, rng):
    """A value behind its tag's kind, and that kind."""
    if field.type in VARINTS:
        return 0, varint(int(value), rng)
    if field.type == D.TYPE_FLOAT:
        return 5, struct.pack("<f", value)
    if field.type == D.TYPE_DOUBLE:
        return 1, struct.pack("<d", value)
    content = rewritten(value, rng) if field.type == D.TYPE_MESSAGE else value.encode() if isinstance(value, str) else value
    return 2, varint(len(content), rng) + content


def pieces(field, values, rng):
    """A list of numbers: some one by one, some packed."""
    made, at = [], 0
    while at < len(values):
        count = int(rng.integers(1, len(values) - at + 1))
        if count == 1 or rng.random() < 0.2:
            kind, content = one(field, values[at], rng)
            made.append(tag(field.number, kind) + content)
            count = 1
        else:
            run = b"".join(one(field, v, rng)[1] for v in values[at : at + count])
            made.append(tag(field.number, 2) + varint(len(run), rng) + run)
        at += count
    return made


def rewritten(message, rng):
    """The bytes of a message, in another way."""
    runs = []  # what keeps its order
    for field, value in message.ListFields():
        if field.is_repeated if hasattr(field, "is_repeated") else field.label == D.LABEL_REPEATED:
            numbers = field.type in VARINTS or field.type in (D.TYPE_FLOAT, D.TYPE_DOUBLE)
            runs.append(pieces(field, list(value), rng) if numbers else [tag(field.number, 2) + one(field, v, rng)[1] for v in value])
        else:
            kind, content = one(field, value, rng)
            runs.append([tag(field.number, kind) + content])
            if field.type not in (D.TYPE_MESSAGE, D.TYPE_BYTES) and rng.random() < 0.1 and field.containing_oneof is None:
                other, old = one(field, "" if field.type == D.TYPE_STRING else 0, rng)
                runs[-1].insert(0, tag(field.number, other) + old)  # the last one counts
    runs += [[tag(int(rng.integers(1000, 9000)), 0) + varint(int(rng.integers(0, 99)))] for _ in range(rng.random() < 0.3)]
    out = []
    while runs:
        at = int(rng.integers(0, len(runs)))
        out.append(runs[at].pop(0))
        if not runs[at]:
            runs.pop(at)
    return b"".join(out)


def typed_model():
    """A constant of each type, by its typed field where it has one."""
    rng = np.random.default_rng(7)
    tensors = []
    for kind, dtype in ((T.FLOAT, "f4"), (T.DOUBLE, "f8"), (T.INT8, "i1"), (T.INT16, "i2"), (T.INT32, "i4"), (T.INT64, "i8"),
                        (T.UINT8, "u1"), (T.UINT16, "u2"), (T.UINT32, "u4"), (T.UINT64, "u8"), (T.BOOL, "?"),
                        (T.FLOAT16, "f2"), (T.BFLOAT16, ml_dtypes.bfloat16), (T.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn)):  # fmt: skip
        values = rng.integers(-100 if np.dtype(dtype).kind in "if" else 0, 100, 40).astype(dtype)
        tensors.append(h.make_tensor(f"t{kind}", kind, [5, 8], values))
    nodes = [h.make_node("Cast", [tensor.name], [f"y{tensor.name}"], to=T.FLOAT) for tensor in tensors]
    nodes.append(h.make_node("LeakyRelu", ["x"], ["y"], alpha=0.25))
    nodes.append(h.make_node("Constant", [], ["c"], value_floats=[1.5, -2.5, 3]))
    nodes.append(h.make_node("Constant", [], ["d"], value_ints=[-1, 2**40, 3]))
    outs = [h.make_tensor_value_info(f"y{tensor.name}", T.FLOAT, [5, 8]) for tensor in tensors]
    outs += [h.make_tensor_value_info("y", T.FLOAT, ["n", 3]), h.make_tensor_value_info("c", T.FLOAT, [3]),
             h.make_tensor_value_info("d", T.INT64, [3])]  # fmt: skip
    graph = h.make_graph(nodes, "typed", [h.make_tensor_value_info("x", T.FLOAT, ["n", 3])], outs, tensors)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 19)], ir_version=9)


@pytest.fixture
def canonical(crumb, tmp_path):
    """What a model is, in the one way in which Crumb writes it."""

    def of(content):
        (tmp_path / "in.onnx").write_bytes(content)
        crumb("passes", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "remove-identities")
        return (tmp_path / "out.onnx").read_bytes()

    return of


def check(canonical, model, rounds):
    expected = canonical(model.SerializeToString())
    for seed in range(rounds):
        content = rewritten(model, np.random.default_rng(seed))
        again = type(model)()
        again.ParseFromString(content)  # Google's library says that it is the same message
        again.DiscardUnknownFields()
        assert again == model
        assert canonical(content) == expected, seed


def test_typed_constants(canonical):
    check(canonical, typed_model(), 30)


@pytest.mark.parametrize("part", range(3))
def test_drawn_networks(canonical, part):
    for seed in range(part * 12, part * 12 + 12):
        check(canonical, draw_network(seed)[0], 3)


def test_real_models(canonical, networks):
    small = [path for path in sorted(networks.glob("*.onnx")) if path.stat().st_size < 400_000]
    assert len(small) >= 5
    for path in small:
        check(canonical, onnx.load(path), 2)


def test_the_newest_operator_set_is_that_of_the_library(crumb, tmp_path):
    def model(opset):
        graph = h.make_graph([h.make_node("Neg", ["x"], ["y"])], "g", [h.make_tensor_value_info("x", T.FLOAT, [1])],
                             [h.make_tensor_value_info("y", T.FLOAT, [1])])  # fmt: skip
        (tmp_path / "m.onnx").write_bytes(h.make_model(graph, opset_imports=[h.make_opsetid("", opset)]).SerializeToString())
        return tmp_path / "m.onnx"

    newest = onnx.defs.onnx_opset_version()
    crumb("inspect", model(newest))
    assert f"supported are 1 to {newest}" in crumb("inspect", model(newest + 1), status=1).stderr
