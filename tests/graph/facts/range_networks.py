"""Networks of quantizer -> operator -> dense layer, many in one ONNX file.

Each network ends in `Reshape` to [-1, 1] and a `MatMul` by the codes [[1, -1]]: every sum is a level of the operator's
result, or its opposite.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

GENERAL = "qonnx.custom_op.general"
LAST = "qonnx.custom_op.channels_last"
WEIGHT_SCALE = 0.5
f32 = np.float32


class Batch:
    """One file. `form`: "qonnx", "qcdq", or "raw": QCDQ beside an operator that keeps it from being read as QONNX."""

    def __init__(self, rng, opset, form):
        self.rng, self.opset, self.form = rng, opset, form
        self.general = int(rng.integers(1, 3)) if form == "qonnx" else 1  # the version of qonnx's operators
        self.nodes, self.constants, self.inputs, self.heads, self.ranges = [], [], {}, {}, {}
        self.rows, self.count = {}, 0

    def pick(self, *options):
        return options[self.rng.integers(len(options))]

    def chance(self, p):
        return self.rng.random() < p

    def name(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def constant(self, value, dtype=np.float32):
        name = self.name("c")
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def tensor(self, value):
        return numpy_helper.from_array(np.asarray(value, np.float32))

    def ints(self, *values):
        return self.constant(values, np.int64)

    def node(self, op, inputs, domain="", outputs=1, **attributes):
        made = [self.name("v") for _ in range(outputs)]
        attributes = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(op, inputs, made, name=self.name("n"), domain=domain, **attributes))
        return made[0] if outputs == 1 else made

    def shape(self, rank=None):
        rank = rank or int(self.rng.integers(2, 5))
        return [int(n) for n in self.rng.integers(1, 5, rank)]

    def spatial(self, low=3, high=7):
        return [1, int(self.rng.integers(1, 4)), *(int(n) for n in self.rng.integers(low, high, 2))]

    def scale(self):
        return float(self.pick(1.0, 0.5, 0.25, 2.0**-6, 0.3, 0.0117, 4.0))

    def value(self, shape):
        name = self.name("x")
        self.inputs[name] = shape
        return name

    def quantized(self, shape, scale=None, zero=None, bits=None, signed=None):
        """A quantizer behind an input of the file."""
        scale = self.scale() if scale is None else scale
        x = self.value(shape)
        signed = bool(self.rng.integers(2)) if signed is None else signed
        if self.form != "qcdq" and self.chance(0.1):
            scale = -scale
        if self.form == "qonnx":
            bits = int(self.pick(1, 2, 3, 4, 8)) if bits is None else bits
            zero = self.pick(0, 0, 0, 1, -2, -20, 0.5) if zero is None else zero
            inputs = [x, *(self.constant(v) for v in (scale, zero, bits))]
            made = self.node("Quant", inputs, GENERAL, signed=int(signed), narrow=int(self.chance(0.3)),
                             rounding_mode=self.pick("ROUND", "FLOOR", "CEIL", "HALF_UP"))  # fmt: skip
            self.ranges[x] = abs(scale) * 300
            return made
        container = np.int8 if signed else np.uint8
        zero = self.pick(0, 0, 0, 3, 100) if zero is None else zero
        made = self.codes(x, scale, zero, container, bits)
        return self.node("DequantizeLinear", [made, self.constant(scale), self.constant(zero, container)])

    def codes(self, x, scale, zero, container, bits=None):
        self.ranges[x] = abs(scale) * 300
        made = self.node("QuantizeLinear", [x, self.constant(scale), self.constant(zero, container)])
        bits = int(self.pick(2, 3, 4, 8)) if bits is None else bits
        if bits < 8 and self.opset >= 12:
            low = -(2 ** (bits - 1)) if container is np.int8 else 0
            high = 2 ** (bits - 1) - 1 if container is np.int8 else 2**bits - 1
            made = self.node("Clip", [made, self.constant(low, container), self.constant(high, container)])
        return made

    def twins(self, shape, count=2, other=0.3, **fixed):
        """Quantized values of one scale (mostly)."""
        scale = self.scale()
        if self.chance(0.85):
            fixed.setdefault("zero", self.pick(0, 0, 0.5) if self.form == "qonnx" else 0)
        made = [self.quantized(shape, scale, **fixed)]
        for _ in range(count - 1):
            made.append(self.quantized(shape, scale if not self.chance(other) else self.scale(), **fixed))
        return made, scale

    def finish(self, row, value):
        """The dense layer behind it."""
        flat = self.node("Reshape", [value, self.ints(-1, 1)])
        codes = np.array([[1, -1]])
        if self.form == "qonnx":
            w = self.constant(codes * WEIGHT_SCALE)
            w = self.node("Quant", [w, *(self.constant(v) for v in (WEIGHT_SCALE, 0, 4))], GENERAL,
                          signed=1, narrow=1, rounding_mode="ROUND")  # fmt: skip
        else:
            w = self.node("DequantizeLinear", [self.constant(codes, np.int8), self.constant(WEIGHT_SCALE)])
        name = f"layer{len(self.heads)}"
        self.nodes.append(helper.make_node("MatMul", [flat, w], [f"y{len(self.heads)}"], name=name))
        self.heads[name] = f"y{len(self.heads)}"
        self.rows[name] = row

    def model(self):
        """Its one input "x" holds those of all networks behind each other."""
        cut, constants, at = [], list(self.constants), 0
        for name, shape in self.inputs.items():
            size = int(np.prod(shape))
            parts = {f"{name}_a": [at], f"{name}_b": [at + size], f"{name}_s": shape}
            constants += [numpy_helper.from_array(np.array(value, np.int64), key) for key, value in parts.items()]
            cut.append(helper.make_node("Slice", ["x", f"{name}_a", f"{name}_b"], [f"{name}_p"], name=f"{name}_cut"))
            cut.append(helper.make_node("Reshape", [f"{name}_p", f"{name}_s"], [name], name=f"{name}_shape"))
            at += size
        graph = helper.make_graph(
            [*cut, *self.nodes], "ranges", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [at])],
            [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in self.heads.values()], constants,
        )  # fmt: skip
        imports = [helper.make_opsetid(d, v) for d, v in (("", self.opset), (GENERAL, self.general), (LAST, 1))]
        return helper.make_model(graph, opset_imports=imports, ir_version=8 if self.opset < 19 else 10)

    def sample(self, kind):
        """Inputs of the file: "random", "mixed" extremes, or "flat": each input all high or all low."""
        made = []
        for name, shape in self.inputs.items():
            most = self.ranges.get(name, 1000.0)
            if kind == "random":
                x = self.rng.normal(size=shape) * most / self.pick(600, 60, 6)
            elif kind == "mixed":
                x = np.where(self.rng.random(shape) < 0.5, 1, -1) * most
            else:
                x = np.full(shape, self.pick(-1, 1) * most)
            made.append(x.astype(np.float32).ravel())
        return np.concatenate(made)


def only_outputs(model, outputs):
    """The part of the model that makes these outputs."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    wanted, nodes = set(outputs), []
    for node in reversed(model.graph.node):
        if wanted & set(node.output):
            nodes.append(node)
            wanted |= set(node.input)
    for field, keep in (("node", nodes[::-1]), ("output", [o for o in model.graph.output if o.name in set(outputs)]),
                        ("input", [i for i in model.graph.input if i.name in wanted]),
                        ("initializer", [c for c in model.graph.initializer if c.name in wanted])):  # fmt: skip
        made.graph.ClearField(field)
        getattr(made.graph, field).extend(keep)
    return made


MAKERS = {}


def maker(*ops, domain="", forms=("qonnx", "qcdq", "raw"), since=10):
    def keep(function):
        for op in ops:
            MAKERS[(domain, op)] = (lambda b, op=op: function(b, op), forms, since)
        return function

    return keep
