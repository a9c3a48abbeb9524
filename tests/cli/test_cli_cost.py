"""crumb cost against qonnx's own inference cost, on networks of others and on generated graphs."""

import json
import math

import numpy as np
import onnx
import pytest

MODELS = [
    "TFC_1W1A",
    "TFC_1W2A",
    "TFC_2W2A",
    "eltwise_chanlast_testcase",
    "espcn_nn_resize_float",
    "espcn_nn_resize_quant",
    "espcn_subpixel_float",
    "espcn_subpixel_quant",
    "mnist_conv_float",
    "residual_block_clean",
    "sdp_float",
    "tfc_1w1a_multithreshold",
]

BITS = {"TFC_1W1A": 1, "TFC_2W2A": 2}  # of every operand


@pytest.fixture
def cost(crumb):
    def run(model, *flags):
        return json.loads(crumb("cost", model, "--json", *flags).stdout)

    return run


def row(amounts):
    return tuple(amounts[key] for key in ("macs", "bops_qonnx", "weight_bits", "activation_bits"))


def products(path):
    """Of the matrices: how many weights there are, and how many are not zero."""
    matrices = [onnx.numpy_helper.to_array(one) for one in onnx.load(path).graph.initializer if len(one.dims) == 2]
    return [sum(count(one) for one in matrices) for count in (np.size, np.count_nonzero)]


@pytest.mark.parametrize("name", BITS)
def test_by_hand(cost, networks, name):
    found, bits = cost(networks / f"{name}.onnx"), BITS[name]
    counts = products(networks / f"{name}.onnx")
    assert counts[0] == 784 * 64 + 2 * 64 * 64 + 64 * 10 and (counts[0] > counts[1]) == (bits > 1)
    counted = [(count, count * bits**2, count * bits, (3 * 64 + 10) * 32) for count in counts]  # results are float32
    assert [row(found["dense"]), row(found["sparse"])] == counted
    assert found["total"] == found["dense"]
    assert cost(networks / f"{name}.onnx", "--sparse")["total"] == found["sparse"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_totals_are_qonnx_s(cost, networks, name):
    inference_cost = pytest.importorskip("qonnx.util.inference_cost").inference_cost
    found = cost(networks / f"{name}.onnx")
    for kind in ("dense", "sparse"):
        expected = inference_cost(str(networks / f"{name}.onnx"), discount_sparsity=kind == "sparse")["total_cost"]
        keys = ("total_macs", "total_bops", "total_mem_w_bits", "total_mem_o_bits")
        assert row(found[kind]) == tuple(expected[key] for key in keys)
        for key in found[kind]:
            assert math.isclose(found[kind][key], sum(node[kind][key] for node in found["nodes"]))


def test_small_floats_take_their_bits(cost, networks):
    # qonnx sees FLOAT32 in a scaled FloatQuant; the bits that are stored are eight.
    found = cost(networks / "floatquant_fp8_e4m3.onnx")
    assert row(found["dense"]) == (48, 48 * 32 * 32, 48 * 8, 16 * 32)
    assert found["nodes"][0]["weight_type"] == "FLOAT<4,3,7>"


def quantized_matmul(path, x_quant, w, w_quant):
    """x [3, K] -> Quant -> MatMul(Quant(w)); a quantizer is (scale, zero point, bits, signed, narrow, rounding)."""
    from onnx import TensorProto, checker, helper, numpy_helper, save

    domain = "qonnx.custom_op.general"
    nodes, constants = [], [numpy_helper.from_array(w, "w")]

    def quant(value, made, how):
        scale, zero, bits, signed, narrow, rounding = how
        names = [f"{made}_{what}" for what in ("scale", "zero", "bits")]
        for name, array in zip(names, (scale, zero, bits)):
            constants.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        nodes.append(
            helper.make_node(
                "Quant", [value, *names], [made], domain=domain, signed=signed, narrow=narrow, rounding_mode=rounding
            )
        )

    quant("x", "xq", x_quant)
    quant("w", "wq", w_quant)
    nodes.append(helper.make_node("MatMul", ["xq", "wq"], ["y"], name="product"))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, w.shape[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, w.shape[1]])],
        constants,
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(domain, 1)]
    save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


