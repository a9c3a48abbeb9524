"""Small models that keep every rule of a profile, and for each rule one that breaks it and no other."""

from dataclasses import dataclass
from typing import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

QONNX = "qonnx.custom_op.general"
CHANNELS_LAST = "qonnx.custom_op.channels_last"


class Net:
    """A graph in the making. Values are named after the nodes that make them."""

    def __init__(self, opset=13, qonnx=1, ir=8):
        self.opset, self.qonnx, self.ir = opset, qonnx, ir
        self.nodes, self.constants, self.shapes, self.types = [], {}, {}, {}
        self.inputs, self.outputs = [], []
        self.imports = [("", opset), (QONNX, qonnx)]
        self.annotations = []
        self.spare = set()  # constants that stand in the file though nothing takes them
        self.change = lambda model: None  # the last word

    def input(self, name, shape, kind=TensorProto.FLOAT):
        self.inputs.append(name)
        self.shapes[name], self.types[name] = list(shape), kind
        return name

    def const(self, name, array, dtype=np.float32):
        self.constants[name] = np.asarray(array, dtype)
        self.shapes[name] = list(self.constants[name].shape)
        return name

    def node(self, op, inputs, name, shape=None, domain="", kind=TensorProto.FLOAT, **attributes):
        out = f"{name}_out"
        self.nodes.append(helper.make_node(op, inputs, [out], name=name, domain=domain, **attributes))
        self.shapes[out] = list(self.shapes[inputs[0]] if shape is None else shape)
        self.types[out] = kind
        return out

    def quant(self, x, name, scale=0.5, bits=4, signed=1, narrow=0, zeropt=0.0, mode="ROUND", op="Quant", **types):
        parameters = [
            self.const(f"{name}_scale", scale, types.get("scale_type", np.float32)),
            self.const(f"{name}_zeropt", zeropt, types.get("zeropt_type", np.float32)),
            self.const(f"{name}_bits", bits),
        ]
        return self.node(op, [x, *parameters], name, domain=QONNX, signed=signed, narrow=narrow, rounding_mode=mode)

    def weight(self, name, shape, scale=0.25, **options):
        values = np.random.default_rng(len(self.constants)).normal(size=shape)
        options = {"bits": 3, "narrow": 1, **options}
        return self.quant(self.const(f"{name}_values", values), name, scale=scale, **options)

    def find(self, name):
        return next(node for node in self.nodes if node.name == name)

    def model(self):
        def info(name):
            return helper.make_tensor_value_info(name, self.types[name], self.shapes[name])

        made = [output for node in self.nodes for output in node.output]
        taken = {name for node in self.nodes for name in node.input}
        constants = {name: value for name, value in self.constants.items() if name in taken or name in self.spare}
        outputs = self.outputs or [made[-1]]
        graph = helper.make_graph(
            self.nodes,
            "net",
            [info(name) for name in self.inputs],
            [info(name) for name in outputs],
            [numpy_helper.from_array(value, name) for name, value in constants.items()],
            value_info=[info(name) for name in made if name not in outputs] + [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
                for name, value in constants.items() if name not in self.inputs],
        )
        for tensor, key, value in self.annotations:
            note = graph.quantization_annotation.add(tensor_name=tensor)
            note.quant_parameter_tensor_names.add(key=key, value=value)
        model = helper.make_model(graph, ir_version=self.ir, opset_imports=[])
        del model.opset_import[:]
        for domain, version in self.imports:
            model.opset_import.append(helper.make_opsetid(domain, version))
        self.change(model)
        return model


def dense(profile="finn", **options):
    """Input, quantizer, dense layer with bias, Relu, quantizer."""
    net = Net(**options)
    x = net.quant(net.input("x", [1, 4]), "Quant_in", bits=8)
    product = net.node("MatMul", [x, net.weight("Quant_w", [4, 3])], "MatMul_0", [1, 3])
    total = net.node("Add", [product, net.const("bias", [0.5, -0.25, 0.0])], "Add_0")
    net.quant(net.node("Relu", [total], "Relu_0"), "Quant_out", signed=0)
    return net


