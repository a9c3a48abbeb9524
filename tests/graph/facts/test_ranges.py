"""The ranges that `verify --accumulator` claims hold, for every operator that it claims one for.

Thousands of networks quantizer -> operator -> dense layer (range_networks.py) run on random and extreme inputs in
onnxruntime, in qonnx (its own operators) and in Crumb's engine (all); every sum lies in what is claimed, or the range is
unknown. So that this proves something: of every operator most networks are known, and inputs reach both ends of what is
claimed.
"""

import collections
import json
import os
import re

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from range_makers import MAKERS  # noqa: E402
from range_networks import GENERAL, LAST, WEIGHT_SCALE, Batch, only_outputs  # noqa: E402

SLOW = os.environ.get("CRUMB_SLOW", "0") not in ("", "0")
NETWORKS = 100  # in one file
OPSETS = [10, 11, 12, 13, 17, 18, 21]
RUNS = ["random", "mixed", "mixed", *["flat"] * 7]
OFF_GRID = 0.05  # of a step: averages in float32


def draw(seed, form, rows=None):
    """A file of networks, of these rows or any."""
    rng = np.random.default_rng(seed)
    opsets = [opset for opset in OPSETS if form != "raw" or opset >= 11]
    b = Batch(rng, opsets[int(rng.integers(len(opsets)))], form)
    if form == "raw":  # a node that has no words in QONNX
        codes = b.node("DynamicQuantizeLinear", [b.value([2])], outputs=3)[0]
        b.finish(None, b.node("Cast", [codes], to=onnx.TensorProto.FLOAT))
    fitting = [row for row in rows or MAKERS if form in MAKERS[row][1] and MAKERS[row][2] <= b.opset]
    for i in range(NETWORKS if fitting else 0):
        row = fitting[i % len(fitting)]
        b.finish(row, MAKERS[row][0](b))
    return b


def claims_of(crumb, path):
    """Types that the drawn attributes claim are mostly false, which is a failure: the ranges are printed all the same."""
    done = json.loads(crumb("verify", path, "--accumulator", "--json", status=None).stdout)
    return {layer["name"]: layer for layer in done["layers"]}


