"""QONNX to QCDQ and back: what onnxruntime computes of it, and that every integer stays."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from qcdq_models import QONNX, Case, Net, counts, expected, formats, integers, quantizers, run

SHAPE = (3, 5, 7)


def values(rng, shape, spread=4.0):
    """Numbers with exact ties, zeros, and some beyond every range among them."""
    x = (rng.normal(size=shape) * spread).astype(np.float32)
    flat = x.reshape(-1)
    flat[::5] = np.rint(flat[::5] * 8) / 8
    flat[::17] *= 100
    flat[0] = 0
    return x


def channel(rng, shape, axis):
    parameters = [1] * len(shape)
    parameters[axis] = shape[axis]
    return (rng.random(parameters) + 0.25).astype(np.float32)


def scales(rng, shape):
    return {
        "tensor": np.float32(0.3),
        "power": np.float32(0.25),
        "one": np.full((1, 1, 1), 0.7, np.float32),
        "first": channel(rng, shape, 0),
        "middle": channel(rng, shape, 1),
        "last": channel(rng, shape, 2).reshape(-1),
    }


def same_parameters(case, found, shape):
    assert found.format == case.format
    assert np.array_equal(np.broadcast_to(found.scale, shape), np.broadcast_to(case.scale, shape))
    assert np.array_equal(np.broadcast_to(found.zeropt, shape), np.broadcast_to(case.zeropt, shape))
    assert found.scale.dtype == np.float32 and found.zeropt.dtype == np.float32
    assert found.scale.ndim in (0, len(shape))
    assert found.zeropt.ndim == 0 or found.zeropt.size > 1


def integer_constants(path):
    tensors = onnx.load(path).graph.initializer
    return {t.name: numpy_helper.to_array(t).tobytes() for t in tensors if "integers" in t.name}


def same_codes(case, found):
    """The integers that the way back makes are those that were meant."""
    first = integers(case.data, case.scale, case.zeropt, case.bits, case.signed, case.narrow, case.mode)
    again = integers(found.data, found.scale, found.zeropt, found.bits, found.signed, found.narrow, found.mode)
    assert np.array_equal(first, again)


@pytest.mark.parametrize("opset, options", [(13, ()), (21, ("--native",)), (25, ("--native",))])
def test_activations(convert, tmp_path, opset, options):
    rng = np.random.default_rng(7)
    net = Net(SHAPE)
    widths = range(1, 9) if opset < 21 else range(1, 17)
    for bits, signed, narrow in formats(widths):
        for kind, scale in scales(rng, SHAPE).items():
            net.add(f"q_{bits}_{signed}{narrow}_{kind}", Case(None, scale, bits, signed, narrow))
    there, back = tmp_path / "there.onnx", tmp_path / "back.onnx"
    assert convert("to", net.model(), there, f"--opset={opset}", *options) == {}
    x = values(rng, SHAPE)
    made = run(there, x)
    for name, case in net.cases.items():
        assert np.array_equal(made[f"{name}_out"], expected(case, x)), name

    assert convert("from", there, back) == {}
    found = quantizers(back)
    assert len(found) == len(net.cases)
    for name, case in net.cases.items():
        same_parameters(case, found[f"{name}_out"], SHAPE)


def test_activations_have_clip_where_the_container_holds_more(convert, tmp_path):
    net = Net(SHAPE)
    for bits, signed, narrow in formats((4, 8)):
        net.add(f"q_{bits}_{signed}{narrow}", Case(None, np.float32(0.5), bits, signed, narrow))
    convert("to", net.model(), tmp_path / "there.onnx")
    assert counts(tmp_path / "there.onnx") == {"QuantizeLinear": 8, "Clip": 6, "DequantizeLinear": 8}


def test_zero_points_of_activations_are_off_by_a_step_at_ties_only(convert, tmp_path):
    rng = np.random.default_rng(8)
    net = Net(SHAPE)
    for bits, signed, narrow in formats((3, 8)):
        for zeropt in (1, 2, 5, np.arange(7) % 4):
            case = Case(None, np.float32(0.3), bits, signed, narrow, np.float32(zeropt))
            net.add(f"q_{len(net.cases)}", case)
    there, back = tmp_path / "there.onnx", tmp_path / "back.onnx"
    report = convert("to", net.model(), there)
    assert report == {"ties": list(net.cases)}
    x = (rng.normal(size=SHAPE) * 2).astype(np.float32)
    made = run(there, x)
    for name, case in net.cases.items():
        assert np.array_equal(made[f"{name}_out"], expected(case, x)), name
    tie = np.full(SHAPE, 0.15, np.float32)
    made = run(there, tie)
    differ = [n for n, case in net.cases.items() if not np.array_equal(made[f"{n}_out"], expected(case, tie))]
    assert differ and set(differ) <= set(report["ties"])
    assert convert("from", there, back) == report
    for name, case in net.cases.items():
        same_parameters(case, quantizers(back)[f"{name}_out"], SHAPE)


@pytest.mark.parametrize(
    "options", [(), ("--weights-as-float",), ("--opset=21", "--native"), ("--opset=25", "--native")]
)
def test_constants(convert, tmp_path, options):
    rng = np.random.default_rng(9)
    net = Net(SHAPE)
    for bits, signed, narrow in formats((1, 2, 3, 4, 7, 8, 9, 16, 31, 32)):
        if bits == 32 and not signed:
            continue
        for kind, scale in scales(rng, SHAPE).items():
            for mode in ("ROUND", "FLOOR", "HALF_UP"):
                shift = np.float32(2) if bits in (4, 8) and kind in ("tensor", "first") else np.float32(0)
                data = values(rng, SHAPE, 4.0 if bits < 9 else 3000.0)
                case = Case(data, scale, bits, signed, narrow, shift, mode)
                net.add(f"w_{bits}_{signed}{narrow}_{kind}_{mode}", case)
    there, back = tmp_path / "there.onnx", tmp_path / "back.onnx"
    assert convert("to", net.model(), there, *options) == {}
    made = run(there, np.zeros(SHAPE, np.float32))
    for name, case in net.cases.items():
        assert np.array_equal(made[f"{name}_out"], expected(case, None)), name
    assert convert("from", there, back) == {}
    found = quantizers(back)
    assert len(found) == len(net.cases)
    for name, case in net.cases.items():
        one = found[f"{name}_out"]
        same_parameters(case, one, SHAPE)
        same_codes(case, one)
        assert one.mode == "ROUND"
        assert np.array_equal(one.data, expected(case, None)), name  # (code - zero point) * scale
    again = tmp_path / "again.onnx"
    convert("to", back, again, *options)
    assert integer_constants(there) == integer_constants(again)


def test_constants_carry_integers_behind_clip_and_have_no_quantizelinear(convert, tmp_path):
    net = Net(SHAPE)
    net.add("w", Case(values(np.random.default_rng(1), SHAPE), np.float32(0.5), 3, 1, 1))
    convert("to", net.model(), tmp_path / "there.onnx")
    assert counts(tmp_path / "there.onnx") == {"Clip": 1, "DequantizeLinear": 1}
    tensors = {t.name: numpy_helper.to_array(t) for t in onnx.load(tmp_path / "there.onnx").graph.initializer}
    assert tensors["w_integers"].dtype == np.int8
    assert tensors["w_integers"].min() == tensors["w_min"] == -3 and tensors["w_max"] == 3


@pytest.mark.parametrize("options", [(), ("--weights-as-float",)])
def test_one_bit(convert, tmp_path, options):
    rng = np.random.default_rng(10)
    net = Net(SHAPE)
    data = values(rng, SHAPE)
    data[np.abs(data) < 0.1] = -0.0
    for kind, scale in scales(rng, SHAPE).items():
        net.add(f"b_{kind}", Case(data, scale, 1, op="BipolarQuant"))
        net.add(f"w_{kind}", Case(data, scale, 1))
        net.add(f"a_{kind}", Case(None, scale, 1, op="BipolarQuant"))
        net.add(f"q_{kind}", Case(None, scale, 1))
    there, back = tmp_path / "there.onnx", tmp_path / "back.onnx"
    report = convert("to", net.model(), there, *options)
    assert report == {"bipolar": [name for name, case in net.cases.items() if case.data is not None]}
    x = values(rng, SHAPE)
    x[0, 0, :3] = [0.0, -0.0, np.nan]
    made = run(there, x)
    for name, case in net.cases.items():
        assert np.array_equal(made[f"{name}_out"], expected(case, x)), name
    convert("from", there, back)
    found = quantizers(back)
    for name, case in net.cases.items():
        one = found[f"{name}_out"]
        assert one.op == case.op and one.format == case.format
        assert np.array_equal(np.broadcast_to(one.scale, SHAPE), np.broadcast_to(case.scale, SHAPE))
        if case.data is not None:
            again = Case(one.data, one.scale, 1, op=case.op)
            assert np.array_equal(expected(again, None), expected(case, None))


def test_without_the_metadata_one_bit_is_read_as_three_values(convert, tmp_path):
    net = Net(SHAPE)
    net.add("b", Case(values(np.random.default_rng(2), SHAPE), np.float32(0.5), 1, op="BipolarQuant"))
    convert("to", net.model(), tmp_path / "there.onnx")
    model = onnx.load(tmp_path / "there.onnx")
    del model.metadata_props[:]
    convert("from", model, tmp_path / "back.onnx")
    assert quantizers(tmp_path / "back.onnx")["b_out"].format == (2, 1, 1)


def grouped(net, name, rng, groups, size, columns, bits=4, zeropt=None):
    data = values(rng, (groups, size, columns))
    scale = (rng.random((groups, 1, columns)) + 0.2).astype(np.float32)
    shift = np.float32(0) if zeropt is None else zeropt
    case = Case(data, scale, bits, 1 if zeropt is None else 0, 0, shift)
    net.cases[name] = case
    inputs = [net.const(f"{name}_data", data), net.const(f"{name}_s", scale), net.const(f"{name}_z", shift)]
    attributes = {"signed": case.signed, "narrow": 0, "rounding_mode": "ROUND"}
    net.node("Quant", [*inputs, net.const(f"{name}_b", bits)], name, QONNX, **attributes)
    whole = net.const(f"{name}_shape", [groups * size, columns], np.int64)
    net.output(net.node("Reshape", [f"{name}_out", whole], f"{name}_whole"), [groups * size, columns])
    return case


@pytest.mark.parametrize("native", [(), ("--native",), ("--weights-as-float",)])
def test_groups_are_blocks_from_operator_set_21(convert, tmp_path, native):
    rng = np.random.default_rng(11)
    net = Net((2, 3))
    grouped(net, "g", rng, 5, 4, 3)
    grouped(net, "h", rng, 3, 7, 2, 3, rng.integers(0, 7, size=(3, 1, 2)).astype(np.float32))
    net.add("alone", Case(values(rng, (5, 4, 3)), (rng.random((5, 1, 3)) + 0.5).astype(np.float32), 4))
    there, back = tmp_path / "there.onnx", tmp_path / "back.onnx"
    message = convert("to", net.model(), there, error=True)
    assert all(f"'{name}'" in message and "operator set 21" in message for name in ("g", "h", "alone"))
    convert("to", net.model(), there, "--opset=21", *native)
    assert "Reshape" not in counts(there)
    made = run(there, np.zeros((2, 3), np.float32))
    for name in ("g", "h"):
        want = expected(net.cases[name], None)
        assert np.array_equal(made[f"{name}_whole_out"], want.reshape(-1, want.shape[-1]))
    assert np.array_equal(made["alone_out"], expected(net.cases["alone"], None))
    convert("from", there, back)
    by_scale = {one.scale.tobytes(): one for one in quantizers(back).values()}
    for name, case in net.cases.items():
        one = by_scale[case.scale.tobytes()]
        if "--weights-as-float" not in native or name == "alone":
            assert one.data.shape == case.data.shape and one.scale.shape == case.scale.shape
            same_parameters(case, one, case.data.shape)
            same_codes(case, one)


def test_what_cannot_be_said_is_one_error_that_names_every_node(convert, tmp_path):
    rng = np.random.default_rng(12)
    net = Net(SHAPE, qonnx=2)
    half = Case(values(rng, SHAPE), np.float32(0.5), 2, 1, 0, np.float32(-0.5))
    cases = {
        "halves": (half, "no whole number"),
        "floor": (Case(None, np.float32(0.5), mode="FLOOR"), "FLOOR"),
        "fraction": (Case(None, np.float32(0.5), 2.5), "bit width"),
        "wide": (Case(None, np.float32(0.5), 12), "operator set 21"),
        "wider": (Case(None, np.float32(0.5), 24), "more than"),
        "far": (Case(None, np.float32(0.5), 4, 1, 0, np.float32(300)), "zero point 300"),
        "nothing": (Case(None, np.float32(0.5), 1, 0, 1), "0 alone"),
        "zero": (Case(None, np.float32(0.0)), "scale"),
    }
    for name, (case, _) in cases.items():
        net.add(name, case)
    net.node("MultiThreshold", ["x", net.const("t", np.zeros((1, 2)))], "threshold", QONNX, out_dtype="UINT2")
    net.output("threshold_out", SHAPE)
    message = convert("to", net.model(), tmp_path / "there.onnx", error=True)
    assert not (tmp_path / "there.onnx").exists()
    for name, (_, why) in cases.items():
        part = message.split(f"node '{name}'")[1].split("; ")[0]
        assert why in part, part
    assert "MultiThreshold) is no operator of ONNX" in message


def test_float_arithmetic_computes_the_same_numbers(convert, tmp_path):
    rng = np.random.default_rng(13)
    net = Net(SHAPE)
    for mode in ("ROUND", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN"):
        for zeropt in (0, -0.5, 1):
            case = Case(None, channel(rng, SHAPE, 1), 4, 1, 0, np.float32(zeropt), mode)
            net.add(f"q_{mode}_{len(net.cases)}", case)
    net.add("fraction", Case(None, np.float32(0.3), 2.5))
    net.add("wide", Case(None, np.float32(0.3), 20))
    net.add("sign", Case(None, np.float32(0.3), 1, zeropt=np.float32(1)))
    there = tmp_path / "there.onnx"
    report = convert("to", net.model(), there, "--arithmetic")
    alike = {n for n, c in net.cases.items() if c.mode == "ROUND" and c.zeropt in (0, 1) and c.bits == 4}
    assert set(report["arithmetic"]) == set(net.cases) - alike
    x = values(rng, SHAPE)
    made = run(there, x)
    for name in report["arithmetic"]:
        assert np.array_equal(made[f"{name}_out"], expected(net.cases[name], x)), name


@pytest.mark.parametrize("version", [1, 2])
def test_trunc_as_float_arithmetic(convert, tmp_path, version):
    from qonnx.custom_op.general.trunc import trunc_v1, trunc_v2

    rng = np.random.default_rng(14)
    net = Net(SHAPE, qonnx=version)
    x = (rng.integers(-120, 120, size=SHAPE) * np.float32(0.25)).astype(np.float32)
    wanted = {}
    for mode in ("FLOOR", "ROUND", "HALF_UP"):
        for zeropt in (0.0, 3.0):
            name = f"t_{mode}_{int(zeropt)}"
            inputs = ["x"] + [net.const(f"{name}_{k}", v) for k, v in (("s", 0.25), ("z", zeropt), ("i", 8.0))]
            if version == 1:
                inputs.append(net.const(f"{name}_o", 5.0))
                attributes = {"rounding_mode": mode}
                wanted[name] = trunc_v1(x, np.float32(0.25), np.float32(zeropt), np.float32(8), np.float32(5), mode)
            else:
                inputs += [net.const(f"{name}_t", 2.0), net.const(f"{name}_o", 5.0)]
                attributes = {"rounding_mode": mode, "signed": 1, "narrow": 0}
                numbers = (np.float32(v) for v in (8, 0, 1, 2, 5))
                wanted[name] = trunc_v2(x, np.float32(0.25), np.float32(zeropt), *numbers, mode)
            net.output(net.node("Trunc", inputs, name, QONNX, **attributes), SHAPE)
    assert "Trunc" in convert("to", net.model(), tmp_path / "no.onnx", error=True)
    there = tmp_path / "there.onnx"
    assert convert("to", net.model(), there, "--arithmetic") == {"arithmetic": list(wanted)}
    made = run(there, x)
    for name, want in wanted.items():
        assert np.array_equal(made[f"{name}_out"], want.astype(np.float32)), name


@pytest.mark.parametrize("channels", [(1,), (4,), (1, 4)])
def test_a_trunc_with_scales_of_channels_is_no_arithmetic(convert, tmp_path, channels):
    """Which of the two scales it is: of the input (1), of the output (4)."""
    net = Net(SHAPE, qonnx=2)
    numbers = dict(enumerate((0.25, 0.0, 8.0, 2.0, 5.0), 1))
    each = np.full((1, SHAPE[1], *[1] * (len(SHAPE) - 2)), 2.0)
    inputs = ["x"] + [net.const(f"c{i}", each if i in channels else v) for i, v in numbers.items()]
    net.output(net.node("Trunc", inputs, "t", QONNX, rounding_mode="FLOOR", signed=1, narrow=0), SHAPE)
    assert "a scale for each channel" in convert("to", net.model(), tmp_path / "no.onnx", "--arithmetic", error=True)


FLOAT8 = {
    "e4m3fn": (4, 3, 7, 448, 0, 1),
    "e4m3fnuz": (4, 3, 8, 240, 0, 1),
    "e5m2": (5, 2, 15, 57344, 1, 1),
    "e5m2fnuz": (5, 2, 16, 57344, 0, 1),
}


@pytest.mark.parametrize("options", [(), ("--weights-as-float",)])
def test_floats_of_eight_bits(convert, tmp_path, options):
    from qonnx.custom_op.general.floatquant import float_quant

    rng = np.random.default_rng(15)
    net = Net(SHAPE)
    x = values(rng, SHAPE, 60.0)
    data = values(rng, SHAPE, 60.0)
    wanted = {}
    for name, (e, m, bias, largest, inf, nan) in FLOAT8.items():
        for kind in ("w", "a"):
            for scale in (np.float32(0.37), channel(rng, SHAPE, 1)):
                full = f"{name}_{kind}_{scale.size}"
                source = net.const(f"{full}_data", data) if kind == "w" else "x"
                numbers = [net.const(f"{full}_{i}", v) for i, v in enumerate((scale, e, m, bias, largest))]
                attributes = {"has_inf": inf, "has_nan": nan, "has_subnormal": 1, "saturation": 1}
                attributes["rounding_mode"] = "ROUND"
                net.output(net.node("FloatQuant", [source, *numbers], full, QONNX, **attributes), SHAPE)
                args = (*(np.float32(v) for v in (e, m, bias)), True, np.float32(largest))
                wanted[full] = float_quant(data if kind == "w" else x, scale, *args, inf, nan, True, "ROUND", True)
    there, back = tmp_path / "there.onnx", tmp_path / "back.onnx"
    assert "operator set 19" in convert("to", net.model(), there, error=True)
    convert("to", net.model(), there, "--opset=19", *options)
    made = run(there, x)
    for name, want in wanted.items():
        assert np.array_equal(made[f"{name}_out"], want.astype(np.float32)), name
    convert("from", there, back)
    again = tmp_path / "again.onnx"
    assert counts(back) == {"FloatQuant": len(wanted)}
    convert("to", back, again, "--opset=19", *options)
    made = run(again, x)
    for name, want in wanted.items():
        assert np.array_equal(made[f"{name}_out"], want.astype(np.float32)), name
