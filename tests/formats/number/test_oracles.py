"""Number formats against other people's code, through the command line: ml_dtypes for what a bit pattern means and
which pattern is nearest, qonnx for integers and minifloats in every rounding mode."""

import json
import math

import numpy as np
import pytest

ml_dtypes = pytest.importorskip("ml_dtypes")
safetensors = pytest.importorskip("safetensors.numpy")

ORACLES = {
    "e4m3fn": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2fnuz": "float8_e5m2fnuz",
    "e3m2": "float6_e3m2fn",
    "e2m3": "float6_e2m3fn",
    "e2m1": "float4_e2m1fn",
    "e8m0": "float8_e8m0fnu",
}


def oracle_values(name):
    """The value of each bit pattern, as ml_dtypes gives it."""
    dtype = np.dtype(getattr(ml_dtypes, ORACLES[name]))
    bits = {"e3m2": 6, "e2m3": 6, "e2m1": 4}.get(name, 8)
    return np.arange(2**bits, dtype=np.uint8).view(dtype).astype(np.float32)


def same(found, expected):
    """Equal bit for bit; every NaN equals every other."""
    found, expected = np.asarray(found, np.float32), np.asarray(expected, np.float32)
    both_nan = np.isnan(found) & np.isnan(expected)
    return both_nan | (found.view(np.uint32) == expected.view(np.uint32))


def fake_quantize(crumb, folder, tensors):
    """Sends {name: (values, spec)} through crumb quantize and crumb dequantize; gives {name: values}."""
    source, packed, back = folder / "in.safetensors", folder / "packed.crumb", folder / "out.safetensors"
    safetensors.save_file({name: np.atleast_2d(x).astype(np.float32) for name, (x, _) in tensors.items()}, source)
    rules = []
    for name, (_, spec) in tensors.items():
        rules += ["--set", f"{name}={spec}"]
    crumb("quantize", source, "-o", packed, "--weights", "int8:tensor", *rules)
    crumb("dequantize", packed, "-o", back)
    result = safetensors.load_file(back)
    return {name: result[name].reshape(np.shape(x)) for name, (x, _) in tensors.items()}


@pytest.mark.parametrize("name", ORACLES)
def test_every_value_decodes_as_ml_dtypes_says(crumb, name):
    listed = json.loads(crumb("formats", name, "--values", "--json").stdout)
    expected = oracle_values(name)
    assert listed["name"] == name
    assert 2 ** listed["bits"] == len(expected)
    found = {item["code"]: float(item["value"]) for item in listed["codes"]}
    assert sorted(found) == list(range(len(expected)))
    wrong = [code for code, value in found.items() if not same(value, expected[code])]
    assert not wrong


def test_integers_list_the_codes_that_the_quantizer_may_emit(crumb):
    for name, codes in {"int4": range(-7, 8), "uint3": range(8), "ternary": range(-1, 2)}.items():
        listed = json.loads(crumb("formats", name, "--values", "--json").stdout)
        assert sorted(item["code"] for item in listed["codes"]) == list(codes)
        assert all(item["value"] == item["code"] for item in listed["codes"])


def test_encoding_takes_the_value_that_ml_dtypes_takes(crumb, tmp_path):
    # All finite values, all midpoints and the floats beside them, times a power of two. The largest value is there, so
    # the absmax scale is that power.
    tensors, expected = {}, {}
    for name in ORACLES:
        if name == "e8m0":
            continue
        dtype = getattr(ml_dtypes, ORACLES[name])
        values = np.unique(oracle_values(name)[np.isfinite(oracle_values(name))])
        middles = ((values[1:].astype(np.float64) + values[:-1]) / 2).astype(np.float32)
        points = np.concatenate([values, middles])
        points = np.concatenate([points, np.nextafter(points, np.float32(-np.inf)), np.nextafter(points, np.float32(np.inf))])
        points = np.clip(points, values[0], values[-1])
        points = np.concatenate([points, np.float32([0.0, -0.0])])
        for power in (0, -7, 12):
            key = f"w.{name}.{power + 10}.weight"
            scale = np.float32(2.0**power)
            tensors[key] = (points * scale, f"{name}:tensor")
            expected[key] = points.astype(dtype).astype(np.float32) * scale
    found = fake_quantize(crumb, tmp_path, tensors)
    for key, values in expected.items():
        assert same(found[key], values).all(), key