def conv(profile="finn", channels=2, group=1, bias=None, **weight):
    """Input, quantizer, convolution, Relu, quantizer: channels last for hls4ml."""
    last = profile == "hls4ml"
    net = Net()
    if last:
        net.imports.append((CHANNELS_LAST, 1))
    each = channels // group
    x = net.quant(net.input("x", [1, 6, 6, channels] if last else [1, channels, 6, 6]), "Quant_in", bits=8)
    w = net.weight("Quant_w", [4, 3, 3, each] if last else [4, each, 3, 3], **weight)
    inputs = [x, w] if bias is None else [x, w, bias(net)]
    y = net.node("Conv", inputs, "Conv_0", [1, 6, 6, 4] if last else [1, 4, 6, 6], CHANNELS_LAST if last else "",
                 kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1], dilations=[1, 1],
                 group=group)  # fmt: skip
    net.quant(net.node("Relu", [y], "Relu_0"), "Quant_out", signed=0)
    return net


def average(version=1, mode="FLOOR"):
    """The pattern of FINN's average pool."""
    net = Net(qonnx=version)
    x = net.quant(net.input("x", [1, 2, 4, 4]), "Quant_in")
    pool = net.node("AveragePool", [x], "AveragePool_0", [1, 2, 2, 2], kernel_shape=[2, 2], strides=[2, 2],
                    pads=[0, 0, 0, 0])  # fmt: skip
    common = [net.const("scale", 0.5), net.const("zeropt", 0.0)]
    if version == 1:
        pool = net.node("Mul", [pool, net.const("size", 4.0)], "Mul_0")
        inputs = [*common, net.const("in_bits", 6.0), net.const("out_bits", 4.0)]
        net.node("Trunc", [pool, *inputs], "Trunc_0", domain=QONNX, rounding_mode=mode)
    else:
        inputs = [*common, net.const("in_bits", 6.0), net.const("out_scale", 2.0), net.const("out_bits", 4.0)]
        net.imports[1] = (QONNX, 2)
        net.node("Trunc", [pool, *inputs], "Trunc_0", domain=QONNX, rounding_mode=mode, signed=1, narrow=0)
    return net


def qdq(opset=13, zero=0, scale=0.5):
    net = Net(opset=opset)
    net.imports = [("", opset)]
    zero = np.full(np.shape(scale), zero)
    x = net.node("QuantizeLinear", [net.input("x", [1, 3]), net.const("scale", scale),
                                    net.const("zero", zero, np.int8)], "Quantize_0", kind=TensorProto.INT8)  # fmt: skip
    net.node("DequantizeLinear", [x, "scale", "zero"], "Dequantize_0")
    if np.shape(scale):
        for node in net.nodes:
            node.attribute.append(helper.make_attribute("axis", 1))
    return net


def clean(profile):
    """Models that the profile takes as they are."""
    if profile == "onnxruntime":
        return [qdq(), qdq(scale=[0.5, 0.25, 1.0])]
    models = [dense(profile), conv(profile), residual(0.5), bipolar(1.0)]
    if profile == "hls4ml":
        return [*models, conv(profile, scale=np.reshape([0.5, 0.25, 1, 2], (4, 1, 1, 1)))]
    return [*models, average(), average(2), conv(profile, scale=np.reshape([0.3, 0.2, 1, 2], (4, 1, 1, 1))),
            dense_with(scale=[[0.3, 0.1, 0.2]])]  # fmt: skip


def dense_with(profile="finn", target="Quant_w", **parameters):
    """dense() with other parameters of one quantizer: scale, zeropt, bits; attributes too."""
    net = dense(profile)
    for key, value in parameters.items():
        if key in ("scale", "zeropt", "bits"):
            net.const(f"{target}_{key}", value)
        else:
            set_attribute(net.find(target), key, value)
    return net


def set_attribute(node, name, value):
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
    if value is not None:
        node.attribute.append(helper.make_attribute(name, value))


def changed(net, change):
    net.change = change
    return net


def behind(net, op, name="Extra_0", extra=(), shape=None, before="Quant_in", **options):
    """The net with one more node behind the input's quantizer; what came from there comes from the new one."""
    after = f"{before}_out"
    at = next(i for i, node in enumerate(net.nodes) if node.name == before) + 1
    rest = net.nodes[at:]
    del net.nodes[at:]
    out = net.node(op, [after, *extra], name, shape, **options)
    for node in rest:
        node.input[:] = [out if value == after else value for value in node.input]
    net.nodes += rest
    return net


