"""onnxruntime's own operators: what its quantizer and its optimizer write runs here as it runs there, and goes to QCDQ and QONNX."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnxruntime_graphs import ONLY_WARN_OF_ERRORS, Drawn, compare_with_onnxruntime, feed, session  # noqa: E402


def of_two(op):
    def draw(d):
        kind, shape = d.kind(), (d.size(), d.size(), d.size())
        other = shape if d.random.random() < 0.5 else shape[-1:]
        d.node(op, [*d.quantized(shape, kind), *d.quantized(other, kind), d.scale(), d.zero(kind)])

    return draw


def of_one(op, **attributes):
    def draw(d):
        kind = d.kind()
        shape = (d.size(), d.size(), d.size(4, 7), d.size(4, 7))
        drawn = {key: value(d) if callable(value) else value for key, value in attributes.items()}
        d.node(op, [*d.quantized(shape, kind), d.scale(), d.zero(kind)], **drawn)

    return draw


def softmax(d):
    kind = d.kind()
    result = [d.constant(np.float32(1 / 256)), d.constant(kind(0 if kind == np.uint8 else -128))]
    d.node("QLinearSoftmax", [*d.quantized((d.size(), d.size(2, 9)), kind), *result], axis=-1, opset=int(d.random.choice([11, 13])))


def convolution(d):
    groups, out, each = d.size(1, 3), d.size(1, 4), d.size(1, 4)
    kind, channels = d.kind(), groups * out if d.random.random() < 0.5 else None
    weight = d.constant(d.codes((groups * out, each, 2, 3), np.int8))
    parts = [*d.quantized((d.size(1, 3), groups * each, 6, 7), kind), weight, d.scale(channels), d.constant(np.zeros(channels or (), np.int8))]
    bias = [d.constant(d.random.integers(-2000, 2000, size=groups * out).astype(np.int32))] if d.random.random() < 0.7 else []
    attributes = {"pads": [1, 0, 0, 2], "strides": [2, 1], "group": groups}
    d.node("QLinearConv", [*parts, d.constant(np.float32(0.4)), d.zero(kind), *bias], domain="", **attributes)


def convolution_of_last_channels(d):
    weight = d.constant(d.codes((4, 3, 2, 3), np.int8))
    parts = [*d.quantized((2, 6, 7, 3), np.uint8), weight, d.scale(), d.constant(np.int8(0)), d.constant(np.float32(0.4)), d.zero(np.uint8)]
    d.node("QLinearConv", parts, channels_last=1, pads=[1, 0, 0, 2])


def matrix_product(d):
    kind, terms, columns = d.kind(), d.size(), d.size()
    channels = columns if d.random.random() < 0.5 else None
    parts = [d.constant(d.codes((terms, columns), np.int8)), d.scale(channels), d.constant(np.zeros(channels or (), np.int8))]
    d.node("QLinearMatMul", [*d.quantized((d.size(), d.size(), terms), kind), *parts, d.constant(np.float32(0.1)), d.zero(kind)], domain="")


def gemm(d):
    kind, terms, columns, rows = d.kind(), d.size(), d.size(2), d.size()
    by_a, by_b = int(d.size(0, 2)), int(d.size(0, 2))
    weight = d.constant(d.codes((columns, terms) if by_b else (terms, columns), np.int8))
    channels = columns if d.random.random() < 0.5 else None
    parts = [weight, d.scale(channels), d.constant(np.zeros(channels or (), np.int8))]
    bias = d.constant(d.random.integers(-500, 500, size=columns).astype(np.int32)) if d.random.random() < 0.7 else ""
    result = [d.constant(np.float32(0.2)), d.zero(kind)] if d.random.random() < 0.7 else []
    shape = (terms, rows) if by_a else (rows, terms)
    d.node("QGemm", [*d.quantized(shape, kind), *parts, bias, *result], alpha=float(d.random.choice([1.0, 0.5])), transA=by_a, transB=by_b)


def concatenation(d):
    kind, shape = d.kind(), [d.size(), d.size(), d.size()]
    parts = []
    for _ in range(d.size(1, 4)):
        parts += d.quantized((shape[0], d.size(), shape[2]), kind)
    d.node("QLinearConcat", [d.scale(), d.zero(kind), *parts], axis=int(d.random.choice([1, -2])))


def where(d):
    kind, shape = d.kind(), (d.size(), d.size())
    d.node("QLinearWhere", [d.given(d.random.random(shape) < 0.5), *d.quantized(shape, kind), *d.quantized(shape, kind), d.scale(), d.zero(kind)])


def integer_product(d):
    terms, columns, kind = d.size(1, 40), d.size(), d.kind()
    zeros = [d.constant(kind(7)), d.constant(d.random.integers(-3, 3, size=columns).astype(np.int8))][: d.size(0, 3)]
    d.node("MatMulInteger", [d.given(d.codes((d.size(), terms), kind)), d.constant(d.codes((terms, columns), np.int8)), *zeros], domain="")


def integer_convolution(d):
    zeros = [d.constant(np.uint8(7)), d.constant(np.int8(0))][: d.size(0, 3)]
    d.node("ConvInteger", [d.given(d.codes((1, 3, 5, 6), np.uint8)), d.constant(d.codes((4, 3, 3, 2), np.int8)), *zeros], domain="", pads=[1] * 4)


def product_to_float(d):
    terms, columns, kind = d.size(1, 40), d.size(), d.kind()
    parts = [d.given(d.codes((d.size(), terms), kind)), d.constant(d.codes((terms, columns), np.int8)), d.scale(), d.scale(columns)]
    more = [d.zero(kind), "", d.constant(d.floats(columns))][: d.random.choice([0, 1, 3])]
    d.node("MatMulIntegerToFloat", [*parts, *more])


def dynamic_product(d):
    terms, columns = d.size(1, 40), d.size()
    more = ["", d.constant(d.floats(columns))] if d.random.random() < 0.5 else []
    d.node("DynamicQuantizeMatMul", [d.given(d.floats(d.size(), terms)), d.constant(d.codes((terms, columns), np.int8)), d.scale(), *more])


def fused_product(d):
    rows, terms, columns, outer = d.size(), d.size(), d.size(), d.size()
    by_a, by_b = int(d.size(0, 2)), int(d.size(0, 2))
    a = d.given(d.floats(*((outer, terms, rows) if by_a else (outer, rows, terms))))
    b = d.constant(d.floats(*((columns, terms) if by_b else (terms, columns))))
    d.node("FusedMatMul", [a, b], alpha=float(d.random.choice([1.0, 0.125])), transA=by_a, transB=by_b)


ACTIVATIONS = [("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.5]), ("HardSigmoid", [0.3, 0.4])]


def fused_convolution(d):
    activation, numbers = ACTIVATIONS[d.size(0, len(ACTIVATIONS))]
    more = {"activation_params": numbers} if numbers else {}
    inputs = [d.given(d.floats(2, 4, 6, 6)), d.constant(d.floats(3, 4, 3, 3)), d.constant(d.floats(3))]
    if activation == "Relu" and d.random.random() < 0.5:
        inputs.append(d.given(d.floats(2, 3, 4, 4)))
    d.node("FusedConv", inputs, activation=activation, **more)


def fused_gemm(d):
    activation, numbers = [("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("Sigmoid", {})][d.size(0, 3)]
    d.node("FusedGemm", [d.given(d.floats(3, 5)), d.constant(d.floats(4, 5)), d.constant(d.floats(4))], transB=1, activation=activation, **numbers)


def gelus(d):
    x = d.floats(d.size(), 8) * 3
    op = d.random.choice(["Gelu", "FastGelu", "QuickGelu", "BiasGelu", "biased FastGelu"])
    bias = [d.constant(d.floats(8))] if op in ("BiasGelu", "biased FastGelu") else []
    d.node(op.split()[-1], [d.given(x), *bias], **({"alpha": 1.3} if op == "QuickGelu" else {}))


def skip_norms(d):
    hidden, is_rms = 8 * d.size(), bool(d.size(0, 2))
    shape = (d.size(), d.size(), hidden)
    inputs = [d.given(d.floats(*shape)), d.given(d.floats(*shape)), d.constant(d.floats(hidden))]
    if not is_rms:
        inputs.append(d.constant(d.floats(hidden)))
    if d.random.random() < 0.5:
        inputs.append(d.constant(d.floats(hidden)))
    outputs = [f"y_{len(d.nodes)}", "", "", f"sum_{len(d.nodes)}"] if d.random.random() < 0.5 else 1
    d.node("SkipSimplifiedLayerNormalization" if is_rms else "SkipLayerNormalization", inputs, outputs, epsilon=1e-5)


def simplified_norm(d):
    d.node("SimplifiedLayerNormalization", [d.given(d.floats(2, 3, 8)), d.constant(d.floats(8))], domain="", axis=-1, epsilon=1e-6)


DRAWS = [
    of_two("QLinearAdd"), of_two("QLinearMul"), of_one("QLinearSigmoid"), of_one("QLinearLeakyRelu", alpha=0.1), softmax,
    of_one("QLinearAveragePool", kernel_shape=[2, 3], strides=[2, 1], pads=[1, 0, 0, 1], count_include_pad=lambda d: d.size(0, 2),
           channels_last=lambda d: d.size(0, 2)),
    of_one("QLinearGlobalAveragePool", channels_last=lambda d: d.size(0, 2)),
    convolution, convolution_of_last_channels, matrix_product, gemm, concatenation, where, integer_product, integer_convolution, product_to_float, dynamic_product,
    fused_product, fused_convolution, fused_gemm, gelus, skip_norms, simplified_norm,
]  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_drawn_operators_compute_as_onnxruntime_does(crumb, tmp_path, seed):
    drawn = Drawn(seed)
    for _ in range(3):
        for draw in DRAWS:
            draw(drawn)
    off = all_codes = 0
    for _, op, made, values in compare_with_onnxruntime(crumb, tmp_path, drawn):
        if values.dtype == np.float32:
            assert np.allclose(made, values, rtol=1e-4, atol=1e-5 * max(1, np.abs(values).max(initial=0))), op
            continue
        difference = np.abs(made.astype(int) - values.astype(int))
        assert difference.max(initial=0) <= 1, op  # onnxruntime rounds products of scales, and tables of functions
        off += int(difference.sum())
        all_codes += values.size
    assert off <= 0.02 * all_codes


def float_network(path, random):
    def constant(name, *shape):
        return numpy_helper.from_array((random.normal(size=shape) * 0.3).astype(np.float32), name)

    constants = [constant("w1", 8, 3, 3, 3), constant("b1", 8), constant("w2", 8, 8, 3, 3), constant("b2", 8), constant("w3", 16, 10),
                 constant("b3", 10), constant("w4", 10, 6)]  # fmt: skip
    steps = [
        ("Conv", ["x", "w1", "b1"], "c1", {"pads": [1] * 4}), ("Relu", ["c1"], "r1", {}), ("Conv", ["r1", "w2", "b2"], "c2", {"pads": [1] * 4}),
        ("LeakyRelu", ["c2"], "l2", {"alpha": 0.1}), ("Add", ["r1", "l2"], "a", {}), ("Sigmoid", ["c2"], "s", {}), ("Mul", ["a", "s"], "m", {}),
        ("MaxPool", ["m"], "mp", {"kernel_shape": [2, 2]}), ("AveragePool", ["mp"], "ap", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Concat", ["ap", "ap"], "cc", {"axis": 1}), ("GlobalAveragePool", ["cc"], "g", {}), ("Flatten", ["g"], "fl", {}),
        ("Gemm", ["fl", "w3", "b3"], "ge", {}), ("MatMul", ["ge", "w4"], "mm", {}), ("Softmax", ["mm"], "y", {"axis": -1}),
    ]  # fmt: skip
    nodes = [helper.make_node(op, inputs, [output], name=f"n_{output}", **attributes) for op, inputs, output, attributes in steps]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 6])], constants)  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("kind", ["QUInt8", "QInt8"])
def test_networks_of_its_quantizer(crumb, tmp_path, by_channel, kind):
    quantization = pytest.importorskip("onnxruntime.quantization")
    random = np.random.default_rng(3)
    float_network(tmp_path / "f.onnx", random)
    batches = [{"x": random.normal(size=(4, 3, 8, 8)).astype(np.float32)} for _ in range(4)]

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.left = iter(batches)

        def get_next(self):
            return next(self.left, None)

    path = tmp_path / "q.onnx"
    quantization.quantize_static(tmp_path / "f.onnx", path, Reader(), quant_format=quantization.QuantFormat.QOperator, per_channel=by_channel,
                                 activation_type=getattr(quantization.QuantType, kind), weight_type=quantization.QuantType.QInt8)  # fmt: skip
    assert len([node for node in onnx.load(path).graph.node if node.op_type.startswith("Q")]) > 10
    wanted = session(path).run(None, batches[0])[0]
    inputs = feed(tmp_path, batches[0])
    crumb("run", path, *inputs, "--output", tmp_path / "y.npy", "--engine", "runtime")
    step = 1 / 255
    assert np.abs(np.load(tmp_path / "y.npy") - wanted).max() <= 1.01 * step
    assert len(crumb("verify", path, "--accumulator").stdout.splitlines()) >= 5  # a row for each of four layers
    crumb("convert", path, tmp_path / "qcdq.onnx", "--to", "qcdq")
    assert {node.domain for node in onnx.load(tmp_path / "qcdq.onnx").graph.node} == {""}
    assert np.abs(session(tmp_path / "qcdq.onnx").run(None, batches[0])[0] - wanted).max() <= 1.01 * step
    crumb("convert", path, tmp_path / "qonnx.onnx", "--to", "qonnx")
    crumb("run", tmp_path / "qonnx.onnx", *inputs, "--output", tmp_path / "y.npy", "--engine", "runtime")
    assert np.abs(np.load(tmp_path / "y.npy") - wanted).max() <= 1.01 * step


def test_a_network_of_its_dynamic_quantizer(crumb, tmp_path):
    quantization = pytest.importorskip("onnxruntime.quantization")
    random = np.random.default_rng(4)
    float_network(tmp_path / "f.onnx", random)
    quantization.quantize_dynamic(tmp_path / "f.onnx", tmp_path / "q.onnx", weight_type=quantization.QuantType.QInt8)
    assert {"MatMulInteger", "ConvInteger"} <= {node.op_type for node in onnx.load(tmp_path / "q.onnx").graph.node}
    x = {"x": random.normal(size=(2, 3, 8, 8)).astype(np.float32)}
    crumb("run", tmp_path / "q.onnx", *feed(tmp_path, x), "--output", tmp_path / "y.npy", "--engine", "runtime")
    assert np.allclose(np.load(tmp_path / "y.npy"), session(tmp_path / "q.onnx").run(None, x)[0], atol=1e-5)


def test_a_network_of_its_optimizer(crumb, tmp_path):
    """A convolution, a transposed product and an activation become FusedConv, FusedMatMul and Gelu."""
    random = np.random.default_rng(5)

    def constant(name, *shape):
        return numpy_helper.from_array((random.normal(size=shape) * 0.3).astype(np.float32), name)

    numbers = [numpy_helper.from_array(np.array(value, np.float32), name) for name, value in (("two", 2**0.5), ("one", 1), ("half", 0.5))]
    steps = [
        ("Conv", ["x", "w"], "c", {"pads": [1] * 4}), ("Relu", ["c"], "r", {}), ("Transpose", ["r"], "t", {"perm": [0, 1, 3, 2]}),
        ("MatMul", ["t", "r"], "p", {}), ("Div", ["p", "two"], "d", {}), ("Erf", ["d"], "e", {}), ("Add", ["e", "one"], "f", {}),
        ("Mul", ["p", "f"], "g", {}), ("Mul", ["g", "half"], "y", {}),
    ]  # fmt: skip
    nodes = [helper.make_node(op, inputs, [output], **attributes) for op, inputs, output, attributes in steps]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 8, 8])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [constant("w", 4, 3, 3, 3), *numbers])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "f.onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ONLY_WARN_OF_ERRORS
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "o.onnx")
    onnxruntime.InferenceSession(str(tmp_path / "f.onnx"), options, providers=["CPUExecutionProvider"])
    ops = {node.op_type for node in onnx.load(tmp_path / "o.onnx").graph.node}
    assert ops & {"FusedConv", "FusedMatMul", "Gelu"}, ops
    x = {"x": random.normal(size=(2, 3, 8, 8)).astype(np.float32)}
    wanted = session(tmp_path / "f.onnx").run(None, x)[0]
    inputs = feed(tmp_path, x)
    crumb("run", tmp_path / "o.onnx", *inputs, "--output", tmp_path / "y.npy", "--engine", "runtime")
    assert np.allclose(np.load(tmp_path / "y.npy"), wanted, rtol=1e-4, atol=1e-4)
    crumb("quantize", tmp_path / "o.onnx", "-o", tmp_path / "q.onnx", "--weights", "int8:channel")
    assert "com.microsoft" not in {node.domain for node in onnx.load(tmp_path / "q.onnx").graph.node}