@pytest.mark.parametrize("seed", range(12))
def test_weights_are_evaluated_as_qonnx_does(cost, tmp_path, seed):
    pytest.importorskip("onnx")
    intquant = pytest.importorskip("qonnx.custom_op.general.intquant")
    basic = pytest.importorskip("qonnx.util.basic")
    datatype = pytest.importorskip("qonnx.core.datatype").DataType
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(17, 5)).astype(np.float32)
    w.flat[::7] = np.round(w.flat[::7] * 4) / 8  # ties
    bits, signed, narrow = int(rng.integers(1, 9)), int(rng.integers(2)), int(rng.integers(2))
    rounding = ["ROUND", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN"][seed % 7]
    scale = np.float32([[0.25] * 5] if seed % 2 else rng.uniform(0.1, 1, size=(1, 5)))
    x_bits, x_signed = int(rng.integers(2, 9)), int(rng.integers(2))
    quantized_matmul(
        tmp_path / "m.onnx", (1.0, 0.0, x_bits, x_signed, 0, "ROUND"), w, (scale, 0.0, bits, signed, narrow, rounding)
    )
    node = cost(tmp_path / "m.onnx")["nodes"][0]
    expected = intquant.int_quant(w, scale, np.float32(0), np.float32(bits), signed, narrow, rounding)
    assert node["density"] == pytest.approx(np.count_nonzero(expected) / expected.size)
    levels = np.round(expected / scale)
    x_type = datatype[("INT" if x_signed else "UINT") + str(x_bits)]
    low, high = basic.calculate_matvec_accumulator_range(levels, x_type)
    exact = datatype[node["accumulator"]["exact"]]
    assert exact.min() <= low and high <= exact.max()
    smaller = "INT" if low < 0 else "UINT"
    if exact.bitwidth() > 1:
        smaller = datatype[smaller + str(exact.bitwidth() - 1)]
        assert not (smaller.min() <= low and high <= smaller.max())
    norm = np.abs(levels).sum(axis=0).max()
    largest = norm * 2 ** (x_bits - x_signed)
    assert node["accumulator"]["by_weights"] == 1 + math.ceil(math.log2(largest + 1))
    assert node["accumulator"]["by_weights"] <= node["accumulator"]["by_data_type"]


def test_open_dimensions(cost, crumb, tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "y"], ["z"], name="product")],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "n"]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4]),
        ],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
    )
    path = tmp_path / "open.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    assert cost(path)["total"]["macs"] == 4
    assert cost(path, "--shape", "x=2x7")["total"]["macs"] == 2 * 7 * 4
    wrong = {"x=2x": 2, "x": 2, "=2": 2, "x=ax2": 2, "x=2x-1": 2, "x=2x3x4": 1, "q=1x2": 1, "y=7x5": 1}
    for shape, status in wrong.items():
        done = crumb("cost", path, "--shape", shape, status=status)
        assert done.stderr.startswith("crumb: ") and not done.stdout
    assert "'x'" in crumb("cost", path, "--shape", "x=2x3x4", status=1).stderr


def test_the_table_names_layers_and_accumulators(crumb, networks):
    text = crumb("cost", networks / "TFC_2W2A.onnx").stdout
    every, some = products(networks / "TFC_2W2A.onnx")
    assert "MatMul_20" in text and "accumulators" in text and str(4 * every) in text and str(4 * some) in text


def test_damage_is_an_error(crumb, tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"\x08\x07garbage")
    assert crumb("cost", tmp_path / "bad.onnx", status=1).stderr.startswith("crumb: ")
    assert crumb("cost", tmp_path / "none.onnx", status=1).stderr.startswith("crumb: ")


