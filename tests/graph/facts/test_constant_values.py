"""What ConstantValues computes of constants is what onnxruntime and qonnx compute: exactly, and enough of it."""

import collections
import os

import numpy as np
import pytest

ort = pytest.importorskip("onnxruntime")
from constant_networks import MAKERS, Batch, numbers  # noqa: E402

SLOW = os.environ.get("CRUMB_SLOW", "0") not in ("", "0")
OPSETS = [8, 9, 10, 11, 12, 13, 15, 18, 21]
NETWORKS = 160  # in one file
# Two libraries' functions, each within a step of the truth, in float64; onnxruntime's own exp in float32.
ROUNDING = {"Exp": 3, "Pow": 2}
WIDE = [np.dtype(name) for name in ("float64", "int32", "int64", "uint32", "uint64")]


def executed(model):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {}), strict=True))


def check(found, y, what, rounding=0):
    """What is found of a constant is the array, element for element; `rounding`: to so many steps of the type."""
    assert not isinstance(found, str), (what, found)
    assert found["shape"] == list(y.shape), what
    assert found["wide"] == (y.dtype in WIDE) and found["whole"] == (y.dtype.kind in "iu"), (what, y.dtype)
    values = np.array(numbers(found["values"])).reshape(y.shape)
    if not rounding:
        assert np.array_equal(values, y.astype(np.float64), equal_nan=y.dtype.kind == "f"), (what, values, y)
        return
    values = values.astype(y.dtype)
    assert np.array_equal(np.isfinite(values), np.isfinite(y)), (what, values, y)
    assert np.array_equal(values[~np.isfinite(y)], y[~np.isfinite(y)], equal_nan=True), (what, values, y)
    values, y = values[np.isfinite(y)], y[np.isfinite(y)]
    assert (np.abs(values - y) <= rounding * np.spacing(np.abs(y))).all(), (what, values, y)


def draw(seed):
    rng = np.random.default_rng(seed)
    b = Batch(rng, OPSETS[seed % len(OPSETS)])
    for i in range(NETWORKS):
        MAKERS[i % len(MAKERS)](b)
    return b


def check_levels(found, scale, what):
    """Levels times this scale are the values; levels are whole, or odd halves by the zero point."""
    shape = found["shape"]
    if scale is None or not found["values"]:
        assert not found["levels"], what
        return
    levels = np.array(numbers(found["levels"])).reshape(shape)
    assert numbers(found["scale"]) == list(scale.reshape(-1)), what
    mine = np.array(numbers(found["scale"])).reshape(found["scale_shape"])
    values = np.array(numbers(found["values"])).reshape(shape)
    assert np.array_equal((levels.astype(np.float32) * mine).astype(np.float32), values, equal_nan=True), what
    spread = np.broadcast_to(mine, shape)
    if mine.ndim <= len(shape) and mine.size > 1:
        long = [1] * (len(shape) - mine.ndim) + list(mine.shape)
        assert found["one_scale_along"] == [n == 1 for n in long], what
    else:
        assert all(found["one_scale_along"]), what
    assert np.array_equal(spread, np.broadcast_to(scale, shape)), what


def judge(made, known, least, rows=()):
    """Of every row so many were tried, and of each at least this share is known."""
    few = {row: (known[row], made[row]) for row in made if known[row] < least.get(row[0], 0.9) * made[row] and row[1] != "float16"}
    assert not few, f"too little is known: {few}"
    rare = {row: made[row] for row in {*made, *rows} if made[row] < 5}
    assert not rare, f"hardly tried: {rare}"


def test_onnx_operators(facts, tmp_path):
    made, known = collections.Counter(), collections.Counter()
    for seed in range(900 if SLOW else 27):
        b = draw(seed)
        found, results = facts("constants", b.model(), tmp_path / "m.onnx"), executed(b.model())
        for name, row in b.rows.items():
            made[row] += 1
            if found[name] is None:
                continue
            known[row] += 1
            check(found[name], results[name], (row, name, b.opset), ROUNDING.get(row[0], 0))
            if name in b.scales:
                check_levels(found[name], b.scales[name], (row, name, b.opset))
    # Integers that may wrap around are not computed, nor ends of a Slice that are read in two ways.
    judge(made, known, {"Slice": 0.8, "Neg": 0.75, "Abs": 0.75, "Add": 0.75, "Sub": 0.75, "Mul": 0.75,
                        "Pow": 0.8, "Clip": 0.8, "Cast": 0.75})  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_quantizers(facts, tmp_path):
    pytest.importorskip("qonnx")
    from quantizer_networks import MAKERS as QUANTIZERS
    from quantizer_networks import Quantizers

    made, known = collections.Counter(), collections.Counter()
    for seed in range(900 if SLOW else 12):
        b = Quantizers(np.random.default_rng(seed), 14)
        for i in range(NETWORKS):
            QUANTIZERS[i % len(QUANTIZERS)](b)
        found = facts("constants", b.model(), tmp_path / "m.onnx")
        for name, row in b.rows.items():
            made[row] += 1
            if found[name] is None:
                continue
            known[row] += 1
            check(found[name], b.arrays[name], (row, name))
            if name in b.scales:
                check_levels(found[name], b.scales[name], (row, name))
    judge(made, known, {})
