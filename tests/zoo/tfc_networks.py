"""The TFC networks of qonnx's model zoo, operator by operator as their files have them, with drawn weights.

Three hidden layers of 64 on images of 28 by 28. The zoo's files are exports of PyTorch: tensors are numbered, nodes too,
constants are graph inputs as well, and quantizers stand in the domain `onnx.brevitas`, which no file of the zoo imports.
FINN's form of TFC_1W1A has thresholds in their place, and types and layouts as annotations.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BREVITAS, FINN = "onnx.brevitas", "finn.custom_op.general"
SIZES = [784, 64, 64, 64, 10]
BITS = {"TFC_1W1A": (1, 1), "TFC_1W2A": (1, 2), "TFC_2W2A": (2, 2)}  # of weights, of activations
EPSILON = float(np.float32(1e-5))


class Drawn:
    """Weights and statistics in the ranges of the trained ones: sums fall on both sides of every quantizer's edge."""

    def __init__(self, seed, weight_bits):
        self.random, self.weight_bits = np.random.default_rng(seed), weight_bits

    def weight(self, outputs, inputs):
        if self.weight_bits == 1:
            return self.random.choice(np.float32([-1, 1]), (outputs, inputs))
        share = 0.69 if inputs == SIZES[0] else 0.26  # of zeros, which have either sign
        values = [-1, -0.0, 0.0, 1]
        return self.random.choice(np.float32(values), (outputs, inputs), p=[(1 - share) / 2, share / 2, share / 2, (1 - share) / 2])

    def norm(self, inputs):
        """weight, bias, running_mean, running_var"""
        variance = self.random.uniform(0.7, 3, 64) * inputs
        values = [self.random.normal(1.6, 0.7, 64), self.random.normal(0, 1, 64),
                  self.random.normal(0, 0.6 * inputs**0.5, 64), variance]  # fmt: skip
        return [value.astype(np.float32) for value in values]


class Export:
    """Names as PyTorch's exporter of 2021 gave them: a number for every value, another for every node, constants included."""

    def __init__(self, value, node):
        self.value, self.node = value, node
        self.nodes, self.constants = [], {}

    def constant(self, value, type=np.float32):
        self.constants[name := str(self.value)] = np.asarray(value, type)
        self.value, self.node = self.value + 1, self.node + 1
        return name

    def add(self, op, *inputs, domain="", **attributes):
        name = str(self.value)
        self.nodes.append(helper.make_node(op, inputs, [name], f"{op}_{self.node}", domain=domain or None, **attributes))
        self.value, self.node = self.value + 1, self.node + 1
        return name

    def quantized(self, bits, x=None, weight=None):
        """What the quantizer of an activation `x` gives, or that of a constant, `weight`."""
        is_one = bits == 1
        width = None if is_one else self.constant(bits)
        if weight is not None:
            x = self.constant(weight)
        scale = self.constant(1)
        if is_one:
            return self.add("BipolarQuant", x, scale, domain=BREVITAS)
        zero = self.constant(0)
        return self.add("Quant", x, scale, zero, width, domain=BREVITAS, narrow=1, rounding_mode="ROUND", signed=1)


def tfc(name, seed=1):
    """The network of that name, one of BITS."""
    weight_bits, activation_bits = BITS[name]
    drawn, net = Drawn([seed, weight_bits, activation_bits], weight_bits), Export(24, 0)
    norms = {}
    shape = net.add("Shape", "0")
    batch = net.add("Gather", shape, net.constant(0, np.int64), axis=0)
    net.value += 1
    batch = net.add("Unsqueeze", batch, axes=[0])
    net.value += 1
    x = net.add("Reshape", "0", net.add("Concat", batch, "all", axis=0))
    x = net.add("Mul", x, net.constant(2))
    x = net.add("Sub", x, net.constant([1]))
    for layer, (inputs, outputs) in enumerate(zip(SIZES, SIZES[1:])):
        x = net.quantized(activation_bits, x=x)
        w = net.add("Transpose", net.quantized(weight_bits, weight=drawn.weight(outputs, inputs)), perm=[1, 0])
        x = net.add("MatMul", x, w)
        feature = f"features.{3 + 4 * layer}"
        if outputs == 64:
            kinds = [f"{feature}.{kind}" for kind in ("weight", "bias", "running_mean", "running_var")]
            norms |= dict(zip(kinds, drawn.norm(inputs)))
            x = net.add("BatchNormalization", x, *kinds, epsilon=EPSILON, momentum=float(np.float32(0.9)))
    last = {"weight": 0.8, "bias": -1.2, "running_mean": 0.8}  # its variance is a constant, since the exporter added epsilon
    norms |= {f"{feature}.{kind}": np.float32([value]) for kind, value in last.items()}
    x = net.add("Sub", x, f"{feature}.running_mean")
    net.value += 2
    x = net.add("Div", x, net.add("Pow", "variance", net.constant(0.5)))
    x = net.add("Add", net.add("Mul", x, f"{feature}.weight"), f"{feature}.bias")
    folded = {"all": str(net.value), "variance": str(net.value + 1)}  # numbered when all was exported
    for node in net.nodes:
        node.input[:] = [folded.get(one, one) for one in node.input]
    folded = {folded["all"]: np.int64([-1]), folded["variance"]: np.float32([333.5])}
    listed = {**norms, **folded, **net.constants}
    stored = {**folded, **dict(sorted(norms.items())), **net.constants}
    inputs = [helper.make_tensor_value_info("0", TensorProto.FLOAT, [1, 1, 28, 28])]
    inputs += [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape) for key, value in listed.items()]
    outputs = [helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, 10])]
    graph = helper.make_graph(net.nodes, "torch-jit-export", inputs, outputs,
                              [numpy_helper.from_array(value, key) for key, value in stored.items()])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=6, producer_name="pytorch")