def layers_of(rng):
    """Layers of a weight w by name, and samples."""
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    return {
        "MatMul": ("MatMul", {}, draw(16, 6), draw(40, 16)),
        "Gemm": ("Gemm", {"transB": 1}, draw(6, 16), draw(40, 16)),
        "Conv": ("Conv", {"group": 2}, draw(6, 2, 3, 3), draw(8, 4, 6, 6)),
        "depthwise": ("Conv", {"group": 4}, draw(4, 1, 3, 3), draw(8, 4, 6, 6)),
        "ConvTranspose": ("ConvTranspose", {}, draw(4, 6, 3, 3), draw(8, 4, 5, 5)),
        "ConvTranspose in groups": ("ConvTranspose", {"group": 2}, draw(4, 3, 3, 3), draw(8, 4, 5, 5)),
    }


@pytest.mark.parametrize("layer", ["MatMul", "Gemm", "Conv", "depthwise", "ConvTranspose", "ConvTranspose in groups"])
def test_registers_are_those_that_verify_finds(cost, crumb, tmp_path, layer):
    """Of the file, of what it is exported as, and by data types no less; where weights of one sum have several scales, none."""
    op, attributes, w, x = layers_of(np.random.default_rng(5))[layer]
    grouped = [] if "Conv" in layer or layer == "depthwise" else ["int4:group=8", "e2m1:group=8", "int8:group=4"]
    specs = ["int4:channel", "int3:tensor", "int2h:channel", "int4:channel:zero=int", "uint4:channel:zero=int", "e2m1:channel", "e3m2:tensor",
             "binary:channel", "int4:channel:search=mse", *grouped]  # fmt: skip
    names = {f"layer_{i}": spec for i, spec in enumerate(specs)}  # of one input: a layer for each spec
    value = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node(op, ["x", f"{name}.weight"], [f"{name}.y"], name, **attributes) for name in names]
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, ["N", *x.shape[1:]])], [value(f"{name}.y", 1, None) for name in names],
                                   [onnx.numpy_helper.from_array(w, f"{name}.weight") for name in names])  # fmt: skip
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", x)
    rules = "".join(f"  - {{match: {{name: {name}.weight}}, weights: '{spec}'}}\n" for name, spec in names.items())
    (tmp_path / "r.yaml").write_text(f"version: 1\nweights: int8\nrules:\n{rules}")
    of_one = "x=" + "x".join(["1", *map(str, x.shape[1:])])

    def bounds(file):
        return [(node["name"], node["accumulator"]) for node in cost(file, "--shape", of_one)["nodes"] if node["weights"]]

    for values in ("uint4", "int5", "int8:tensor:zero=int", "e2m1:tensor", "uint3"):
        crumb("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.crumb", "--recipe", tmp_path / "r.yaml", "--activations", values, "--data", tmp_path / "x.npy")
        crumb("export", tmp_path / "q.crumb", "-o", tmp_path / "q.onnx", "--to", "qonnx")
        every, again = bounds(tmp_path / "q.crumb"), bounds(tmp_path / "q.onnx")  # which calls its nodes otherwise
        assert [found for _, found in every] == [found for _, found in again]
        every = dict(every)
        assert every.keys() == names.keys()
        layers = json.loads(crumb("verify", tmp_path / "q.crumb", "--accumulator", 60, "--json", status=None).stdout)["layers"]
        verified = {one["name"]: one for one in layers}
        for name, weights in names.items():
            case, found = (layer, weights, values), every[name]
            if "group=" in weights:
                assert found is None, case
                continue
            # A sign more where no sum is below 0; FINN's rule starts from what a sum needs in two's complement.
            assert found["exact_bits"] in (verified[name]["bits_needed"], verified[name]["bits_needed"] - 1), case
            assert found["exact_bits"] <= found["by_weights"] + 1 <= found["by_data_type"] + 2, case