def session_of(model):
    """Nothing where onnxruntime has no kernel for a node."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.enable_mem_reuse = False  # by shapes that its inference gets wrong: ceil_mode
    try:
        return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001 (onnxruntime's own, of several types)
        return None


class Runtime:
    """onnxruntime on a file; networks that it has no kernels for are left out."""

    def __init__(self, model, outputs):
        self.left_out = []
        whole = session_of(model)
        self.sessions = [(whole, outputs)] if whole else []
        for one in [] if whole else outputs:
            session = session_of(only_outputs(model, [one]))
            if session:
                self.sessions.append((session, [one]))
            else:
                self.left_out.append(one)

    def run(self, x):
        made = {}
        for session, outputs in self.sessions:
            made.update(zip(outputs, session.run(outputs, {"x": x}), strict=True))
        return made


def of_qonnx(model, outputs):
    wrapper = pytest.importorskip("qonnx.core.modelwrapper").ModelWrapper
    execute = pytest.importorskip("qonnx.core.onnx_exec").execute_onnx
    from qonnx.transformation.infer_shapes import InferShapes

    wrapped = wrapper(only_outputs(model, outputs)).transform(InferShapes())
    return lambda x: execute(wrapped, {"x": x})


class Tally:
    def __init__(self):
        self.made, self.known = collections.Counter(), collections.Counter()
        self.ends = collections.Counter()

    def check(self, b, claims, runs, heads=None):
        """Every sum of these runs in what is claimed; counts what is known, and whether both ends are met."""
        for name, output in b.heads.items():
            row, claim = b.rows[name], claims.get(name)
            seen = [run[output] for run in runs if output in run]
            if row is None or not seen or claim is None:
                continue
            self.made[row] += 1
            if claim["input"] is None or "input_step" not in claim:
                continue
            self.known[row] += 1
            sums = np.concatenate([y.reshape(-1, 2) for y in seen]).astype(np.float64)
            sums = sums[~np.isnan(sums).any(1)] / (claim["input_step"] * WEIGHT_SCALE)
            low, high = claim["input"]
            what = f"{row} at {name} (opset {b.opset}, {b.form}): claimed {claim}"
            assert sums.min() >= claim["worst_min"] - OFF_GRID and sums.max() <= claim["worst_max"] + OFF_GRID, what
            levels = sums[:, 0]
            assert levels.min() >= low - OFF_GRID and levels.max() <= high + OFF_GRID, (what, levels.min(), levels.max())
            assert np.abs(levels - np.round(levels)).max() <= OFF_GRID, (what, "off its grid")
            if abs(levels.min() - low) <= OFF_GRID and abs(levels.max() - high) <= OFF_GRID:
                self.ends[row] += 1

    def judge(self, rows, least=5):
        few = {row: (self.known[row], self.made[row]) for row in rows if 2 * self.known[row] < self.made[row]}
        unmet = {row: (self.ends[row], self.known[row]) for row in rows if 3 * self.ends[row] < self.known[row]}
        rare = {row: self.made[row] for row in rows if self.made[row] < least}
        assert not few, f"mostly unknown: {few}"
        assert not unmet, f"ends that no input meets: {unmet}"
        assert not rare, f"hardly tried: {rare}"


def table_rows(repo):
    text = (repo / "graph/operator_traits.cpp").read_text()
    domains = {'""': "", "kQonnxDomain": GENERAL, "kChannelsLastDomain": "qonnx.custom_op.channels_last"}
    found = re.findall(r'^    \{(""|\w+),\s+"(\w+)",[^{}]*RangeForm::(?!kUnknown)', text, re.M)
    return {(domains[domain], op) for domain, op in found}


def test_every_row_has_a_maker(repo):
    by_hand = {("", "Upsample"), ("", "Constant")}  # tests/graph/facts/ranges_test.cpp
    assert table_rows(repo) - set(MAKERS) == by_hand
    assert set(MAKERS) <= table_rows(repo)


def test_onnxruntime_keeps_within_what_is_claimed(crumb, tmp_path):
    tally, left_out, made = Tally(), 0, 0
    for seed in range(900 if SLOW else 30):
        b = draw(seed, "qcdq" if seed % 2 else "raw")
        path = tmp_path / "m.onnx"
        onnx.save(b.model(), path)
        runtime = Runtime(b.model(), list(b.heads.values()))
        left_out, made = left_out + len(runtime.left_out), made + len(b.heads)
        tally.check(b, claims_of(crumb, path), [runtime.run(b.sample(kind)) for kind in RUNS])
    tally.judge([row for row, (_, forms, _) in MAKERS.items() if {"qcdq", "raw"} & set(forms) and row[1] != "Scatter"])
    assert left_out < made / 10


def test_qonnx_keeps_within_what_is_claimed(crumb, tmp_path):
    tally = Tally()
    windows = {"Im2Col", "MaxPoolNHWC"}  # qonnx wants shapes that its inference does not give
    rows = [row for row in MAKERS if row[0] == GENERAL and row[1] not in windows]
    for seed in range(100 if SLOW else 1):
        b = draw(2000 + seed, "qonnx", rows)
        path = tmp_path / "m.onnx"
        onnx.save(b.model(), path)
        run = of_qonnx(b.model(), list(b.heads.values()))
        tally.check(b, claims_of(crumb, path), [run(b.sample(kind)) for kind in (("random", "mixed", "flat", "flat") if SLOW else ("mixed", "flat"))])
    tally.judge(rows)


class OfEngine:
    """Crumb's own, which runs all of it."""

    def __init__(self, crumb, path, outputs):
        self.crumb, self.path, self.outputs = crumb, path, outputs

    def run(self, x):
        folder = self.path.parent
        np.save(folder / "x.npy", x)
        self.crumb("run", self.path, "--input", folder / "x.npy", "--output-dir", folder / "made", "--threads", 1)
        return {name: np.load(folder / "made" / f"{name}.npy") for name in self.outputs}


def extremes(b):
    """Inputs all high or all low, their opposites, and a mixture."""
    flat = b.sample("flat")
    return [flat, -flat, b.sample("mixed")]


def test_the_engine_keeps_within_what_is_claimed(crumb, engine, tmp_path):
    tally = Tally()
    alone = [(GENERAL, "Im2Col"), (GENERAL, "MaxPoolNHWC"), (LAST, "MaxPool")]  # nobody else runs them as they are drawn
    for seed in range(60 if SLOW else 4):
        b = draw(4000 + seed, "qcdq" if seed % 3 == 2 else "qonnx", [*MAKERS, *alone * 6])
        path = tmp_path / "m.onnx"
        onnx.save(b.model(), path)
        executor = OfEngine(crumb, path, list(b.heads.values()))
        tally.check(b, claims_of(crumb, path), [executor.run(x) for x in extremes(b)])
    tally.judge(alone)