def residual(scale):
    net = Net()
    x = net.input("x", [1, 4])
    a = net.quant(net.node("Relu", [x], "Relu_0"), "Quant_a", signed=0)
    b = net.quant(net.node("Tanh", [x], "Tanh_0"), "Quant_b", scale=scale)
    net.node("Add", [a, b], "Add_0")
    return net


def bipolar(scale):
    net = Net()
    x = net.quant(net.input("x", [1, 4]), "Quant_in", bits=8)
    net.node("BipolarQuant", [x, net.const("scale", scale)], "Bipolar_0", domain=QONNX)
    return net


def bipolar_alone():
    net = Net()
    net.node("BipolarQuant", [net.input("x", [1, 4]), net.const("scale", 1.0)], "Bipolar_0", domain=QONNX)
    return net


def swap_nodes(at):
    """Node `at` and the one behind it change places."""

    def change(model):
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in model.graph.node]
        nodes[at], nodes[at + 1] = nodes[at + 1], nodes[at]
        del model.graph.node[:]
        model.graph.node.extend(nodes)

    return change


def reverse_imports(model):
    imports = [(entry.domain, entry.version) for entry in model.opset_import]
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(*entry) for entry in reversed(imports))


def import_qonnx(version):
    def change(model):
        next(entry for entry in model.opset_import if entry.domain == QONNX).version = version

    return change


def rename_operator(node, op):
    def change(model):
        next(n for n in model.graph.node if n.name == node).op_type = op

    return change


def drop_input(node):
    def change(model):
        dropped = next(n for n in model.graph.node if n.name == node).input.pop()
        graph = model.graph
        graph.initializer.remove(next(tensor for tensor in graph.initializer if tensor.name == dropped))
        graph.value_info.remove(next(info for info in graph.value_info if info.name == dropped))

    return change


def double_constant(model):
    """An output of the graph, so that it is taken."""
    model.graph.initializer.append(numpy_helper.from_array(np.array([1.0]), "double"))
    model.graph.output.append(helper.make_tensor_value_info("double", TensorProto.DOUBLE, [1]))


def renamed(node, name):
    net = dense()
    net.find(node).name = name
    return net


def annotated(tensor, key, value):
    net = dense()
    net.annotations.append((tensor, key, value))
    return net


def typed(dtype, value):
    """A zero point of another type."""
    net = dense()
    net.const("Quant_out_zeropt", value, dtype)
    return net


def with_ir(net, ir):
    net.ir = ir
    return net


def unimported_gelu():
    net = Net()
    net.imports = [("", 13)]
    net.node("Gelu", [net.input("x", [1, 4])], "Extra_0", domain="com.microsoft")
    return net


def square_transpose():
    net = Net()
    x = net.quant(net.input("x", [3, 3]), "Quant_in")
    net.node("Transpose", [x], "Extra_0")
    return net


def with_function(model):
    domain = "made.up"
    function = helper.make_function(
        domain, "Rectify", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], [helper.make_opsetid("", 13)]
    )
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid(domain, 1))
    call = next(node for node in model.graph.node if node.name == "Relu_0")
    call.domain, call.op_type = domain, "Rectify"


def dynamic_batch(model):
    constants = {tensor.name for tensor in model.graph.initializer}
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        if value.name in constants:
            continue
        if value.type.tensor_type.shape.dim[0].dim_value == 1:  # the weight's is 4
            value.type.tensor_type.shape.dim[0].dim_param = "batch"


def in_domain(node, domain):
    def change(model):
        next(n for n in model.graph.node if n.name == node).domain = domain
        if domain:
            model.opset_import.append(helper.make_opsetid(domain, 1))

    return change


def constant_node(model):
    bias = next(tensor for tensor in model.graph.initializer if tensor.name == "bias")
    node = helper.make_node("Constant", [], ["bias"], name="Constant_0", value=bias)
    model.graph.node.insert(0, node)
    model.graph.initializer.remove(bias)


def initializer_as_input(model):
    infos = model.graph.value_info
    infos.remove(next(info for info in infos if info.name == "bias"))
    model.graph.input.append(helper.make_tensor_value_info("bias", TensorProto.FLOAT, [3]))


def without_import(model):
    del model.opset_import[1]


def computed(net, parameter):
    """A parameter of Quant_out that a node makes."""
    value = net.constants[f"Quant_out_{parameter}"]
    half = net.const("half", value / 2)
    at = net.nodes.index(net.find("Quant_out"))
    last = net.nodes.pop(at)
    out = net.node("Add", [half, half], "Add_p", [])
    last.input[1 if parameter == "scale" else 3] = out
    net.nodes.append(last)
    return net


