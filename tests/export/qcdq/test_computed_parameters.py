"""Scales and zero points that constants decide (behind Cast, ConstantOfShape, Reshape, ...): convert reads them as if
they stood there, as torch.ao's exporter and onnxruntime's optimizer leave them."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ort = pytest.importorskip("onnxruntime")


def hidden(rng, array, name, nodes, constants):
    """Nodes that make the array from other constants."""
    said = helper.np_dtype_to_tensor_dtype(array.dtype)
    ways = ["reshape", "identity", "none"]
    ways += ["cast"] * 2 if array.dtype.kind in "iu" else ["product"]
    ways += ["filled"] * 3 if array.size and (array == array.flat[0]).all() else []
    way = ways[rng.integers(len(ways))]

    def constant(value):
        constants.append(numpy_helper.from_array(value, f"{name}_from{len(constants)}"))
        return constants[-1].name

    if way == "none":
        constants.append(numpy_helper.from_array(array, name))
    elif way == "identity":
        nodes.append(helper.make_node("Identity", [constant(array)], [name]))
    elif way == "reshape":
        flat = constant(array.reshape(-1))
        shape = constant(np.array(array.shape, np.int64))
        nodes.append(helper.make_node("Reshape", [flat, shape], [name]))
    elif way == "product":
        nodes.append(helper.make_node("Mul", [constant(array), constant(np.ones((), array.dtype))], [name]))
    elif way == "cast":
        wide = constant(array.astype(np.int64))
        nodes.append(helper.make_node("Cast", [wide], [name], to=said))
    else:  # ConstantOfShape of another type, then Cast: what torch.zeros becomes
        value = numpy_helper.from_array(array.reshape(-1)[:1].astype(np.float32 if array.dtype.kind == "f" else np.int64))
        nodes.append(helper.make_node("ConstantOfShape", [constant(np.array(array.shape, np.int64))], [f"{name}_f"], value=value))
        nodes.append(helper.make_node("Cast", [f"{name}_f"], [name], to=said))


def network(rng, hide):
    """A convolution and a product, quantized, with a bias of 32 bits: (the model, its input)."""
    nodes, constants = [], []
    settled = np.random.default_rng(rng.integers(1 << 30))

    def put(array, name):
        if hide:
            hidden(settled, array, name, nodes, constants)
        else:
            constants.append(numpy_helper.from_array(array, name))
        return name

    def pair(x, name, scale, zero):
        parameters = [put(scale, f"{name}_s"), put(zero, f"{name}_z")]
        nodes.append(helper.make_node("QuantizeLinear", [x, *parameters], [f"{name}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *parameters], [f"{name}_d"]))
        return f"{name}_d"

    def weights(codes, scale, name, zero):
        parameters = [put(scale, f"{name}_s"), put(zero, f"{name}_z")]
        constants.append(numpy_helper.from_array(codes, f"{name}_q"))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *parameters], [f"{name}_d"], axis=0))
        return f"{name}_d"

    channels = int(rng.integers(2, 6))
    each = rng.random() < 0.5
    parts = [channels] if each else []
    s_x, z_x = np.float32(rng.uniform(0.01, 0.1)), np.uint8(rng.integers(0, 256))
    s_w = np.full(parts, rng.uniform(0.01, 0.1), np.float32) * np.float32(1)
    w = rng.integers(-127, 128, (channels, 3, 3, 3)).astype(np.int8)
    b = rng.integers(-4000, 4000, channels).astype(np.int32)
    s_b = np.broadcast_to((s_w * s_x).astype(np.float32), parts).copy()
    x = pair("x", "x", np.asarray(s_x), np.asarray(z_x))
    w_d = weights(w, np.asarray(s_w), "w", np.zeros(parts, np.int8))
    b_d = weights(b, s_b, "b", np.zeros(parts, np.int32))
    nodes.append(helper.make_node("Conv", [x, w_d, b_d], ["c"], kernel_shape=[3, 3]))
    nodes.append(helper.make_node("Relu", ["c"], ["r"]))
    y = pair("r", "y", np.asarray(np.float32(rng.uniform(0.5, 2))), np.asarray(np.uint8(0)))
    nodes.append(helper.make_node("GlobalAveragePool", [y], ["out"]))
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 6, 6])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [2, channels, 1, 1])], constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return model, rng.normal(size=(2, 3, 6, 6)).astype(np.float32) * 3


def executed(model, x):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("to", ["float", "qcdq", "qonnx"])
def test_parameters_that_constants_decide(crumb, tmp_path, to):
    for seed in range(16):
        made = []
        for hide in (True, False):
            model, x = network(np.random.default_rng(seed), hide)
            source, target = tmp_path / f"{hide}.onnx", tmp_path / f"{hide}.{to}.onnx"
            onnx.save(model, source)
            crumb("convert", source, target, "--to", to)
            if to == "qonnx":  # what stands in the files, which qonnx runs in the other tests
                nodes = onnx.load(target).graph.node
                made.append(sorted((node.op_type, node.domain) for node in nodes))
            else:
                made.append(executed(target, x).tolist())
        assert made[0] == made[1], seed
