"""Every QONNX operator against the qonnx package, bit for bit (NaN equal to NaN), over a generated grid.

Both ways of computing are tried: the loops, and the operators that gradients go through (--gradients).
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from qonnx_cases import CHANNELS_LAST, GENERAL, MODES, SPECIAL, f32, make_node, oracle, values, write_case, write_sets

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
VECTORS = FIXTURES / "qonnx_vectors.json"
SHAPE = (3, 4, 5)
BITS = [1, 2, 3, 4, 7, 8, 16, 24, 31, 32, 1.5, 2.5, 3.25]
ZEROS = [0, 0, 1, -3, 7, 0.5, -0.25, 100]


def scales(rng):
    """Scales of every shape that broadcasts to SHAPE."""
    shapes = [(), (), (1,), (5,), (4, 1), (3, 1, 1), (1, 4, 5), (1, 1, 1), SHAPE]
    shape = shapes[rng.integers(len(shapes))]
    kind = rng.integers(5)
    if kind == 0:
        return np.ones(shape, np.float32)
    if kind == 1:
        return (2.0 ** rng.integers(-6, 5, shape)).astype(np.float32).reshape(shape)
    scale = np.abs(rng.standard_normal(shape)) * 0.3 + 0.01
    return np.asarray(-scale if kind == 2 else scale, np.float32)


def zero_points(rng, scale):
    pick = rng.choice(ZEROS, scale.shape if rng.random() < 0.4 else ())
    return np.asarray(pick, np.float32)


def inputs_of(rng, shape=SHAPE):
    x = values(rng, shape)
    if rng.random() < 0.3:
        x = x[..., ::1] * f32(0.37)
    return x


def quant_sets(rng, node, count):
    for _ in range(count):
        scale = scales(rng)
        zero, bits = zero_points(rng, scale), f32(rng.choice(BITS))
        inputs = [inputs_of(rng), scale, zero, bits]
        yield inputs, oracle(node, 1, inputs)


@pytest.mark.parametrize("flags", [(), ("--gradients",)], ids=["loops", "gradients"])
@pytest.mark.parametrize("op", ["Quant", "IntQuant"])
def test_integer_quantizers(op, flags, tmp_path, assert_cases_pass):
    rng = np.random.default_rng(1)
    folders = []
    for mode in MODES:
        for signed in (0, 1):
            for narrow in (0, 1):
                node = make_node(op, 4, signed=signed, narrow=narrow, rounding_mode=mode)
                folders.append(tmp_path / f"{mode}_{signed}{narrow}")
                write_case(folders[-1], node, list(quant_sets(rng, node, 30 if op == "Quant" else 5)))
    assert_cases_pass(folders, "--exact", *flags)


@pytest.mark.parametrize("flags", [(), ("--gradients",)], ids=["loops", "gradients"])
def test_every_special_value_through_every_integer_format(flags, tmp_path, assert_cases_pass):
    folders = []
    for mode in MODES:
        for signed in (0, 1):
            for narrow in (0, 1):
                node = make_node("Quant", 4, signed=signed, narrow=narrow, rounding_mode=mode)
                sets = []
                for bits in BITS:
                    for scale in (1.0, 0.1, -0.25, 1e-38, 3e38):
                        inputs = [SPECIAL, f32(scale), f32(0.5 if bits == 2.5 else 0), f32(bits)]
                        sets.append((inputs, oracle(node, 1, inputs)))
                folders.append(tmp_path / f"{mode}_{signed}{narrow}")
                write_case(folders[-1], node, sets)
    assert_cases_pass(folders, "--exact", *flags)


@pytest.mark.parametrize("types", [("int64", "int64"), ("float32", "int64"), ("int32", "float32"), ("int8", "int32")])
def test_integer_parameters_as_numpy_promotes_them(types, tmp_path, assert_cases_pass):
    rng = np.random.default_rng(2)
    node = make_node("Quant", 4, signed=1, narrow=0, rounding_mode="ROUND")
    sets = []
    for scale in (0.1, 0.3, 1.0, 0.0117):
        for bits in (2, 4, 8):
            inputs = [values(rng, (40,)), f32(scale), np.array(2, types[0]), np.array(bits, types[1])]
            sets.append((inputs, oracle(node, 1, inputs)))
    write_case(tmp_path / "case", node, sets)
    assert_cases_pass([tmp_path / "case"], "--exact")


@pytest.mark.parametrize("flags", [(), ("--gradients",)], ids=["loops", "gradients"])
def test_bipolar(flags, tmp_path, assert_cases_pass):
    rng = np.random.default_rng(3)
    node = make_node("BipolarQuant", 2)
    sets = []
    for _ in range(40):
        inputs = [inputs_of(rng), scales(rng)]
        sets.append((inputs, oracle(node, 1, inputs)))
    write_case(tmp_path / "case", node, sets)
    assert_cases_pass([tmp_path / "case"], "--exact", *flags)


@pytest.mark.parametrize("flags", [(), ("--gradients",)], ids=["loops", "gradients"])
def test_truncation_of_both_versions(flags, tmp_path, assert_cases_pass):
    rng = np.random.default_rng(4)
    folders = []
    for mode in MODES:
        node, sets = make_node("Trunc", 5, rounding_mode=mode), []
        for _ in range(25):
            scale = scales(rng)
            widths = [f32(rng.integers(1, 20)), f32(rng.integers(1, 12))]
            inputs = [inputs_of(rng), scale, zero_points(rng, scale), *widths]
            sets.append((inputs, oracle(node, 1, inputs)))
        folders.append(tmp_path / f"v1_{mode}")
        write_case(folders[-1], node, sets)
        for signed in (0, 1):
            for narrow in (0, 1):
                node, sets = make_node("Trunc", 6, rounding_mode=mode, signed=signed, narrow=narrow), []
                for _ in range(15):
                    scale = scales(rng)
                    ratio = rng.choice([1, 2, 4, 16, 0.5, 3, 5.7])
                    inputs = [inputs_of(rng), scale, zero_points(rng, scale), f32(8)]
                    inputs += [(scale * f32(ratio)).astype(np.float32), f32(rng.choice(BITS))]
                    sets.append((inputs, oracle(node, 2, inputs)))
                folders.append(tmp_path / f"v2_{mode}_{signed}{narrow}")
                write_case(folders[-1], node, sets, version=2)
    assert_cases_pass(folders, "--exact", *flags)


def away_from_powers(x):
    """Values at least 2 ulp away from powers of two (and 0): there the float32 logarithm decides directed rounding."""
    bits = np.abs(x).view(np.uint32) & 0x7FFFFF
    near = (bits < 64) | (bits > 0x7FFFFF - 64)
    return np.where(near & np.isfinite(x), np.float32(1.37) * np.sign(x).astype(np.float32), x).astype(np.float32)


FORMATS = [(4, 3, 7, 448.0), (5, 2, 15, 57344.0), (4, 3, 7, 1e9), (2, 1, 1, 6.0), (3, 2, 3, 28.0), (2, 3, 1, 7.5)]
FORMATS += [(8, 7, 127, 3.3895e38), (5, 10, 15, 65504.0), (1, 2, 0, 100.0), (4, 0, 7, 1e9), (4, 3, 8, 240.0)]
FORMATS += [(5, 3, 20, 1e9), (4, 3, -2, 1e9)]


@pytest.mark.parametrize("flags", [(), ("--gradients",)], ids=["loops", "gradients"])
def test_float_quantizer(flags, tmp_path, assert_cases_pass):
    rng = np.random.default_rng(5)
    folders = []
    endings = [(1, 0, 0), (1, 1, 1), (0, 1, 0), (0, 0, 1), (0, 1, 1)]
    for mode in MODES:
        for saturation, has_inf, has_nan in endings:
            flags_of_node = {"saturation": saturation, "has_inf": has_inf, "has_nan": has_nan, "has_subnormal": 1}
            node, sets = make_node("FloatQuant", 6, rounding_mode=mode, **flags_of_node), []
            for e, m, bias, most in FORMATS:
                scale = scales(rng)
                x = values(rng, SHAPE, spread=float(rng.choice([0.01, 1, 100, 1e4])))
                x = away_from_powers((x / scale).astype(np.float32))
                x = (x * scale).astype(np.float32)
                with np.errstate(all="ignore"):
                    x = np.where(np.abs(x / scale) == away_from_powers(np.abs(x / scale)), x, f32(0))
                inputs = [x, scale, f32(e), f32(m), f32(bias), f32(most)]
                sets.append((inputs, oracle(node, 1, inputs)))
            folders.append(tmp_path / f"{mode}_{saturation}{has_inf}{has_nan}")
            write_case(folders[-1], node, sets)
    assert_cases_pass(folders, "--exact", *flags)


@pytest.mark.parametrize("flags", [(), ("--gradients",)], ids=["loops", "gradients"])
def test_float_quantizer_of_special_values(flags, tmp_path, assert_cases_pass):
    node, sets = make_node("FloatQuant", 6, has_inf=0, has_nan=0, has_subnormal=0, saturation=1), []
    for e, m, bias, most in FORMATS:
        for scale in (1.0, 0.3, 2.0**-20):
            inputs = [SPECIAL, f32(scale), f32(e), f32(m), f32(bias), f32(most)]
            sets.append((inputs, oracle(node, 1, inputs)))
    write_case(tmp_path / "case", node, sets)
    assert_cases_pass([tmp_path / "case"], "--exact", *flags)


@pytest.mark.parametrize("flags", [(), ("--gradients",)], ids=["loops", "gradients"])
def test_thresholds_in_every_layout(flags, tmp_path, assert_cases_pass):
    rng = np.random.default_rng(6)
    folders = []
    cases = [((6, 3), ""), ((6, 5, 3), ""), ((2, 3, 4, 4), ""), ((2, 3, 1, 2, 2), ""), ((2, 4, 4, 3), "NHWC")]
    cases += [((6, 3), "NC"), ((2, 3, 4), "NCW"), ((2, 4, 3), "NWC"), ((2, 3, 4, 4), "NCHW"), ((2, 3), "XY")]
    for number, (shape, layout) in enumerate(cases):
        axis = layout.index("C") if "C" in layout else {3: 2}.get(len(shape), 1) if not layout else 1
        for scale, bias in ((1.0, 0.0), (2.0, -1.0), (0.1, 0.7)):
            attributes = {"data_layout": layout} if layout else {}
            node = make_node("MultiThreshold", 2, out_dtype="INT8", out_scale=scale, out_bias=bias, **attributes)
            sets = []
            for steps in (1, 2, 7, 15, 255, 0):
                for channels in (1, shape[axis]):
                    thresholds = rng.standard_normal((channels, steps)).astype(np.float32) * 4
                    if steps == 7:
                        thresholds = np.round(thresholds)  # ties with the values, and not in order
                        thresholds[0, 3] = np.nan
                    else:
                        thresholds = np.sort(thresholds, axis=1)
                    inputs = [values(rng, shape), thresholds]
                    sets.append((inputs, oracle(node, 1, inputs)))
            folders.append(tmp_path / f"{number}_{scale}")
            write_case(folders[-1], node, sets)
    assert_cases_pass(folders, "--exact", *flags)


def test_products_of_bits(tmp_path, assert_cases_pass):
    rng = np.random.default_rng(7)
    node, sets = make_node("XnorPopcountMatMul", 2), []
    for left, right in [((4, 9), (9, 5)), ((2, 3, 17), (17, 2)), ((1, 1000), (1000, 3)), ((3, 0), (0, 2))]:
        inputs = [rng.integers(0, 2, shape).astype(np.float32) for shape in (left, right)]
        sets.append((inputs, oracle(node, 1, inputs)))
    write_case(tmp_path / "case", node, sets)
    assert_cases_pass([tmp_path / "case"], "--exact")


def test_windows_as_rows(tmp_path, assert_cases_pass):
    rng = np.random.default_rng(8)
    folders = []
    for number in range(40):
        kernel, stride = rng.integers(1, 4, 2).tolist(), rng.integers(1, 4, 2).tolist()
        dilation, pad = rng.integers(1, 3, 2).tolist(), rng.integers(0, 3, 4).tolist()
        shape = (1, *rng.integers(6, 11, 2).tolist(), int(rng.integers(1, 4)))
        attributes = {"kernel_size": kernel, "stride": stride, "dilations": dilation, "pad_amount": pad}
        attributes |= {"pad_value": int(rng.integers(-2, 3)), "input_shape": str(shape), "depthwise": number % 2}
        node = make_node("Im2Col", 1, **attributes)
        x = rng.integers(-5, 6, shape).astype(np.float32)
        # qonnx mixes up the samples of a batch: each goes alone.
        others = [rng.integers(-5, 6, shape).astype(np.float32) for _ in range(2)]
        alone = [oracle(node, 1, [one], annotation="INT8") for one in (x, *others)]
        sets = [([x], alone[0]), ([np.concatenate([x, *others])], np.concatenate(alone))]
        folders.append(tmp_path / str(number))
        write_case(folders[-1], node, sets)
    assert_cases_pass(folders, "--exact")


def test_average_pool_of_integers(tmp_path, assert_cases_pass):
    rng = np.random.default_rng(9)
    folders = []
    for number in range(40):
        kernel, stride = int(rng.integers(1, 6)), int(rng.integers(1, 4))
        in_bits, out_bits, signed = int(rng.integers(2, 9)), int(rng.integers(2, 9)), number % 2
        shape = [2, *rng.integers(kernel, 12, 2).tolist(), 3]
        after = [2, (shape[1] - kernel) // stride + 1, (shape[2] - kernel) // stride + 1, 3]
        layout = "NHWC" if number % 3 else "NCHW"
        if layout == "NCHW":
            shape, after = [shape[i] for i in (0, 3, 1, 2)], [after[i] for i in (0, 3, 1, 2)]
        attributes = {"ibits": in_bits, "obits": out_bits, "signed": signed, "data_layout": layout}
        node = make_node("QuantAvgPool2d", 1, kernel=kernel, stride=stride, **attributes)
        low, high = (-(2 ** (in_bits - 1)), 2 ** (in_bits - 1)) if signed else (0, 2**in_bits)
        x = rng.integers(low, high, shape).astype(np.float32)
        folders.append(tmp_path / str(number))
        write_case(folders[-1], node, [([x], oracle(node, 1, [x], output_shape=after))])
    assert_cases_pass(folders, "--exact")


@pytest.mark.filterwarnings("ignore:Output shapes disagree")
def test_max_pool_nhwc(tmp_path, assert_cases_pass):
    rng = np.random.default_rng(10)
    folders = []
    for number in range(20):
        kernel, stride = rng.integers(1, 4, 2).tolist(), rng.integers(1, 4, 2).tolist()
        pad = [int(rng.integers(0, k)) for k in kernel]
        up = number % 2
        x = rng.standard_normal((2, *rng.integers(5, 10, 2).tolist(), 3)).astype(np.float32)
        rounding = np.ceil if up else np.floor
        after = [int(rounding((x.shape[i + 1] + 2 * pad[i] - kernel[i]) / stride[i] + 1)) for i in range(2)]
        attributes = {"kernel_shape": kernel, "strides": stride, "pads": pad * 2, "ceil_mode": up}
        node = make_node("MaxPoolNHWC", 1, **attributes)
        folders.append(tmp_path / str(number))
        write_case(folders[-1], node, [([x], oracle(node, 1, [x], output_shape=(2, *after, 3)))])
    assert_cases_pass(folders, "--exact")


# --- channels last


@pytest.mark.parametrize("version", [None, 11, 13])  # None: the domain is not imported
def test_channels_last_convolution(version, tmp_path, assert_cases_pass):
    rng = np.random.default_rng(11)
    folders = []
    for number in range(24):
        axes = 1 + number % 2
        kernel, stride = rng.integers(1, 4, axes).tolist(), rng.integers(1, 3, axes).tolist()
        dilation, pads = rng.integers(1, 3, axes).tolist(), rng.integers(0, 3, 2 * axes).tolist()
        group = int(rng.choice([1, 2, 4]))
        shape = [2, *rng.integers(6, 10, axes).tolist(), 4]
        window = zip(shape[1:-1], pads[:axes], pads[axes:], kernel, dilation, stride)
        after = [(size + a + b - d * (k - 1) - 1) // s + 1 for size, a, b, k, d, s in window]
        # Integers: their sums do not depend on the order.
        inputs = [rng.integers(-8, 8, shape), rng.integers(-8, 8, (8, *kernel, 4 // group)), rng.integers(-8, 8, 8)]
        inputs = [array.astype(np.float32) for array in inputs[: 2 + number % 3 % 2]]
        attributes = {"kernel_shape": kernel, "strides": stride, "dilations": dilation, "pads": pads, "group": group}
        node = make_node("Conv", len(inputs), CHANNELS_LAST, **attributes)
        expected = oracle(node, 11, inputs, output_shape=(2, *after, 8))
        folders.append(tmp_path / str(number))
        write_case(folders[-1], node, [(inputs, expected)], version=version)
    assert_cases_pass(folders, "--exact")


@pytest.mark.parametrize("version", [None, 1, 10, 13])
def test_channels_last_max_pool(version, tmp_path, assert_cases_pass):
    rng = np.random.default_rng(12)
    folders = []
    for number in range(16):
        axes = 1 + number % 2
        kernel, stride = rng.integers(1, 4, axes).tolist(), rng.integers(1, 4, axes).tolist()
        pad = [int(rng.integers(0, k)) for k in kernel]
        x = rng.standard_normal((2, *rng.integers(5, 10, axes).tolist(), 3)).astype(np.float32)
        after = [(x.shape[i + 1] + 2 * pad[i] - kernel[i]) // stride[i] + 1 for i in range(axes)]
        node = make_node("MaxPool", 1, CHANNELS_LAST, kernel_shape=kernel, strides=stride, pads=pad * 2)
        folders.append(tmp_path / str(number))
        expected = oracle(node, version or 13, [x], output_shape=(2, *after, 3))
        write_case(folders[-1], node, [([x], expected)], version=version)
    assert_cases_pass(folders, "--exact")


@pytest.mark.parametrize("version", [None, 9, 14])
def test_channels_last_batch_normalization(version, tmp_path, assert_cases_pass):
    """Within rounding: the order of its operations is onnxruntime's own."""
    rng = np.random.default_rng(13)
    node = make_node("BatchNormalization", 5, CHANNELS_LAST, epsilon=1e-3, momentum=0.9)
    sets = []
    for shape in [(2, 5, 3), (2, 4, 5, 3), (1, 3, 3, 1)]:
        inputs = [rng.standard_normal(shape).astype(np.float32)]
        inputs += [np.abs(rng.standard_normal(shape[-1:])).astype(np.float32) + f32(0.5) for _ in range(4)]
        sets.append((inputs, oracle(node, version or 9, inputs)))
    write_case(tmp_path / "case", node, sets, version=version)
    assert_cases_pass([tmp_path / "case"])


