"""The pass channels-last: real and generated networks compute the same afterwards, in Crumb and in qonnx's executor."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

LAST = "qonnx.custom_op.channels_last"
GENERAL = "qonnx.custom_op.general"


class Net:
    """A chain with names for everything; every method gives the name of a value."""

    def __init__(self, *shape, seed=0):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants, self.shape, self.count = [], {}, shape, 0

    def random(self, *shape):
        return self.constant(self.rng.normal(size=shape).astype(np.float32))

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def add(self, op, *inputs, domain="", **attributes):
        self.count += 1
        output = f"v{self.count}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=f"{op}_{self.count}", domain=domain, **attributes))
        return output

    def conv(self, x, channels_in, channels_out, kernel=(3, 3), group=1, bits=None, bias=False, **attributes):
        w = self.random(channels_out, channels_in // group, *kernel)
        if bits:
            w = self.quant(w, np.full((channels_out, *[1] * (len(kernel) + 1)), 0.125, np.float32), bits)
        inputs = [x, w] + ([self.random(channels_out)] if bias else [])
        return self.add("Conv", *inputs, group=group, kernel_shape=list(kernel), **attributes)

    def quant(self, x, scale, bits, signed=1):
        parameters = [self.constant(np.float32(v) if np.ndim(v) == 0 else v) for v in (scale, 0.0, float(bits))]
        return self.add("Quant", x, *parameters, domain=GENERAL, signed=signed, narrow=0, rounding_mode="ROUND")

    def norm(self, x, channels):
        parts = [self.random(channels) for _ in range(3)] + [self.constant(np.abs(self.rng.normal(size=channels)).astype(np.float32) + 0.5)]
        return self.add("BatchNormalization", x, *parts)

    def save(self, path, *outputs, opset=13):
        nodes = [*self.nodes, *(helper.make_node("Identity", [o], [f"y{i}"], name=f"out{i}") for i, o in enumerate(outputs))]
        graph = helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None) for i in range(len(outputs))],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )  # fmt: skip
        imports = [helper.make_opsetid("", opset), helper.make_opsetid(GENERAL, 1)]
        onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
        return self.rng.normal(size=self.shape).astype(np.float32)


def plain():
    n = Net(2, 3, 9, 8)
    a = n.add("Relu", n.norm(n.conv("x", 3, 8, pads=[1, 1, 1, 1], strides=[2, 1]), 8))
    p = n.add("MaxPool", a, kernel_shape=[2, 2], strides=[2, 2])
    f = n.add("Flatten", n.conv(p, 8, 4, (1, 1), bias=True))
    return n, [n.add("Add", n.add("MatMul", f, n.random(4 * 2 * 4, 5)), n.random(5))]


def quantized():
    n = Net(1, 4, 8, 8, seed=1)
    x = n.quant("x", 0.0625, 8)
    per_channel = np.array([0.25, 0.125, 0.5, 0.25, 0.125, 0.5], np.float32).reshape(1, 6, 1, 1)
    a = n.quant(n.add("Relu", n.conv(x, 4, 6, bits=4)), per_channel, 4, signed=0)
    b = n.add("Add", n.conv(a, 6, 6, bits=3, pads=[1, 1, 1, 1]), n.quant(n.random(1, 6, 1, 1), 0.125, 6))
    f = n.quant(n.add("Reshape", b, n.constant(np.array([1, -1]))), 0.5, 6)
    w = n.quant(n.random(6 * 36, 3), np.full((1, 3), 0.25, np.float32), 4)
    return n, [n.add("MatMul", f, w)]


def residual():
    n = Net(1, 4, 6, 6, seed=2)
    a = n.add("LeakyRelu", n.conv("x", 4, 4, pads=[1] * 4), alpha=0.1)
    b = n.conv(a, 4, 4, pads=[1] * 4)
    c = n.add("Add", b, "x")
    d = n.add("Concat", n.add("Sigmoid", c), n.add("Mul", a, n.random(4, 1, 1)), c, axis=1)
    e = n.add("Pad", d, n.constant(np.array([0, 1, 1, 0, 0, 0, 2, 0])))
    return n, [n.conv(e, 13, 2), c]


def depthwise():
    n = Net(1, 6, 7, 7, seed=3)
    a = n.conv("x", 6, 6, group=6, pads=[1] * 4, bits=4)
    b = n.add("Sub", n.conv(n.add("Selu", a), 6, 12, (1, 1), group=2), n.random(12, 1, 1))
    return n, [n.add("Div", n.add("Tanh", b), n.constant(np.float32(2)))]


def one_axis():
    n = Net(2, 3, 20, seed=4)
    a = n.add("MaxPool", n.add("Relu", n.conv("x", 3, 5, (5,), dilations=[2])), kernel_shape=[3], strides=[3])
    n_flat = n.add("Flatten", n.norm(a, 5))
    return n, [n.add("Gemm", n_flat, n.random(7, 20), n.random(7), transB=1)]


def pooled():
    """AveragePool, ConvTranspose and global pools have no channels-last form."""
    n = Net(1, 3, 10, 10, seed=5)
    a = n.add("AveragePool", n.conv("x", 3, 4), kernel_shape=[2, 2], strides=[2, 2])
    b = n.add("ConvTranspose", n.conv(a, 4, 4, pads=[1] * 4), n.random(4, 2, 2, 2), strides=[2, 2])
    c = n.conv(b, 2, 3)
    d = n.add("Flatten", n.add("GlobalAveragePool", c))
    return n, [d, n.add("Flatten", n.add("GlobalMaxPool", c))]


def turned():
    """As Keras writes it: channels-last between, by transposes of its own; and a Flatten that others take too."""
    n = Net(1, 3, 6, 6, seed=6)
    a = n.conv("x", 3, 4)
    b = n.add("Transpose", a, perm=[0, 2, 3, 1])
    c = n.add("Flatten", n.add("Relu", a))
    return n, [n.add("Softmax", b, axis=-1), n.add("MatMul", c, n.random(64, 3)), c]


def resized():
    n = Net(1, 2, 5, 5, seed=7)
    a = n.add("Resize", n.conv("x", 2, 3), "", n.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest")
    return n, [n.conv(a, 3, 2)]


def split():
    n = Net(1, 2, 5, 5, seed=8)
    a = n.conv("x", 2, 6)
    n.nodes.append(helper.make_node("Split", [a], ["p", "q"], name="Split_0", axis=1))
    return n, [n.conv(n.add("Add", "p", "q"), 3, 2)]


NETWORKS = [plain, quantized, residual, depthwise, one_axis, pooled, turned, resized, split]


def load(path):
    model = onnx.load(path)
    onnx.checker.check_model(model) if all(n.domain == "" for n in model.graph.node) else None
    return model


def ops(model):
    return [node.op_type for node in model.graph.node]


def check_layout(model):
    """Everything that has a channels-last form has it."""
    for node in model.graph.node:
        if node.op_type in ("Conv", "MaxPool", "BatchNormalization"):
            assert node.domain == LAST, node.name


def run(crumb, path, x, folder, engine="libtorch"):
    np.save(folder / "x.npy", x)
    out = folder / "out"
    crumb("run", path, "--input", folder / "x.npy", "--output-dir", out, "--engine", engine)
    return {file.stem: np.load(file) for file in sorted(out.glob("*.npy"))}


@pytest.mark.parametrize("name", ["channels-last", "channels-last-inputs"])
@pytest.mark.parametrize("build", NETWORKS, ids=lambda build: build.__name__)
def test_generated_networks_stay(crumb, engine, tmp_path, build, name):
    net, outputs = build()
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    x = net.save(before, *outputs)
    crumb("passes", before, "-o", after, name)
    model = load(after)
    check_layout(model)
    moved = np.moveaxis(x, 1, -1) if name.endswith("inputs") else x
    declared = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    assert declared == list(moved.shape)
    expected = run(crumb, before, x, tmp_path)
    found = run(crumb, after, np.ascontiguousarray(moved), tmp_path)
    assert expected.keys() == found.keys() and len(expected) == len(outputs)
    for key, value in expected.items():
        assert found[key].shape == value.shape
        np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5 * max(1, np.abs(value).max()))


@pytest.mark.parametrize("name", ["channels-last", "channels-last-inputs"])
@pytest.mark.parametrize("build", NETWORKS, ids=lambda build: build.__name__)
def test_the_runtime_computes_the_same_bits_of_both_layouts(crumb, tmp_path, build, name):
    net, outputs = build()
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    x = net.save(before, *outputs)
    crumb("passes", before, "-o", after, name)
    assert LAST in {node.domain for node in onnx.load(after).graph.node}
    moved = np.moveaxis(x, 1, -1) if name.endswith("inputs") else x
    expected = run(crumb, before, x, tmp_path, "runtime")
    found = run(crumb, after, np.ascontiguousarray(moved), tmp_path, "runtime")
    assert expected.keys() == found.keys()
    adds_in_another_order = {"MatMul", "Gemm"} & set(ops(onnx.load(after)))  # behind a Flatten
    for key, value in expected.items():
        if adds_in_another_order:
            np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5 * max(1, np.abs(value).max()))
        else:
            assert np.array_equal(found[key], value), key


@pytest.mark.parametrize(
    ("build", "most"),
    [(plain, 1), (quantized, 1), (residual, 3), (depthwise, 2), (one_axis, 1), (resized, 2), (split, 2)],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_transposes_are_left_at_inputs_and_outputs_only(crumb, tmp_path, build, most):
    net, outputs = build()
    net.save(tmp_path / "before.onnx", *outputs)
    crumb("passes", tmp_path / "before.onnx", "-o", tmp_path / "after.onnx", "channels-last", "remove-identities")
    model = load(tmp_path / "after.onnx")
    turns = [node for node in model.graph.node if node.op_type == "Transpose"]
    assert len(turns) <= most
    ends = {value.name for value in (*model.graph.input, *model.graph.output)}
    for node in turns:
        assert ends & {*node.input, *node.output}, node.name


def test_a_network_without_convolutions_stays_as_it_is(crumb, tmp_path):
    n = Net(1, 3, 4, 4)
    n.save(tmp_path / "a.onnx", n.add("Relu", n.add("Transpose", "x", perm=[0, 2, 3, 1])))
    crumb("passes", tmp_path / "a.onnx", "-o", tmp_path / "b.onnx", "channels-last")
    assert ops(onnx.load(tmp_path / "b.onnx")) == ["Transpose", "Relu", "Identity"]


def qonnx_run(path, x):
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx
    from qonnx.transformation.infer_shapes import InferShapes

    model = ModelWrapper(str(path)).transform(InferShapes())
    given = model.graph.input[0].name
    return execute_onnx(model, {given: x})


@pytest.mark.parametrize("build", [plain, quantized, residual, depthwise, one_axis], ids=lambda build: build.__name__)
def test_qonnx_computes_the_same(crumb, tmp_path, build):
    pytest.importorskip("qonnx")
    net, outputs = build()
    x = net.save(tmp_path / "before.onnx", *outputs)
    crumb("passes", tmp_path / "before.onnx", "-o", tmp_path / "after.onnx", "extract-conv-bias", "channels-last")
    expected, found = qonnx_run(tmp_path / "before.onnx", x), qonnx_run(tmp_path / "after.onnx", x)
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5 * max(1, np.abs(value).max()), err_msg=key)


REAL = ["mnist_conv_float", "espcn_nn_resize_float", "espcn_nn_resize_quant", "espcn_subpixel_float",
        "espcn_subpixel_quant", "residual_block_clean", "eltwise_chanlast_testcase"]  # fmt: skip


def real(crumb, networks, folder, name):
    """A real file, the same channels-last, and an input."""
    before, after = networks / f"{name}.onnx", folder / "after.onnx"
    crumb("passes", before, "-o", after, "channels-last")
    model = load(after)
    check_layout(model)
    declared = [dim.dim_value or 1 for dim in model.graph.input[0].type.tensor_type.shape.dim]
    return before, after, np.random.default_rng(3).uniform(0, 1, declared).astype(np.float32)


def check_near(name, expected, found):
    for key, value in expected.items():
        differ = np.abs(found[key] - value) > 1e-5 * max(1, np.abs(value).max())
        assert differ.mean() <= (1e-4 if "quant" in name else 0), key


@pytest.mark.parametrize("name", REAL)
def test_real_files_stay(crumb, engine, networks, tmp_path, name):
    before, after, x = real(crumb, networks, tmp_path, name)
    check_near(name, run(crumb, before, x, tmp_path), run(crumb, after, x, tmp_path))


@pytest.mark.parametrize("name", ["residual_block_clean", "eltwise_chanlast_testcase"])
def test_qonnx_computes_the_same_of_real_files(crumb, networks, tmp_path, name):
    pytest.importorskip("qonnx")
    before, after, x = real(crumb, networks, tmp_path, name)
    x = np.rint(255 * x)  # an input that is said to be uint8 must be
    check_near(name, qonnx_run(before, x), qonnx_run(after, x))