QONNX_MODES = ["half_even", "half_up", "half_down", "ceil", "floor", "up", "down"]


def weights(seed, count=1000):
    """Normal values, some on multiples of an eighth, so that ties come up once they are scaled by powers of two."""
    x = np.random.default_rng(seed).normal(size=count).astype(np.float32)
    x[::3] = np.round(x[::3] * 8) / 8
    return x


def test_integers_equal_qonnx(crumb, tmp_path):
    qonnx = pytest.importorskip("qonnx.custom_op.general.intquant")
    tensors, expected = {}, {}

    def add(spec, x, scale, zero, bits, signed, narrow, mode):
        key = f"w.{len(tensors)}.weight"
        tensors[key] = (x, spec)
        quantized = qonnx.int_quant(x, scale, zero, np.float32(bits), signed, narrow, mode.upper())
        expected[key] = (spec, np.asarray(quantized, np.float32))

    for bits in range(1, 9):
        for mode in QONNX_MODES:
            for narrow in (False, True):
                text = f":tensor:round={mode}:range={'narrow' if narrow else 'full'}"
                x = weights(bits * 100 + len(mode))
                if bits > 1:
                    top = 2 ** (bits - 1) - narrow * 1
                    x[0] = -np.abs(x).max() if bits % 2 else top  # every other scale is exactly 1 or below
                    x = np.clip(x, -np.abs(x[0]), np.abs(x[0]))
                    scale = np.float32(np.abs(x).max()) / np.float32(top)
                    add(f"int{bits}{text}", x, scale, np.float32(0), bits, True, narrow, mode)
                    high = np.float32(2**bits - 1 - narrow)
                    scale = np.float32(np.abs(x).max()) / high
                    add(f"uint{bits}{text}", x, scale, np.float32(0), bits, False, narrow, mode)
                    scale = (x.max() - np.minimum(x.min(), 0)) / high
                    zero = np.round(-np.minimum(x.min(), np.float32(0)) / scale)
                    add(f"uint{bits}{text}:zero=int", x, scale, zero, bits, False, narrow, mode)
    x = weights(1)
    add("binary:tensor", x, np.abs(x).max(), np.float32(0), 1, True, False, "half_even")
    found = fake_quantize(crumb, tmp_path, tensors)
    for key, (spec, values) in expected.items():
        assert (found[key] == values).all(), spec


def test_minifloats_equal_qonnx(crumb, tmp_path):
    qonnx = pytest.importorskip("qonnx.custom_op.general.floatquant")
    tensors, expected = {}, {}
    grids = [(f"e{e}m{bits - 1 - e}", None) for bits in range(3, 9) for e in range(1, bits)]
    grids = [(name, None) for name, _ in grids if name != "e5m2"] + [("e4m3fn", 448.0), ("e5m2", 57344.0)]
    for number, (name, limit) in enumerate(grids):
        e, m = int(name[1]), int(name[3])
        largest = np.float32(qonnx.compute_max_val(float(e), float(m)) if limit is None else limit)
        for mode in QONNX_MODES:
            x = weights(number)
            # Every other grid with scale 1 and ties among the values.
            if number % 2:
                x = x * largest / 4
                x[0] = largest
                x = np.clip(x, -largest, largest)
            scale = np.float32(np.abs(x).max()) / largest
            # Keep off the values where the oracle's float32 log2 misses the binade (reference/qonnx.md, 1.5).
            scaled = np.abs(x / scale)
            with np.errstate(divide="ignore"):
                exact = np.array([math.frexp(v)[1] - 1 if v else -126 for v in scaled])
                binade = np.floor(np.log2(scaled + np.finfo(np.float32).tiny))
            x = x[(exact == binade) | (scaled == 0)]
            if np.abs(x).max() / largest != scale:
                continue
            key = f"w.{name}.{mode}.weight"
            tensors[key] = (x, f"{name}:tensor:round={mode}")
            expected[key] = qonnx.float_quant(
                x, scale, np.float32(e), np.float32(m), max_val=largest, rounding_mode=mode.upper()
            ).astype(np.float32)
    assert len(expected) > 150
    found = fake_quantize(crumb, tmp_path, tensors)
    for key, values in expected.items():
        assert (found[key] == values).all(), key