# --- vectors and refusals


def test_reference_vectors_are_what_qonnx_computes():
    sys.path.insert(0, str(FIXTURES))
    import make_qonnx_vectors

    assert make_qonnx_vectors.text() == VECTORS.read_text(), "make it again: python tests/fixtures/make_qonnx_vectors.py"


def test_reference_vectors(tmp_path, assert_cases_pass):
    document = json.loads(VECTORS.read_text())

    def array(entry):
        data = [float(v) if isinstance(v, str) else v for v in entry["data"]]
        return np.array(data, np.float32).reshape(entry["shape"])

    folders = []
    for number, case in enumerate(document["cases"]):
        inputs = [array(entry) for entry in case["inputs"].values()]
        node = make_node(case["op"], len(inputs), **case["attrs"])
        folders.append(tmp_path / f"{number}_{case['op']}")
        write_case(folders[-1], node, [(inputs, array(case["expected"]))], version=case["version"])
    assert len(folders) == len(document["cases"]) > 50
    assert_cases_pass(folders, "--exact")


@pytest.mark.parametrize(
    ("node", "inputs", "why"),
    [
        (make_node("Quant", 4, rounding_mode="SIDEWAYS"), [(3,), (), (), ()], "rounding_mode is 'SIDEWAYS'"),
        (make_node("FloatQuant", 6, saturation=0), [(3,), (), (), (), (), ()], "has_inf"),
        (make_node("MultiThreshold", 2, out_dtype="INT2"), [(2, 3), (2, 4)], "thresholds are float [2, 4]"),
        (make_node("MultiThreshold", 2, out_dtype="INT2"), [(2,), (1, 4)], "axis 1"),
        (make_node("Im2Col", 1, kernel_size=[1, 1], stride=[1, 1]), [(2, 3)], "[N, H, W, C]"),
        (make_node("Im2Col", 1, kernel_size=[1], stride=[1, 1]), [(1, 2, 2, 3)], "kernel_size has 1"),
        (make_node("QuantAvgPool2d", 1, kernel=0, ibits=4), [(1, 2, 3, 3)], "kernel 0"),
        (make_node("MaxPool", 1, CHANNELS_LAST, kernel_shape=[2]), [(3,)], "the channels"),
    ],
)
def test_refusals(node, inputs, why, tmp_path, onnx_cases):
    arrays = [np.ones(shape, np.float32) for shape in inputs]
    write_case(tmp_path / "case", node, [(arrays, arrays[0])])
    (verdict,) = onnx_cases([tmp_path / "case"]).values()
    assert verdict.state == "failed" and why in verdict.why, verdict