def other_operator(op, domain="", **attributes):
    net = behind(dense(), op, domain=domain, **attributes)
    if domain not in ("", QONNX):
        net.imports.append((domain, 1))
    return net


def float_quant():
    net = dense()
    extra = [net.const(f"f{i}", value) for i, value in enumerate([1.0, 4.0, 3.0, 7.0, 448.0])]
    return behind(net, "FloatQuant", extra=extra, domain=QONNX, rounding_mode="ROUND", has_inf=0, has_nan=0,
                  has_subnormal=0, saturation=1)  # fmt: skip


def gemm():
    net = dense()
    net.nodes = [node for node in net.nodes if node.name not in ("MatMul_0", "Add_0", "Relu_0", "Quant_out")]
    y = net.node("Gemm", ["Quant_in_out", "Quant_w_out", "bias"], "Gemm_0", [1, 3])
    net.quant(net.node("Relu", [y], "Relu_0"), "Quant_out", signed=0)
    return net


def quantized_bias(net):
    return net.quant(net.const("b", [0.3, -0.2, 0.1, 1.0]), "Quant_b", scale=0.125, bits=6)


def float_bias(net):
    return net.const("b", [0.3, -0.2, 0.1, 1.0])


def constant_first():
    net = dense()
    net.find("Add_0").input[:] = ["bias", "MatMul_0_out"]
    return net


def pooled(profile):
    net = conv(profile)
    shape = net.shapes["x"]
    return behind(net, "AveragePool", shape=shape, kernel_shape=[1, 1], strides=[1, 1], pads=[0, 0, 0, 0])


def channels_first_pool():
    net = conv("hls4ml")
    return behind(net, "MaxPool", kernel_shape=[1, 1], strides=[1, 1], pads=[0, 0, 0, 0])


def conv_without(name, profile="hls4ml"):
    net = conv(profile)
    set_attribute(net.find("Conv_0"), name, None)
    return net


def max_pool_without(name):
    options = {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0, 0, 0, 0]}
    del options[name]
    return behind(conv("finn"), "MaxPool", **options)


def self_padding_conv():
    net = conv_without("pads")
    set_attribute(net.find("Conv_0"), "auto_pad", "SAME_UPPER")
    return net


def computed_reshape():
    net = dense()
    parts = [net.const("rows", [1], np.int64), net.const("columns", [-1], np.int64)]
    net.node("Concat", parts, "Concat_s", [2], kind=TensorProto.INT64, axis=0)
    net.nodes.insert(0, net.nodes.pop())
    return behind(net, "Reshape", extra=["Concat_s_out"])


def wide_concat():
    net = Net()
    x = net.quant(net.input("x", [1, 2, 2, 2, 2]), "Quant_in")
    net.node("Concat", [x, x], "Concat_0", [1, 4, 2, 2, 2], axis=1)
    return net


def padded():
    net = conv("hls4ml")
    extra = [net.const("pads", [0] * 8, np.int64), net.const("value", 1.0)]
    return behind(net, "Pad", extra=extra)


def resized():
    net = conv("hls4ml")
    return behind(net, "Resize", extra=["", net.const("scales", [1.0, 1.0, 1.0, 1.0])], mode="nearest")


def resized_to_nothing(profile):
    """Scales of no elements beside sizes, as operator set 11 had to have them."""
    net = conv(profile)
    roi = net.const("roi", [0.0]) if profile == "hls4ml" else ""
    sizes = net.const("sizes", net.shapes["Quant_in_out"], np.int64)
    return behind(net, "Resize", extra=[roi, net.const("scales", []), sizes], mode="nearest")


def without_mask():
    return changed(behind(dense(), "Dropout"), lambda model: model.graph.node[1].output.append(""))


def line_pool(**attributes):
    """A pool over one axis, or two, with channels last."""
    net = Net()
    net.imports.append((CHANNELS_LAST, 13))
    x = net.quant(net.input("x", [1, 4, 4, 2] if attributes else [1, 4, 2]), "Quant_in")
    axes = 2 if attributes else 1
    out = net.node("MaxPool", [x], "Pool_0", [1, *[2] * axes, 2], domain=CHANNELS_LAST, kernel_shape=[2] * axes,
                   strides=[2] * axes, pads=[0] * 2 * axes, dilations=[1] * axes, **{"ceil_mode": 0, **attributes})  # fmt: skip
    net.quant(out, "Quant_out")
    return net


