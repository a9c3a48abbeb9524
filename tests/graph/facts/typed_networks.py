"""Networks of annotated inputs and constants through every operator that qonnx's InferDataTypes knows, and some others."""

import numpy as np
import onnx
from constant_networks import Batch, f32, i64
from onnx import TensorProto, helper, numpy_helper

GENERAL = "qonnx.custom_op.general"
TYPES = ["INT4", "INT8", "UINT3", "UINT8", "BINARY", "BIPOLAR", "TERNARY", "FIXED<6,3>", "SCALEDINT<5>", "FLOAT<4,3,7>",
         "FLOAT32", "INT32", "UINT32"]  # fmt: skip
SHAPE = [1, 2, 4, 4]
UNKNOWN = ["Abs", "Neg", "Relu", "Floor", "Ceil", "Sigmoid", "Exp"]


class Typed(Batch):
    """Values of one shape, most of them taken again."""

    def __init__(self, rng, opset):
        super().__init__(rng, opset)
        self.annotations, self.inputs, self.values, self.containers = {}, [], [], {}
        for _ in range(6):
            self.inputs.append(self.annotated(self.name("x"), 0.9))
        self.values += self.inputs

    def annotated(self, value, chance):
        if self.chance(chance):
            self.annotations[value] = self.pick(*TYPES)
        return value

    def taken(self):
        return self.pick(*(self.inputs if self.chance(0.5) else self.values[-12:]))

    def weight(self, shape=SHAPE, dtype=f32):
        return self.annotated(self.constant(np.ones(shape), dtype), 0.7)

    def number(self, value):
        """An initializer: in no other constant does qonnx look for parameters."""
        name = self.name("p")
        self.constants.append(numpy_helper.from_array(np.asarray(value, f32), name))
        return name

    def finish(self, row, value, again=True):
        super().finish(row, self.annotated(value, 0.15))
        if again:
            self.values.append(value)

    def model(self):
        model = super().model()
        for name in self.inputs:
            model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE))
        for output in model.graph.output:  # where qonnx looks for the type
            if output.name in self.containers:
                output.CopyFrom(self.containers[output.name])
        model.opset_import.append(helper.make_opsetid("qonnx.custom_op.channels_last", 1))
        for name, text in self.annotations.items():
            entry = onnx.StringStringEntryProto(key="finn_datatype", value=text)
            model.graph.quantization_annotation.append(
                onnx.TensorAnnotation(tensor_name=name, quant_parameter_tensor_names=[entry])
            )
        return model


def product(b):
    op = b.pick("MatMul", "Gemm", "Conv", "Add", "Sub", "Mul")
    x = b.taken()
    if op == "Conv":
        y = b.node("Conv", [x, b.weight([2, 2, 1, 1]), *([b.weight([2])] if b.chance(0.4) else [])])
    elif op == "Gemm":
        flat = b.node("Reshape", [x, b.ints(8, 4)])
        made = b.node("Gemm", [flat, b.weight([4, 4]), *([b.weight([4])] if b.chance(0.4) else [])])
        Batch.finish(b, ("Gemm", ""), made)
        y, op = b.node("Reshape", [made, b.ints(*SHAPE)]), "Reshape"
    else:
        other = b.weight() if b.chance(0.5) else b.taken()
        y = b.node(op, [x, other] if b.chance(0.6) else [other, x])
    b.finish((op, ""), y)


def kept(b):
    x = b.taken()
    makers = {
        "Reshape": lambda: b.node("Reshape", [x, b.ints(*SHAPE)]),
        "Transpose": lambda: b.node("Transpose", [x], perm=[0, 1, 3, 2]),
        "Slice": lambda: b.node("Slice", [x, b.ints(0), b.ints(9)]),
        "Gather": lambda: b.node("Gather", [x, b.ints(0)]),
        "GatherElements": lambda: b.node("GatherElements", [x, b.constant(np.zeros(SHAPE), i64)]),
        "GatherND": lambda: b.node("GatherND", [x, b.constant(np.zeros([*SHAPE, 4]), i64)]),
        "Identity": lambda: b.node("Identity", [x]),
        "Expand": lambda: b.node("Expand", [x, b.ints(*SHAPE)]),
        "MaxPool": lambda: b.node("MaxPool", [x], kernel_shape=[1, 1]),
        "ScatterElements": lambda: b.node("ScatterElements", [x, b.constant(np.zeros(SHAPE), i64), b.weight()]),
        "ScatterND": lambda: b.node("ScatterND", [x, b.constant(np.zeros([1, 1]), i64), b.weight()]),
        "Tile": lambda: b.node("Tile", [x, b.ints(1, 1, 1, 1)]),
        "Pad": lambda: b.node("Pad", [x, b.ints(*[0] * 8)]),
        "Concat": lambda: b.node("Concat", [x], axis=0),
        "Clip": lambda: b.node("Clip", [x, b.number(-1), b.number(1)]),
        "Resize": lambda: b.node("Resize", [x, "", b.constant([1, 1, 1, 1])], mode=b.pick("nearest", "linear")),
    }
    op = b.pick(*makers)
    b.finish((op, ""), makers[op]())