def thresholds(seed=1):
    """tfc_1w1a_multithreshold: FINN's form of TFC_1W1A, which gives the digit of an image of bytes."""
    drawn = Drawn([seed, 1], 1)
    nodes, constants, types, shapes, count = [], {}, {"global_in": "UINT8"}, {}, {}

    def add(op, x, *values, out="FLOAT32", shape=(1, 64), outputs=1, domain="", **attributes):
        number = count[op] = count.get(op, -1) + 1
        names = [f"{op}_{number}_param{i}" for i in range(len(values))]
        constants.update({name: np.asarray(value) for name, value in zip(names, values)})
        made = [f"{op}_{number}_out{i}" for i in range(outputs)]
        nodes.append(helper.make_node(op, [x, *names], made, f"{op}_{number}", domain=domain or None, **attributes))
        types[made[0]], shapes[made[0]] = out, shape
        return made[0]

    def sign(x, shape):
        return add("MultiThreshold", x, np.float32([[0]]), out="BIPOLAR", shape=shape, domain=FINN, out_bias=-1.0, out_dtype="BIPOLAR", out_scale=2.0)

    wide = (1, 784)
    x = add("Div", "global_in", np.float32(255), shape=(1, 1, 28, 28))
    x = add("Reshape", x, np.int64([1, -1]), shape=wide)
    x = add("Sub", add("Mul", x, np.float32(2), shape=wide), np.float32([1]), shape=wide)
    for inputs, outputs in zip(SIZES, SIZES[1:]):
        shape = (1, outputs)
        x = add("MatMul", sign(x, (1, inputs)), drawn.weight(inputs, outputs), out="INT32", shape=shape)
        types[nodes[-1].input[1]] = "BIPOLAR"
        x = add("Mul", x, np.float32(1), shape=shape)
        if outputs == 64:
            x = add("Unsqueeze", x, axes=[2], shape=(1, 64, 1))
            x = add("BatchNormalization", x, *drawn.norm(inputs), shape=(1, 64, 1), epsilon=EPSILON, momentum=float(np.float32(0.9)))
            x = add("Squeeze", x, axes=[2])
    x = add("Div", add("Sub", x, np.float32([0.8]), shape=shape), np.float32([18.25]), shape=shape)
    x = add("Add", add("Mul", x, np.float32([0.8]), shape=shape), np.float32([-1.2]), shape=shape)
    add("TopK", x, np.int64([1]), shape=(1, 1), outputs=2, axis=-1, largest=1, sorted=1)
    nodes[-1].output[1] = "global_out"
    types |= {"TopK_0_param0": "FLOAT32", "global_out": "UINT32"}

    notes = []
    for name, type in types.items():
        layout = {2: "['N', 'C']", 3: "['N', 'C', 'x']", 4: "['N', 'C', 'H', 'W']"}[len(shapes.get(name, (1, 1, 28, 28)))]
        said = {"finn_datatype": type} | ({} if name.startswith("TopK") or "param" in name or name == "global_out" else {"tensor_layout": layout})
        notes.append(onnx.TensorAnnotation(tensor_name=name, quant_parameter_tensor_names=[
            onnx.StringStringEntryProto(key=key, value=value) for key, value in said.items()]))  # fmt: skip
    about = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    about += [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape) for key, value in constants.items()]
    graph = helper.make_graph(nodes, "fuse-graph", [helper.make_tensor_value_info("global_in", TensorProto.FLOAT, [1, 1, 28, 28])],
                              [helper.make_tensor_value_info("global_out", TensorProto.INT64, [1, 1])],
                              [numpy_helper.from_array(value, key) for key, value in constants.items()], value_info=about)  # fmt: skip
    graph.quantization_annotation.extend(notes)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=7, producer_name="fuse_model")