def called(name):
    net = dense()
    net.inputs[net.inputs.index("x")] = name
    net.shapes[name], net.types[name] = net.shapes["x"], net.types["x"]
    for node in net.nodes:
        node.input[:] = [name if one == "x" else one for one in node.input]
    return net


def with_spare():
    net = dense()
    net.spare.add(net.const("spare", [1.0, 2.0]))
    return net


def batch_bias():
    net = dense()
    net.const("bias", [[0.5, -0.25, 0.0]])
    return net


def channelwise(profile):
    """Scales that differ, by the channels of a convolution's outputs."""
    return {"scale": np.reshape([0.5, 0.25, 1.0, 2.0], (4, 1, 1, 1))} if profile == "hls4ml" else {}


def thresholds():
    net = Net()
    x = net.quant(net.input("x", [1, 3, 3]), "Quant_in")
    net.node("MultiThreshold", [x, net.const("thresholds", [[0.0, 1.0]])], "Threshold_0", domain=QONNX,
             out_dtype="UINT2")  # fmt: skip
    return net


def transposed_weight():
    net = Net()
    x = net.quant(net.input("x", [1, 4]), "Quant_in", bits=8)
    w = net.node("Transpose", [net.weight("Quant_w", [3, 4])], "Transpose_0", [4, 3], perm=[1, 0])
    net.node("MatMul", [x, w], "MatMul_0", [1, 3])
    return net


def forked_weight():
    net = Net()
    x = net.quant(net.input("x", [1, 4]), "Quant_in", bits=8)
    w = net.weight("Quant_w", [4, 4])
    net.node("MatMul", [net.node("MatMul", [x, w], "MatMul_0"), w], "MatMul_1")
    return net


def grouped_weight():
    net = Net()
    x = net.quant(net.input("x", [1, 4]), "Quant_in", bits=8)
    w = net.weight("Quant_w", [2, 2, 3], scale=np.reshape([0.5, 0.25, 1, 1, 2, 0.5], (2, 1, 3)))
    w = net.node("Reshape", [w, net.const("shape", [4, 3], np.int64)], "Reshape_0", [4, 3])
    net.node("MatMul", [x, w], "MatMul_0", [1, 3])
    return net


def misplaced_scale(profile):
    if profile == "hls4ml":
        return dense_with(target="Quant_in", scale=[[0.5, 0.25, 1, 2]])
    net = conv()
    net.const("Quant_in_scale", np.reshape([0.5, 0.25, 1, 2, 1, 1], (1, 1, 6, 1)))
    return net


def one_bit_net():
    net = dense()
    extra = [net.const(f"bit_{i}", value) for i, value in enumerate([0.5, 0.0, 1.0])]
    return behind(net, "Quant", "Bit_0", extra=extra, domain=QONNX, signed=1, narrow=0, rounding_mode="ROUND")


def again(scale=1.0, mode="ROUND"):
    """Values that are quantized already, by steps of 0.5; nothing before them has a tie that FINN takes elsewhere."""
    net = annotated("x", "finn_datatype", "INT8")
    net.const("Quant_out_scale", 2.0**-6)
    extra = [net.const(f"again_{i}", value) for i, value in enumerate([scale, 0.0, 5.0])]
    return behind(net, "Quant", "Again_0", extra=extra, domain=QONNX, signed=1, narrow=0, rounding_mode=mode)


@dataclass
class Case:
    rule: str
    profiles: str
    make: Callable  # profile -> Net
    node: str  # that the finding names
    fixable: bool = True
    runs: bool = True  # in qonnx, before it is fixed
    also: tuple = ()  # rules that cannot but be broken, too


ALL, QF, FH = "qonnx finn hls4ml", "qonnx finn", "finn hls4ml"

