"""Networks as ONNX models, with drawn weights."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def network(rng):
    """A small CNN with a residual sum, average pool and dense layer."""

    def weight(name, *shape):
        return numpy_helper.from_array((rng.normal(0, 0.3, shape)).astype(np.float32), name)

    initializers = [
        weight("c1.weight", 4, 1, 3, 3), weight("c1.bias", 4), weight("c2.weight", 4, 4, 3, 3), weight("c2.bias", 4),
        weight("fc.weight", 3, 4), weight("fc.bias", 3),
        numpy_helper.from_array(np.ones(4, np.float32), "bn.scale"), weight("bn.bias", 4),
        weight("bn.mean", 4), numpy_helper.from_array(np.full(4, 0.7, np.float32), "bn.var"),
    ]  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "c1.weight", "c1.bias"], ["a"], "c1", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", "bn.scale", "bn.bias", "bn.mean", "bn.var"], ["b"], "bn"),
        helper.make_node("Relu", ["b"], ["c"], "relu1"),
        helper.make_node("Conv", ["c", "c2.weight", "c2.bias"], ["d"], "c2", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["d"], ["e"], "relu2"),
        helper.make_node("Add", ["c", "e"], ["f"], "add"),
        helper.make_node("MaxPool", ["f"], ["g"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["g"], ["h"], "mean"),
        helper.make_node("Flatten", ["h"], ["i"], "flatten"),
        helper.make_node("Gemm", ["i", "fc.weight", "fc.bias"], ["y"], "fc", transB=1),
    ]
    return model("cnn", nodes, initializers, ["batch", 1, 8, 8], ["batch", 3])


def plain(rng):
    """What hls4ml and FINN take."""

    def weight(name, *shape):
        return numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "c1.weight", "c1.bias"], ["a"], "c1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("MaxPool", ["b"], ["c"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["c"], ["d"], "flatten"),
        helper.make_node("Gemm", ["d", "fc.weight", "fc.bias"], ["y"], "fc", transB=1),
    ]
    initializers = [weight("c1.weight", 4, 1, 3, 3), weight("c1.bias", 4), weight("fc.weight", 3, 64), weight("fc.bias", 3)]
    return model("plain", nodes, initializers, ["batch", 1, 8, 8], ["batch", 3])


def recurrent(rng):
    def weight(name, *shape):
        return numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name)

    initializers = [weight("W", 1, 20, 6), weight("R", 1, 20, 5), weight("B", 1, 40), weight("V", 5, 2)]
    nodes = [
        helper.make_node("LSTM", ["x", "W", "R", "B"], ["", "h"], "lstm", hidden_size=5),
        helper.make_node("Squeeze", ["h", "zero"], ["s"], "squeeze"),
        helper.make_node("MatMul", ["s", "V"], ["y"], "out"),
    ]
    initializers.append(numpy_helper.from_array(np.zeros(1, np.int64), "zero"))
    return model("lstm", nodes, initializers, [4, "batch", 6], ["batch", 2])


def untidy(rng):
    """What the passes rewrite and the networks above have not. For unroll-recurrent it has nothing."""

    def array(name, *shape):
        return numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name)

    initializers = [
        array("c1.weight", 4, 1, 3, 3), array("c1.bias", 4), numpy_helper.from_array(np.ones(4, np.float32), "bn.var"),
        array("bn.scale", 4), array("bn.bias", 4), array("bn.mean", 4), array("fc.weight", 8, 64), array("fc.bias", 8),
        array("norm.gain", 8), array("norm.bias", 8), array("up.weight", 8, 6), array("up.bias", 6), array("turned", 5, 6),
        array("shift", 5),
    ]  # fmt: skip
    nodes = [
        helper.make_node("Relu", ["x"], ["nobody needs it"]),
        helper.make_node("Identity", ["x"], ["x/same"]),
        helper.make_node("Conv", ["x/same", "c1.weight", "c1.bias"], ["a"], "c1", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", "bn.scale", "bn.bias", "bn.mean", "bn.var"], ["b"]),
        helper.make_node("HardSwish", ["b"], ["c"]),
        helper.make_node("MaxPool", ["c"], ["d"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("Gemm", ["e", "fc.weight", "fc.bias"], ["f"], "fc", transB=1, alpha=0.5),
        helper.make_node("LayerNormalization", ["f", "norm.gain", "norm.bias"], ["g"], "norm"),
        helper.make_node("MatMul", ["g", "up.weight"], ["h"], "up"),
        helper.make_node("Add", ["h", "up.bias"], ["i"]),
        helper.make_node("Transpose", ["turned"], ["down.weight"], perm=[1, 0]),
        helper.make_node("MatMul", ["i", "down.weight"], ["j"], "down"),
        helper.make_node("Constant", [], ["five"], value=array("", 5)),
        helper.make_node("Add", ["j", "five"], ["k"]),
        helper.make_node("Neg", ["shift"], ["back"]),
        helper.make_node("Add", ["k", "back"], ["y"]),
    ]
    return model("untidy", nodes, initializers, ["batch", 1, 8, 8], ["batch", 5])


def model(name, nodes, initializers, inputs, outputs):
    def info(value, shape):
        return helper.make_tensor_value_info(value, TensorProto.FLOAT, shape)

    graph = helper.make_graph(nodes, name, [info("x", inputs)], [info("y", outputs)], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="drawn")
