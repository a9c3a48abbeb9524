"""Graphs in another operator set: files before and after, one for each operator, run in onnxruntime."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

TARGETS = (13, 21)


def i64(*numbers):
    return np.array(numbers, np.int64)


def f32(*numbers):
    return np.array(numbers, np.float32)


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


class Case:
    """One node at some operator sets. `x`: its input; `near`: computed in another order, so equal to rounding."""

    def __init__(self, name, opsets, op, inputs="x", constants=None, x=(2, 3, 4, 6), outputs="y", near=False, domain="", **attributes):  # fmt: skip
        self.name, self.opsets, self.op, self.near = name, opsets, op, near
        self.x = random(*x, seed=7) if isinstance(x, tuple) else x
        self.constants = constants or {}
        self.inputs, self.outputs, self.attributes = inputs.split(" ") if inputs else [], outputs.split(), attributes
        self.domain = domain

    def model(self, opset):
        node = helper.make_node(self.op, self.inputs, self.outputs, name="node", domain=self.domain, **self.attributes)
        kind = helper.np_dtype_to_tensor_dtype(self.x.dtype)
        # A node before and behind, so that values are made and taken.
        nodes = [helper.make_node("Identity", ["in"], ["x"]), node]
        graph = helper.make_graph(
            nodes, "g",
            [helper.make_tensor_value_info("in", kind, self.x.shape)],
            [helper.ValueInfoProto(name=name) for name in self.outputs],
            [numpy_helper.from_array(np.asarray(value), name) for name, value in self.constants.items()],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset < 21 else 10)
        inferred = onnx.shape_inference.infer_shapes(model)
        known = {value.name: value for value in inferred.graph.output}
        for output in model.graph.output:
            output.CopyFrom(known[output.name])
        return model


NEW = (18, 20, 21, 23)
OLD = (8, 9, 11, 12)
EVERY = (9, 11, 13, 17, 18, 21, 23)
BN = {name: np.abs(random(3, seed=i)) + 0.5 for i, name in enumerate(["s", "b", "m", "v"])}
CASES = [
    Case("clip attributes", (7, 8, 9, 10), "Clip", min=-0.5, max=0.75),
    Case("clip one attribute", (7, 10), "Clip", max=0.75),
    Case("clip inputs", (11, 12, 13, 21), "Clip", "x  high", {"high": np.float32(0.5)}),
    Case("squeeze attribute", (9, 11, 12), "Squeeze", x=(2, 1, 3, 1), axes=[1, 3]),
    Case("squeeze attribute, from behind", (11,), "Squeeze", x=(2, 1, 3, 1), axes=[-1]),
    Case("squeeze all", EVERY, "Squeeze", x=(2, 1, 3, 1)),
    Case("squeeze input", (13, 18, 21, 23), "Squeeze", "x a", {"a": i64(1)}, x=(2, 1, 3, 1)),
    Case("unsqueeze attribute", (9, 11), "Unsqueeze", axes=[0, 3]),
    Case("unsqueeze input", (13, 21, 23), "Unsqueeze", "x a", {"a": i64(-1)}),
    *(
        Case(f"{op} {what}", opsets, op, inputs, constants, **attributes)
        for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare",
                   "ReduceLogSumExp", "ReduceProd")
        for what, opsets, inputs, constants, attributes in (
            ("axes attribute", (9, 11) if op == "ReduceSum" else (9, 11, 13, 17), "x", {}, {"axes": [1, 2], "keepdims": 0}),
            ("axes input", (13, 18, 21) if op == "ReduceSum" else (18, 20, 21), "x a", {"a": i64(1, -1)}, {}),
            ("all", EVERY, "x", {}, {"keepdims": 0}),
        )
    ),
    Case("reduce nothing", (18, 21), "ReduceMean", noop_with_empty_axes=1),
    Case("reduce nothing, axes empty", (13, 18), "ReduceSum", "x a", {"a": i64()}, noop_with_empty_axes=1),
    Case("reduce all, axes empty", (18,), "ReduceMax", "x a", {"a": i64()}),
    Case("split attribute", (9, 11), "Split", outputs="y z", axis=3, split=[2, 4]),
    Case("split equal", (9, 11, 13, 17), "Split", outputs="y z", axis=2),
    Case("split input", (13, 18, 21), "Split", "x s", {"s": i64(1, 5)}, outputs="y z", axis=-1),
    Case("split into equal", (18, 21), "Split", outputs="y z", axis=2, num_outputs=2),
    Case("split into unequal", (18, 23), "Split", x=(2, 7), outputs="y z w", axis=1, num_outputs=3),
    *(
        Case(f"{op} axis {axis}, {x}", opsets, op, x=x, axis=axis, near=op == "LogSoftmax" or axis in (1, -2))
        for op in ("Softmax", "LogSoftmax", "Hardmax")
        for axis, x in ((1, (2, 3, 4)), (2, (2, 3, 4)), (1, (2, 3, 1, 1)), (0, (2, 3)))
        for opsets in ((9, 11, 12), (13, 18, 21))
    ),
    Case("softmax from behind", (11,), "Softmax", x=(2, 3, 4), axis=-2, near=True),
    Case("softmax, its axis not said", (9, 11, 13, 18), "Softmax", x=(2, 3, 4), near=True),
    Case("pad attribute", (7, 9, 10), "Pad", pads=[0, 0, 1, 2, 0, 0, 3, 0], value=0.5),
    Case("pad attribute, reflected", (9,), "Pad", mode="reflect", pads=[0, 0, 1, 2, 0, 0, 3, 0]),
    Case("pad input", (11, 13, 18, 19, 21, 23), "Pad", "x p v", {"p": i64(0, 0, 1, 2, 0, 1, 0, 0), "v": np.float32(2)}),
    Case("pad axes", (18, 21), "Pad", "x p  a", {"p": i64(1, 2, 3, 0), "a": i64(-1, 1)}),
    Case("pad edges", (11, 18), "Pad", "x p", {"p": i64(0, 0, 1, 2, 0, 1, 0, 0)}, mode="edge"),
    Case("dropout", (7, 9, 10), "Dropout", ratio=0.3),
    Case("dropout inputs", (12, 13, 18, 22), "Dropout", "x r", {"r": np.float32(0.3)}),
    Case("dropout, not in training", (12, 13), "Dropout", "x r t", {"r": np.float32(0.3), "t": np.bool_(False)}),
    Case("batch norm", (7, 8, 9, 11, 13, 14, 15, 18), "BatchNormalization", "x s b m v", BN, epsilon=1e-3),
    Case("batch norm, its training off", (14, 21), "BatchNormalization", "x s b m v", BN, training_mode=0),
    Case("upsample", (7, 8), "Upsample", mode="nearest", scales=[1.0, 1.0, 2.0, 3.0]),
    Case("upsample input", (9,), "Upsample", "x u", {"u": f32(1, 1, 2, 3)}, mode="nearest"),
    Case("upsample linear", (9,), "Upsample", "x u", {"u": f32(1, 1, 2, 2)}, mode="linear", near=True),
    Case("resize 10", (10,), "Resize", "x u", {"u": f32(1, 1, 2, 3)}, mode="nearest"),
    Case("resize scales", (13, 18, 19, 21), "Resize", "x  u", {"u": f32(1, 1, 2, 1.5)}, mode="linear"),
    Case("resize scales, roi", (11,), "Resize", "x r u", {"r": f32(), "u": f32(1, 1, 2, 1.5)}, mode="linear"),
    Case("resize sizes", (13, 18, 19), "Resize", "x   n", {"n": i64(2, 3, 7, 5)}, mode="nearest"),
    Case("resize, written out", (18, 19), "Resize", "x  u", {"u": f32(1, 1, 2, 2)}, antialias=0, keep_aspect_ratio_policy="stretch"),
    Case("cast", (9, 13, 19, 21, 23), "Cast", to=TensorProto.INT32),
    Case("cast, saturating", (19, 21), "Cast", to=TensorProto.FLOAT16, saturate=1),
    Case("slice attributes", (7, 9), "Slice", starts=[1, 0], ends=[3, -1], axes=[1, 3]),
    Case("slice inputs", (10, 11, 13, 23), "Slice", "x b e a s", {"b": i64(3), "e": i64(0), "a": i64(2), "s": i64(-1)}),
    Case("top k", (8, 9), "TopK", outputs="y i", k=2),
    Case("top k input", (10, 11, 13, 23), "TopK", "x k", {"k": i64(2)}, outputs="y i"),
    Case("reshape", EVERY, "Reshape", "x t", {"t": i64(0, -1, 2)}),
    Case("reshape allowzero", (14, 21), "Reshape", "x t", {"t": i64(-1, 2)}, allowzero=1),
    Case("shape", EVERY, "Shape"),
    Case("shape of some", (15, 19, 21, 23), "Shape", start=1, end=-1),
    Case("shape of the last", (15, 21), "Shape", start=-2),
    Case("scatter", (11, 13, 16, 18, 21), "ScatterElements", "x i u", {"i": np.zeros((1, 1, 1, 1), np.int64), "u": random(1, 1, 1, 1)}),
    Case("scatter, said to reduce nothing", (16, 18), "ScatterND", "x i u", {"i": i64(1).reshape(1, 1), "u": random(1, 3, 4, 6)}, reduction="none"),
    Case("argmax", (9, 11, 12, 13, 21), "ArgMax", axis=1),
    Case("argmax, the first", (12, 13, 18), "ArgMax", axis=1, select_last_index=0),
    Case("gemm", (9, 11, 13, 18), "Gemm", "x w b", {"w": random(6, 4), "b": random(4)}, x=(3, 6), alpha=0.5),
    Case("constant", (12, 13, 19, 21), "Constant", "", value_floats=[1.0, 2.0]),
    Case("average pool", (10, 11, 19, 22), "AveragePool", kernel_shape=[2, 2], count_include_pad=1, pads=[1, 1, 1, 1], near=True),
    Case("average pool, not dilated", (19, 22), "AveragePool", kernel_shape=[2, 2], ceil_mode=1, near=True),
    Case("max pool", (8, 10, 11, 12, 22), "MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
    Case("lp pool", (11, 18, 22), "LpPool", kernel_shape=[2, 2], p=2),
    Case("conv", (9, 11, 13, 22), "Conv", "x w", {"w": random(2, 3, 3, 3)}),
    Case("gru", (7, 14, 22), "GRU", "x w r", {"w": random(1, 15, 4), "r": random(1, 15, 5)}, x=(3, 2, 4), outputs="y", hidden_size=5),
    Case("lstm", (7, 14, 22), "LSTM", "x w r", {"w": random(1, 20, 4), "r": random(1, 20, 5)}, x=(3, 2, 4), hidden_size=5),
    Case("rnn, time first", (14, 22), "RNN", "x w r", {"w": random(1, 5, 4), "r": random(1, 5, 5)}, x=(3, 2, 4), hidden_size=5, layout=0),
    Case("quantize", (10, 13, 19, 21, 23), "QuantizeLinear", "x s z", {"s": np.float32(0.1), "z": np.uint8(3)}),
    Case("quantize, type said", (21, 23), "QuantizeLinear", "x s", {"s": np.float32(0.1)}, output_dtype=TensorProto.INT8),
    Case("quantize, saturating", (19, 21), "QuantizeLinear", "x s z", {"s": np.float32(0.1), "z": np.uint8(3)}, saturate=1),
    Case("dequantize", (13, 19, 21), "DequantizeLinear", "x s", {"s": f32(0.1, 0.2, 0.3)}, x=np.arange(12, dtype=np.uint8).reshape(4, 3), axis=1),
    Case("dequantize in blocks of nothing", (21, 23), "DequantizeLinear", "x s", {"s": np.float32(0.1)}, x=np.arange(12, dtype=np.uint8), block_size=0),
    Case("roi align", (10,), "RoiAlign", "x r b", {"r": f32(0, 0, 3, 3).reshape(1, 4), "b": i64(0)}, output_height=2, output_width=2),
    Case("roi align, as of old", (16, 22), "RoiAlign", "x r b", {"r": f32(0, 0, 3, 3).reshape(1, 4), "b": i64(0)}, output_height=2, output_width=2,
         coordinate_transformation_mode="output_half_pixel"),
    Case("cumsum", (11, 14), "CumSum", "x a", {"a": np.int64(1)}),
    Case("relu", EVERY, "Relu"),
    Case("elu", EVERY, "Elu"),
    # By simpler operators, in operator sets that have none.
    Case("layer norm", (17, 18, 21, 23), "LayerNormalization", "x s b", {"s": random(6), "b": random(6, seed=3)}, near=True),
    Case("layer norm, two axes", (17, 21), "LayerNormalization", "x s", {"s": random(4, 6)}, axis=2, epsilon=0.1, near=True),
    Case("layer norm, its mean", (17, 21), "LayerNormalization", "x s b", {"s": random(6), "b": random(6)}, outputs="y m d", near=True),
    Case("gelu", (20, 21, 23), "Gelu", near=True),
    Case("gelu by tanh", (20, 23), "Gelu", approximate="tanh", near=True),
    Case("rms norm", (23,), "RMSNormalization", "x s", {"s": random(6)}, near=True),
    Case("triangle", (14, 18, 21), "Trilu", "x k", {"k": np.int64(1)}),
    Case("lower triangle", (14, 21), "Trilu", x=np.arange(20).reshape(4, 5), upper=0),
    Case("hard swish", (14, 22), "HardSwish", near=True),
    Case("mish", (18, 22), "Mish", near=True),
    Case("swish", (24,), "Swish", alpha=1.5, near=True),
    Case("cast like", (15, 19, 21), "CastLike", "x t", {"t": i64(1)}),
    Case("greater or equal", (12, 16), "GreaterOrEqual", "x t", {"t": np.float32(0)}),
    Case("celu", (12,), "Celu", alpha=0.5, near=True),
]  # fmt: skip
# What cannot be said, and the word that says why.
REFUSED = [
    (Case("reduction", (18,), "ScatterElements", "x i u", {"i": np.zeros((1, 1, 1, 1), np.int64), "u": random(1, 1, 1, 1)}, reduction="max"), 13, "reduction"),
    (Case("reduction", (16,), "ScatterND", "x i u", {"i": i64(1).reshape(1, 1), "u": random(1, 3, 4, 6)}, reduction="add"), 13, "'reduction'"),
    (Case("wrapped", (19,), "Pad", "x p", {"p": i64(0, 0, 1, 1, 0, 0, 1, 1)}, mode="wrap"), 13, "'wrap'"),
    (Case("antialias", (18,), "Resize", "x  u", {"u": f32(1, 1, .5, .5)}, mode="linear", antialias=1), 13, "antialias"),
    (Case("dilated", (19,), "AveragePool", kernel_shape=[2, 2], dilations=[2, 2]), 13, "'dilations'"),
    (Case("bits", (18,), "BitwiseNot", x=np.arange(4)), 13, "does not exist in operator set 13"),
    (Case("time", (14,), "RNN", "x w r", {"w": random(1, 5, 4), "r": random(1, 5, 5)}, x=(2, 3, 4), hidden_size=5, layout=1), 13, "'layout'"),
    (Case("pictures", (16,), "GridSample", "x g", {"g": np.tanh(random(2, 3, 3, 2))}, mode="bilinear"), 13, "does not exist"),
    (Case("half_pixel", (16,), "RoiAlign", "x r b", {"r": f32(0, 0, 3, 3).reshape(1, 4), "b": i64(0)}, output_height=2, output_width=2), 13, "half_pixel"),
]  # fmt: skip


def execute(model, x):
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"in": x})


@pytest.mark.parametrize(("case", "opset"), [(c, o) for c in CASES for o in c.opsets], ids=lambda part: str(getattr(part, "name", part)))
def test_the_network_stays(crumb, tmp_path, case, opset):
    before = case.model(opset)
    onnx.save(before, tmp_path / "before.onnx")
    try:
        expected, reason = execute(before, case.x), None
    except Exception as error:  # noqa: BLE001: onnxruntime lacks some operators at some versions
        expected, reason = None, error
    for target in TARGETS:
        after = tmp_path / f"after{target}.onnx"
        crumb("passes", tmp_path / "before.onnx", "-o", after, f"opset-{target}")
        model = onnx.load(after)
        onnx.checker.check_model(model, full_check=True)
        assert [entry.version for entry in model.opset_import if entry.domain == ""] == [target]
        assert [value.name for value in model.graph.output] == case.outputs
        if expected is None:
            continue
        for ours, theirs in zip(execute(model, case.x), expected, strict=True):
            assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, target
            if case.near:
                np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6, err_msg=f"to {target}")
            else:
                np.testing.assert_array_equal(ours, theirs, err_msg=f"to {target}")
    if expected is None:
        what = str(reason).splitlines()[0]
        pytest.skip(f"onnxruntime cannot run it in operator set {opset}, so its outputs were compared with nothing: {what}")


@pytest.mark.parametrize(("case", "target", "word"), REFUSED, ids=[word for _, _, word in REFUSED])
def test_what_cannot_be_said_is_refused_by_name(crumb, tmp_path, case, target, word):
    onnx.save(case.model(case.opsets[0]), tmp_path / "m.onnx")
    done = crumb("passes", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", f"opset-{target}", status=1)
    assert "'node'" in done.stderr and word in done.stderr
    assert not (tmp_path / "o.onnx").exists()


@pytest.mark.parametrize(("opset", "target", "mode"), [(16, 21, "linear"), (20, 17, "bicubic")])
def test_grids_are_sampled_by_other_names(crumb, tmp_path, opset, target, mode):
    old, new = {"linear": ("bilinear", "linear"), "bicubic": ("cubic", "bicubic")}[mode]
    case = Case(mode, (opset,), "GridSample", "x g", {"g": np.tanh(random(2, 3, 3, 2))}, mode=old)
    onnx.save(case.model(opset), tmp_path / "before.onnx")
    crumb("passes", tmp_path / "before.onnx", "-o", tmp_path / "after.onnx", f"opset-{target}")
    model = onnx.load(tmp_path / "after.onnx")
    assert model.graph.node[-1].attribute[0].s.decode() == new
    expected, found = execute(case.model(opset), case.x)[0], execute(model, case.x)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_attention_goes_by_its_definition(crumb, tmp_path):
    """Attention came with operator set 23; its body is a dozen operators that older sets have."""
    heads = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3, 5, 8]) for name in "qkv"]
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], name="attend", is_causal=0)
    graph = helper.make_graph([node], "g", heads, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3, 5, 8])])
    before = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    onnx.save(before, tmp_path / "before.onnx")
    q, k, v = (random(2, 3, 5, 8, seed=i) for i in range(3))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(8)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    for target in TARGETS:
        crumb("passes", tmp_path / "before.onnx", "-o", tmp_path / "after.onnx", f"opset-{target}")
        model = onnx.load(tmp_path / "after.onnx")
        onnx.checker.check_model(model, full_check=True)
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(session.run(None, {"q": q, "k": k, "v": v})[0], expected, rtol=1e-5, atol=1e-6)