def ends(b):
    """Operators of other shapes, whose values nothing takes."""
    x = b.taken()
    op = b.pick("Flatten", "Squeeze", "Unsqueeze", "GlobalMaxPool", "Im2Col", "QuantAvgPool2d", "Softmax", "ReduceSum")
    if op == "Flatten":
        y = b.node(op, [x])
    elif op in ("Squeeze", "Unsqueeze", "ReduceSum"):
        y = b.node(op, [x, b.ints(0)])
    elif op == "Im2Col":
        y = b.node(op, [x], GENERAL, kernel_size=[1, 1], stride=[1, 1], input_shape="(1,2,4,4)")
    elif op == "QuantAvgPool2d":
        y = b.node(op, [x], GENERAL, kernel=2, stride=2, ibits=4, obits=b.whole(2, 32), signed=b.whole(0, 1))
    else:
        y = b.node(op, [x])
    b.finish((op, ""), y, again=False)


def other(b):
    op = b.pick("Sign", "unknown", "unknown", "MaxPoolNHWC", "Trunc", "channels_last", "pair", "XnorPopcountMatMul")
    x = b.taken()
    if op == "Sign":
        y = b.node(op, [x])
    elif op == "unknown":
        y = b.node(b.pick(*UNKNOWN), [x])
    elif op == "MaxPoolNHWC":
        y = b.node(op, [x], GENERAL, kernel_shape=[1, 1], strides=[1, 1], pads=[0, 0, 0, 0])
    elif op == "Trunc":
        y = b.node(op, [x, *(b.number(v) for v in (1, 0, 8, 4))], GENERAL, rounding_mode="FLOOR")
    elif op == "channels_last":
        y = b.node("MaxPool", [x], "qonnx.custom_op.channels_last", kernel_shape=[1, 1])
    elif op == "XnorPopcountMatMul":
        binary = [b.number(np.ones([4, 4])) for _ in range(2)]
        b.annotations.update({value: "BINARY" for value in binary})
        y = b.node(op, binary, GENERAL)
        return b.finish((op, ""), y, again=False)
    else:
        container = b.pick(np.uint8, np.int8, np.uint16, np.int16) if b.opset >= 21 else b.pick(np.uint8, np.int8)
        scale, zero = b.number(0.5), b.constant(3, container)
        codes = b.node("QuantizeLinear", [x, scale, zero])
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(container))
        b.containers[codes] = helper.make_tensor_value_info(codes, kind, SHAPE)
        Batch.finish(b, ("QuantizeLinear", ""), codes)
        y = b.node("DequantizeLinear", [codes, scale, zero])
    b.finish((op, ""), y)


def integer_quantizer(b):
    one = b.pick(1, 1, 0.5, [1, 1, 1, 1], [1, 1, 1, 0.5])
    bits = b.pick(1, 2, 4, 8, 3.5, 24, [4])
    inputs = [b.taken(), b.number(one), b.number(b.pick(0, 0, 0, 3)), b.number(bits)]
    y = b.node(b.pick("Quant", "IntQuant"), inputs, GENERAL, signed=b.whole(0, 1), narrow=b.whole(0, 1), rounding_mode="ROUND")
    b.finish(("Quant", ""), y)


def bipolar_quantizer(b):
    y = b.node("BipolarQuant", [b.taken(), b.number(b.pick(1, 1, 2, [1, 1, 1, 1], [1, 1, 2, 1]))], GENERAL)
    b.finish(("BipolarQuant", ""), y)


def float_quantizer(b):
    exponent, mantissa = b.pick(b.whole(1, 8), 1, 8), b.pick(b.whole(0, 23), 0, 23)
    fields = [exponent, mantissa, b.pick(b.whole(1, 12), 7), b.pick(448, 1000)]
    if b.chance(0.3):
        i = b.whole(0, 2)
        fields[i] = b.pick(fields[i] + 0.5, [fields[i]])
    scale = b.pick(1, 1, 0.5, [1, 1, 1, 1], [1, 2, 1, 1])
    y = b.node("FloatQuant", [b.taken(), b.number(scale), *(b.number(v) for v in fields)], GENERAL, has_subnormal=1,
               has_inf=0, has_nan=0, saturation=1, rounding_mode="ROUND")  # fmt: skip
    b.finish(("FloatQuant", ""), y)


def thresholds(b):
    steps = b.constant(np.arange(6).reshape(2, 3))
    y = b.node("MultiThreshold", [b.taken(), steps], GENERAL, out_dtype=b.pick(*TYPES), out_scale=b.pick(None, 1.0, 2.0, 0.5),
               out_bias=b.pick(None, 0.0, -1.0, 0.5))  # fmt: skip
    b.finish(("MultiThreshold", ""), y)


MAKERS = [product, product, product, kept, kept, kept, kept, ends, ends, other, other, integer_quantizer, bipolar_quantizer,
          float_quantizer, thresholds]  # fmt: skip