CASES = [
    Case("opset-order", ALL, lambda p: changed(dense(), reverse_imports), "opset_import"),
    Case("domain-import", ALL, lambda p: changed(dense(), without_import), "Quant_in"),
    Case("domain-import", "onnxruntime", lambda p: unimported_gelu(), "Extra_0", runs=False),
    Case("legacy-domain", ALL, lambda p: changed(dense(), in_domain("Quant_out", "onnx.brevitas")), "Quant_out"),
    Case("legacy-domain", "finn", lambda p: changed(dense(), in_domain("Quant_out", "")), "Quant_out", runs=False),
    Case("ir-version", "qonnx hls4ml", lambda p: dense(ir=14), "ir_version", runs=False),
    Case("ir-version", "finn", lambda p: dense(ir=11), "ir_version"),
    Case("ir-version", "onnxruntime", lambda p: with_ir(qdq(), 14), "ir_version", runs=False),
    Case("model-function", ALL, lambda p: changed(dense(), with_function), "Rectify", runs=False),
    Case("initializer-input", ALL, lambda p: changed(dense(), initializer_as_input), "bias"),
    Case("node-order", ALL, lambda p: changed(dense(), swap_nodes(1)), "MatMul_0", runs=False),
    Case("constant-node", ALL, lambda p: changed(dense(), constant_node), "Constant_0"),
    Case("node-name", ALL, lambda p: renamed("Relu_0", "0/Relu"), "0/Relu"),
    Case("node-name", "finn", lambda p: renamed("Relu_0", "layer.relu"), "layer.relu"),
    Case("node-name", "hls4ml", lambda p: renamed("Relu_0", "Add_0"), "Add_0"),
    Case("node-name", "qonnx", lambda p: renamed("Relu_0", ""), "Relu_0"),
    Case("static-shape", ALL, lambda p: changed(dense(), dynamic_batch), "x", fixable=False),
    Case("value-info", ALL, lambda p: changed(dense(), lambda m: m.graph.value_info.pop(1) and None), "Quant_w_out",
         runs=False),
    Case("onnx-opset", "finn", lambda p: dense(opset=22), "opset_import", fixable=False),
    Case("qonnx-opset", QF, lambda p: dense(qonnx=2), "opset_import"),
    Case("qonnx-opset", "qonnx", lambda p: changed(average(2), import_qonnx(1)), "Trunc_0", runs=False),
    Case("operator", "qonnx", lambda p: other_operator("Strange", "made.up"), "Extra_0", fixable=False),
    Case("operator", "finn", lambda p: float_quant(), "Extra_0", fixable=False),
    Case("operator", "hls4ml", lambda p: other_operator("Erf"), "Extra_0", fixable=False),
    Case("operator", "onnxruntime", lambda p: bipolar_alone(), "Bipolar_0", fixable=False),
    Case("float32", ALL, lambda p: changed(dense(), double_constant), "double", fixable=False),
    Case("annotation-type", ALL, lambda p: annotated("Quant_out_out", "finn_datatype", "UINT4"), "Quant_out_out",
         runs=False),
    Case("annotation-type", "qonnx", lambda p: annotated("Quant_w_values", "finn_datatype", "INT3"), "Quant_w_values",
         runs=False),
    Case("annotation-type", "qonnx", lambda p: annotated("x", "finn_datatype", "INT"), "x", runs=False),
    Case("annotation-text", ALL, lambda p: annotated("x", "tensor_layout", "print('N', 'C')"), "x", runs=False),
    Case("intquant", ALL, lambda p: changed(dense(), rename_operator("Quant_out", "IntQuant")), "Quant_out"),
    Case("quantizer-inputs", ALL, lambda p: changed(dense(), drop_input("Quant_out")), "Quant_out", fixable=False),
    Case("quantizer-attributes", ALL, lambda p: dense_with(target="Quant_out", rounding_mode=None), "Quant_out"),
    Case("quantizer-attributes", ALL, lambda p: dense_with(target="Quant_w", narrow=None), "Quant_w", fixable=False),
    Case("rounding-mode-case", ALL, lambda p: dense_with(target="Quant_out", rounding_mode="round"), "Quant_out"),
    Case("rounding-mode", "qonnx", lambda p: dense_with(target="Quant_out", rounding_mode="SIDEWAYS"), "Quant_out",
         fixable=False),
    Case("rounding-mode", "finn", lambda p: dense_with(target="Quant_out", rounding_mode="FLOOR"), "Quant_out"),
    Case("rounding-mode", "finn", lambda p: dense_with(target="Quant_in", rounding_mode="HALF_DOWN"), "Quant_in"),
    Case("rounding-mode", "hls4ml", lambda p: dense_with(target="Quant_out", rounding_mode="CEIL"), "Quant_out",
         fixable=False),
    Case("rounding-mode", FH, lambda p: dense_with(target="Quant_out", rounding_mode="HALF_EVEN"), "Quant_out"),
    Case("parameter-constant", "qonnx", lambda p: computed(dense(), "bits"), "Quant_out", fixable=False),
    Case("parameter-constant", FH, lambda p: computed(dense(), "scale"), "Quant_out", fixable=False),
    Case("parameter-type", ALL, lambda p: typed(np.int64, 0), "Quant_out"),
    Case("parameter-type", "qonnx", lambda p: typed(np.float64, 0.1), "Quant_out", fixable=False),
    Case("bitwidth-scalar", ALL, lambda p: dense_with(target="Quant_out", bits=[4]), "Quant_out"),
    Case("bitwidth-scalar", "qonnx", lambda p: dense_with(target="Quant_out", bits=[4, 5, 4]), "Quant_out",
         fixable=False),
    Case("bitwidth-whole", FH, lambda p: dense_with(target="Quant_out", bits=2.5), "Quant_out", fixable=False),
    Case("zeropt-scalar", ALL, lambda p: dense_with(target="Quant_out", zeropt=np.zeros((1, 3))), "Quant_out"),
    Case("scale-value", "qonnx", lambda p: dense_with(target="Quant_out", scale=0.0), "Quant_out", fixable=False),
    Case("scale-value", FH, lambda p: dense_with(target="Quant_out", scale=-0.5), "Quant_out", fixable=False),
    Case("parameter-axes", QF, lambda p: dense_with(scale=[0.5, 0.25, 1]), "Quant_w"),
    Case("parameter-axes", "hls4ml", lambda p: dense_with(zeropt=[0, 1, 2]), "Quant_w", also=("zeropt-zero",)),
    Case("parameter-shape", QF, lambda p: dense_with(target="Quant_out", scale=[[1, 2, 3, 4]]), "Quant_out",
         fixable=False),
    Case("parameter-shape", "hls4ml", lambda p: dense_with(target="Quant_out", zeropt=[[1, 2, 3, 4]]), "Quant_out",
         fixable=False, also=("zeropt-zero",)),
    Case("unsigned-narrow", "hls4ml", lambda p: dense_with(target="Quant_out", narrow=1), "Quant_out", fixable=False),
    Case("one-bit", FH, lambda p: one_bit_net(), "Bit_0"),
    Case("gemm", FH, lambda p: gemm(), "Gemm_0"),
    Case("conv-bias", ALL, lambda p: conv(p, bias=quantized_bias, **channelwise(p)), "Conv_0"),
    Case("conv-bias", FH, lambda p: conv(p, bias=float_bias, **channelwise(p)), "Conv_0"),
    Case("batch-constant", "hls4ml", lambda p: batch_bias(), "Add_0"),
    Case("cpp-name", "hls4ml", lambda p: called("input"), "input"),
    Case("unused-initializer", "hls4ml", lambda p: with_spare(), "spare"),
    Case("constant-operand", FH, lambda p: constant_first(), "Add_0"),
    Case("average-pool", FH, lambda p: pooled(p), "Extra_0", fixable=False),
    Case("trunc", "finn", lambda p: average(mode="ROUND"), "Trunc_0", fixable=False),
    Case("channels-last", "hls4ml", lambda p: channels_first_pool(), "Extra_0"),
    Case("conv-attributes", FH, lambda p: conv_without("strides", p), "Conv_0"),
    Case("conv-attributes", "finn", lambda p: max_pool_without("pads"), "Extra_0"),
    Case("conv-attributes", "hls4ml", lambda p: conv_without("kernel_shape"), "Conv_0"),
    Case("conv-attributes", "hls4ml", lambda p: self_padding_conv(), "Conv_0", runs=False),
    Case("conv-group", FH, lambda p: conv(p, channels=4, group=2), "Conv_0", fixable=False),
    Case("conv-group", "finn", lambda p: conv(p, channels=2, group=2), "Conv_0", fixable=False),
    Case("operator", "finn", lambda p: other_operator("LeakyRelu"), "Extra_0", fixable=False),
    Case("reshape-target", "hls4ml", lambda p: computed_reshape(), "Extra_0"),
    Case("transpose-perm", "hls4ml", lambda p: square_transpose(), "Extra_0"),
    Case("concat-rank", "hls4ml", lambda p: wide_concat(), "Concat_0", fixable=False),
    Case("pad-value", "hls4ml", lambda p: padded(), "Extra_0", fixable=False),
    Case("empty-input", ALL, lambda p: resized_to_nothing(p), "Extra_0", runs=False),
    Case("empty-output", ALL, lambda p: without_mask(), "Extra_0", runs=False),
    Case("pool-axes", "hls4ml", lambda p: line_pool(), "Pool_0"),
    Case("pool-axes", "hls4ml", lambda p: line_pool(ceil_mode=1), "Pool_0"),
    Case("resize", "hls4ml", lambda p: resized(), "Extra_0"),
    Case("table-operator", "hls4ml", lambda p: other_operator("Sigmoid"), "Extra_0", fixable=False),
    Case("threshold-layout", QF, lambda p: thresholds(), "Threshold_0", fixable=False),
    Case("weight-transpose", FH, lambda p: transposed_weight(), "Transpose_0"),
    Case("weight-fork", "finn", lambda p: forked_weight(), "Quant_w"),
    Case("weight-consumer", FH, lambda p: grouped_weight(), "Quant_w", fixable=False),
    Case("weight-scale", "finn", lambda p: conv(p, scale=np.reshape([0.5, 0.25], (1, 2, 1, 1))), "Quant_w",
         fixable=False),
    Case("weight-scale", "hls4ml", lambda p: dense_with(scale=[[0.5, 0.25, 1]]), "Quant_w", fixable=False),
    Case("weight-scale", "finn", lambda p: conv(p, scale=np.full((1, 2, 1, 1), 0.25)), "Quant_w"),
    Case("weight-rounding", "qonnx finn", lambda p: dense_with(rounding_mode="CEIL", signed=0, narrow=0), "Quant_w"),
    Case("weight-rounding", ALL, lambda p: dense_with(rounding_mode="FLOOR"), "Quant_w"),
    Case("zeropt-zero", "finn", lambda p: dense_with(target="Quant_in", zeropt=1.0), "Quant_in"),
    Case("zeropt-zero", "finn", lambda p: dense_with(target="Quant_out", zeropt=3.0), "Quant_out"),
    Case("zeropt-zero", "finn", lambda p: dense_with(target="Quant_in", zeropt=0.5), "Quant_in", fixable=False),
    Case("zeropt-zero", FH, lambda p: dense_with(bits=2, narrow=0, zeropt=-0.5), "Quant_w"),
    Case("zeropt-zero", "hls4ml", lambda p: dense_with(target="Quant_in", zeropt=1.0), "Quant_in", fixable=False),
    Case("zeropt-zero", "hls4ml", lambda p: dense_with(target="Quant_out", zeropt=-1.0), "Quant_out", fixable=False),
    Case("activation-sign", "finn", lambda p: dense_with(target="Quant_out", signed=1), "Quant_out"),
    Case("activation-sign", "finn", lambda p: dense_with(target="Quant_in", signed=0), "Quant_in"),
    Case("activation-bits", "finn", lambda p: dense_with(target="Quant_in", bits=9), "Quant_in", fixable=False),
    Case("activation-scale", FH, misplaced_scale, "Quant_in", fixable=False),
    Case("activation-scale", "hls4ml", lambda p: dense_with(target="Quant_in", scale=[[0.5] * 4]), "Quant_in"),
    Case("bipolar-scale", FH, lambda p: bipolar(0.5), "Bipolar_0"),
    Case("round-tie", "finn", lambda p: again(), "Again_0"),
    Case("round-tie", "finn", lambda p: dense(), "Quant_in"),
    Case("round-tie", "finn", lambda p: dense_with(target="Quant_in", scale=[[0.5, 0.25, 1, 2]]), "Quant_in"),
    Case("power-of-two", "hls4ml", lambda p: dense_with(target="Quant_in", scale=0.3), "Quant_in", fixable=False),
    Case("residual-scale", "finn", lambda p: residual(0.25), "Add_0", fixable=False),
    Case("qdq-tie", "onnxruntime", lambda p: qdq(zero=3), "Quantize_0", fixable=False),
    Case("qdq-opset", "onnxruntime", lambda p: qdq(opset=11, scale=[0.5, 0.25, 1]), "Quantize_0", fixable=False),
]  # fmt: skip
