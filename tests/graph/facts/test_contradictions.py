"""What files say of types against what the values are: every false claim is found, and no true one."""

import os

import numpy as np
import pytest

datatype = pytest.importorskip("qonnx.core.datatype").DataType
intquant = pytest.importorskip("qonnx.custom_op.general.intquant")
from constant_networks import f32  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from quantizer_networks import MODES  # noqa: E402
from typed_networks import GENERAL, SHAPE, Typed  # noqa: E402

SLOW = os.environ.get("CRUMB_SLOW", "0") not in ("", "0")
CLAIMS = ["INT2", "INT3", "INT4", "INT5", "UINT2", "UINT3", "UINT4", "UINT5", "BINARY", "BIPOLAR", "TERNARY", "FIXED<5,3>",
          "FIXED<6,4>", "FIXED<4,1>", "INT9"]  # fmt: skip


class Claims(Typed):
    def __init__(self, rng, opset):
        super().__init__(rng, opset)
        self.false, self.claims = {}, 0

    def annotated(self, value, chance):
        return value

    def claim(self, value, numbers, known=True):
        """An annotation of what are these numbers, and whether it is false; nothing where they are not known."""
        kind = self.pick(*CLAIMS)
        self.annotations[value] = kind
        self.claims += 1
        if known and not all(datatype[kind].allowed(f32(number)) for number in numbers):
            self.false[value, "annotation"] = (kind, numbers)


def looked_at(numbers, scaled):
    """Three scaled numbers may be two, and nothing between, as far as is known."""
    return numbers[[0, 2]] if scaled and len(numbers) == 3 else numbers


def constant(b):
    low = b.pick(-16, -8, -4, -2, -1, 0, 0, 0)
    numbers = b.rng.integers(low, b.pick(1, 2, 3, 7, 15, 31), 8, endpoint=True) * b.pick(1, 1, 1, 0.5, 0.125)
    name = b.constant(numbers.astype(f32))
    if not name.startswith("c"):
        return
    b.claim(name, numbers)
    b.finish("constant", b.node("Neg", [name]), again=False)


def quantizer(b):
    scale = b.pick(1, 1, 1, 0.5, 2, 0.125, 0.3, -1, [1, 1, 1, 1], [1, 1, 1, 0.5])
    zero, bits = b.pick(0, 0, 0, 1, -3, 4, 0.5, -1.5), b.pick(1, 2, 3, 4, 5, 2.5)
    flags = {"signed": b.whole(0, 1), "narrow": b.whole(0, 1), "rounding_mode": b.pick(*MODES)}
    y = b.node("Quant", [b.taken(), *(b.number(v) for v in (scale, zero, bits))], GENERAL, **flags)
    x = np.arange(-400, 400).astype(f32) / 4
    single = np.size(scale) == 1
    if single:
        made = intquant.int_quant(x * f32(scale), f32(scale), f32(zero), f32(bits), *flags.values())
        b.claim(y, looked_at(np.unique(made + f32(0)), scale != 1))
    else:
        b.claim(y, [], known=False)
    b.finish("Quant", y, again=False)


def thresholds(b):
    count, by, bias = b.whole(1, 6), b.pick(None, 1.0, 2.0, -1.0, 0.5), b.pick(None, 0.0, -1.0, 3.0, 0.5)
    kind = b.pick(*CLAIMS)
    y = b.node("MultiThreshold", [b.taken(), b.constant(np.sort(b.rng.normal(size=(2, count))))], GENERAL, out_dtype=kind,
               out_scale=by, out_bias=bias)  # fmt: skip
    numbers = (bias or 0.0) + (1.0 if by is None else by) * np.arange(count + 1)
    b.claims += 1
    step = np.diff(numbers)[0]
    numbers = looked_at(numbers, step % 1 or numbers[0] % 1)
    known = np.trunc(step) == step and not numbers[0] % 1 or not 2 * numbers[0] / step % 1  # on whole or half steps
    if known and not all(datatype[kind].allowed(f32(number)) for number in numbers):
        b.false[y, "attribute"] = (kind, numbers)
    if b.chance(0.5):
        b.claim(y, numbers, known)
    b.finish("MultiThreshold", y, again=False)


def element_type(b):
    y = b.node("Relu", [b.taken()])
    kind = b.pick(TensorProto.FLOAT, TensorProto.INT8, TensorProto.DOUBLE)
    b.containers[y] = helper.make_tensor_value_info(y, kind, SHAPE)
    b.claims += 1
    if kind != TensorProto.FLOAT:
        b.false[y, "element type"] = (kind, [])
    b.finish("Relu", y, again=False)


def average(b):
    """Windows of 2 x 2 of these codes; the largest of `ibits` bits is shifted until it fits `obits`."""
    ibits, obits, low = b.whole(2, 5), b.whole(1, 6), b.pick(0, 0, 1)
    codes = b.node("Quant", [b.taken(), *(b.number(v) for v in (1, 0, ibits))], GENERAL, signed=low, narrow=0,
                   rounding_mode="ROUND")  # fmt: skip
    signed = b.whole(0, 1)
    y = b.node("QuantAvgPool2d", [codes], GENERAL, kernel=2, stride=2, ibits=ibits, obits=obits, signed=signed,
               data_layout="NCHW")  # fmt: skip
    all_codes = np.arange(-(2 ** (ibits - 1)), 2 ** (ibits - 1)) if low else np.arange(2**ibits)
    shift = max(int(np.ceil(np.log2((2**ibits - 1) * 4 + 1))) - obits, 0)
    numbers = np.unique(np.arange(4 * all_codes[0], 4 * all_codes[-1] + 1) >> shift)
    kind = f"{'INT' if signed else 'UINT'}{obits}"
    b.claims += 1
    if not all(datatype[kind].allowed(number) for number in numbers):
        b.false[y, "attribute"] = (kind, numbers)
    b.finish("QuantAvgPool2d", y, again=False)


MAKERS = [constant, quantizer, quantizer, quantizer, thresholds, thresholds, element_type, average]


@pytest.mark.filterwarnings("ignore")
def test_false_claims_are_found(facts, tmp_path):
    false = claims = 0
    for seed in range(300 if SLOW else 10):
        b = Claims(np.random.default_rng(seed), 14)
        for i in range(160):
            MAKERS[i % len(MAKERS)](b)
        model = b.model()
        found = {(value, claim): what for value, claim, what in facts("contradictions", model, tmp_path / "m.onnx")["found"]}
        assert not set(found) - set(b.false), {key: found[key] for key in set(found) - set(b.false)}
        assert not set(b.false) - set(found), {key: b.false[key] for key in set(b.false) - set(found)}
        assert [key[0] for key in found] == sorted(key[0] for key in found)
        for key, what in found.items():
            kind, numbers = b.false[key]
            if "values reach" in what:
                low, high = (float(end) for end in what.split("reach ")[1].split(" ")[0].split(".."))
                assert (f32(low), f32(high)) == (f32(min(numbers)), f32(max(numbers))), (what, numbers)
            elif "it holds" in what:
                assert not datatype[kind].allowed(f32(what.split("holds ")[1])), (what, numbers)
        false, claims = false + len(found), claims + b.claims
    assert claims / 4 < false < claims * 3 / 4
