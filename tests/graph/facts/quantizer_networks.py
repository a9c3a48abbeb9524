"""Networks of QONNX's quantizers of constants, with what may stand behind them, and qonnx's own execution of them."""

import numpy as np
from constant_networks import Batch, f32, f64, i32, i64

GENERAL = "qonnx.custom_op.general"
MODES = ["ROUND", "HALF_EVEN", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN", "floor", "Half_Up"]


class Quantizers(Batch):
    """Beside each value: what qonnx makes of it, and the scale of the quantizer that it comes from."""

    def __init__(self, rng, opset):
        super().__init__(rng, opset)
        self.arrays, self.scales = {}, {}

    def known(self, value, dtype=f32):
        name = self.constant(value, dtype)
        self.arrays[name] = np.asarray(value, dtype)
        return name

    def execute(self, value):
        """The last node, a quantizer, by qonnx."""
        from qonnx.custom_op.registry import getCustomOp

        node = self.nodes[-1]
        assert list(node.output) == [value]
        getCustomOp(node).execute_node(self.arrays, None)

    def values(self, shape, scale, types=(f32,)):
        """Around the quantizer's range: many ties, some zeros, now and then what is no finite number."""
        dtype = self.pick(*types)
        x = self.rng.integers(-40, 40, shape) / 2 if self.chance(0.5) else self.rng.normal(size=shape) * 6
        x = np.asarray(x * (scale if self.chance(0.8) and dtype in (f32, f64) else 1)).astype(dtype)
        if x.size and self.chance(0.15) and dtype in (f32, f64):
            x.flat[self.whole(0, x.size - 1)] = self.pick(np.nan, np.inf, -np.inf, -0.0, 3e38)
        return x

    def part(self, shape):
        """A shape that broadcasts to this one."""
        kind = self.whole(0, 4)
        if kind < 2 or not shape:
            return self.pick([], [], [1]) if shape else []
        part = [n if self.chance(0.5) else 1 for n in shape]
        return part[self.whole(0, len(shape)) :]

    def scale(self, shape, types=(f32,)):
        powers = 2.0 ** self.rng.integers(-5, 3, shape)
        scale = powers if self.chance(0.5) else self.rng.uniform(0.05, 2, shape)
        return np.asarray(scale * np.where(self.rng.random(shape) < 0.05, -1, 1)).astype(self.pick(*types))


def name_of(b, value):
    return b.known(value, value.dtype)


def executed(b, op, y, scale=None):
    """What a quantizer makes, by qonnx; its levels are told by this scale, where it has levels."""
    b.execute(y)
    if scale is not None:
        b.scales[y] = scale
    b.finish((op, ""), y)
    return y


def integer_quant(b):
    shape = b.shape(0, 4)
    scale = b.scale(b.part(shape), (f32, f32, f32, f64))
    zero_shape = b.pick([], [], b.part(shape))
    zero = b.pick(np.zeros(zero_shape), b.rng.integers(-9, 9, zero_shape), b.rng.integers(-9, 9, zero_shape) / 2)
    zero = np.asarray(zero).astype(b.pick(f32, f32, f32, f64, i64, i32))
    bits = np.asarray(b.pick(1, 2, 3, 4, 8, 5.5)).reshape(b.pick([], [], [1] if shape else []))
    bits = bits.astype(b.pick(f32, f32, f32, i64, f64) if bits == np.trunc(bits) else f32)
    x = b.values(shape, scale, (f32, f32, f32, f32, f64, i32))
    inputs = [name_of(b, part) for part in (x, scale, zero, bits)]
    y = b.node(b.pick("Quant", "Quant", "IntQuant"), inputs, GENERAL, signed=b.whole(0, 1), narrow=b.whole(0, 1),
               rounding_mode=b.pick(*MODES, None))  # fmt: skip
    return executed(b, "Quant", y, scale)


def bipolar_quant(b):
    shape = b.shape(0, 4)
    scale = b.scale(b.part(shape))
    y = b.node("BipolarQuant", [name_of(b, b.values(shape, scale)), name_of(b, scale)], GENERAL)
    return executed(b, "BipolarQuant", y, scale)


def float_quant(b):
    saturates = b.whole(0, 1)
    shape = b.shape(1 - saturates, 4)  # qonnx cannot write into a number
    scale = np.abs(b.scale(b.part(shape), (f32, f32, f64)))
    exponent, mantissa = b.whole(1, 5), b.whole(0, 4)
    bias = b.pick(2 ** (exponent - 1) - 1, b.whole(0, 8))
    most = b.pick(b.whole(1, 20), 1e6, 448)
    x = b.values(shape, scale, (f32, f32, f64))
    x = np.asarray(x * b.pick(1, 20, 0.01), x.dtype)
    numbers = [np.asarray(number, f32) for number in (exponent, mantissa, bias, most)]
    inputs = [name_of(b, part) for part in (x, scale, *numbers)]
    y = b.node("FloatQuant", inputs, GENERAL, has_subnormal=1, saturation=saturates, has_inf=b.whole(0, 1) if saturates else 1,
               has_nan=b.whole(0, 1), rounding_mode=b.pick(*MODES[:4], None))  # fmt: skip
    if not saturates and b.chance(0.5):
        for attribute in b.nodes[-1].attribute:
            if attribute.name in ("has_inf", "has_nan"):
                attribute.i = int(attribute.name == "has_nan")
    return executed(b, "FloatQuant", y)


def moved(b):
    """A quantizer, and the axes of what it makes in another order, or another shape."""
    y = b.pick(integer_quant, bipolar_quant)(b)
    x, rank = b.arrays[y], b.arrays[y].ndim
    if b.chance(0.6):
        perm = [int(i) for i in b.rng.permutation(rank)]
        made = b.node("Transpose", [y], perm=perm or None)
        b.arrays[made] = x.transpose(perm)
        whole = b.scales[y].reshape([1] * (rank - b.scales[y].ndim) + list(b.scales[y].shape))
        b.scales[made] = whole.transpose(perm) if b.scales[y].size != 1 else b.scales[y]
        b.finish(("Transpose", "quantized"), made)
    else:
        shape = [*x.shape[1:], *x.shape[:1]]
        made = b.node("Reshape", [y, b.ints(*shape)], allowzero=1)
        b.arrays[made] = x.reshape(shape)
        b.scales[made] = b.scales[y].reshape([]) if b.scales[y].size == 1 else None
        b.finish(("Reshape", "quantized"), made)
    if b.chance(0.5):
        same = b.node(b.pick("Identity", "Cast"), [made])
        if b.nodes[-1].op_type == "Cast":
            from onnx import TensorProto, helper

            b.nodes[-1].attribute.append(helper.make_attribute("to", TensorProto.DOUBLE))
            b.arrays[same] = b.arrays[made].astype(f64)
        else:
            b.arrays[same] = b.arrays[made]
        b.scales[same] = b.scales[made]
        b.finish(("Identity", "quantized"), same)


MAKERS = [integer_quant, integer_quant, bipolar_quant, float_quant, float_quant, moved, moved]