def test_older_domain_names(tmp_path, assert_cases_pass):
    node = make_node("Quant", 4, GENERAL, signed=1, narrow=1, rounding_mode="ROUND")
    inputs = [SPECIAL, f32(0.5), f32(0), f32(4)]
    expected = oracle(node, 1, inputs)
    folders = []
    for domain in ("onnx.brevitas", "finn.custom_op.general"):
        for version in (None, 1):
            node.domain = domain
            folders.append(tmp_path / f"{domain}_{version}")
            write_case(folders[-1], node, [(inputs, expected)], version=version)
    assert_cases_pass(folders, "--exact")


def test_exact_comparison_sees_signs_and_bits(tmp_path, onnx_cases):
    node = make_node("BipolarQuant", 2)
    states = {}
    for name, expected in (("zero", [-0.0]), ("ulp", [np.nextafter(f32(1), f32(2))]), ("same", [1.0])):
        scale = f32([0.0] if name == "zero" else [1.0])
        write_case(tmp_path / name, node, [([f32([2.0]), scale], f32(expected))])
        states[name] = onnx_cases([tmp_path / name], "--exact")[str(tmp_path / name)].state
    assert states == {"zero": "failed", "ulp": "failed", "same": "passed"}


def test_write_sets_keeps_rank_zero(tmp_path):
    write_sets(tmp_path, [([f32(1)], [])])
    proto = onnx.TensorProto.FromString((tmp_path / "test_data_set_0" / "input_0.pb").read_bytes())
    assert list(proto.dims) == []
