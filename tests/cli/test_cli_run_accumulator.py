"""crumb run --accumulator on both engines: wide registers compute what the network computes, narrow ones what NumPy
counts; guarantees are seen to hold, and broken ones to fail."""

import json
import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh
from test_cli_verify_accumulator import KEY, QONNX, SCALES, bits_for, crumb_reader, network, quant, tampered, worst

CHANNELS_LAST = "qonnx.custom_op.channels_last"


@pytest.fixture(params=["runtime", "libtorch"])
def run(request, crumb, tmp_path):
    """run(model, x, "--accumulator", 8) gives the output; with status=1 what is said. The runtime has no LibTorch."""

    def call(model, x, *flags, status=0, engine=request.param):
        environment = dict(os.environ)
        if engine == "libtorch":
            request.getfixturevalue("engine")
        else:
            environment["CRUMB_ENGINE"] = str(tmp_path / "no_libtorch.so")
        np.save(tmp_path / "in.npy", x)
        out = tmp_path / "out.npy"
        out.unlink(missing_ok=True)
        done = crumb("run", model, "--input", tmp_path / "in.npy", "--output", out, "--engine", engine, *flags,
                     status=status, env=environment)
        if status:
            assert not out.exists()
            return done.stderr
        return np.load(out)

    return call


def without_registers(run, layer, path, x):
    """The runtime computes channels-last convolutions in registers alone."""
    return run(path, x, **({"engine": "libtorch"} if layer.get("domain") else {}))


def needed(crumb, path, *flags):
    rows = json.loads(crumb("verify", path, "--accumulator", "--json", *flags, status=None).stdout)["layers"]
    return {row["name"]: row["bits_needed"] for row in rows}


LAYERS = {
    "conv": dict(op="Conv", x=[2, 4, 5, 5], w=[6, 2, 3, 2],
                 attributes={"group": 2, "strides": [2, 1], "pads": [1, 0, 2, 1]}),
    "conv1d": dict(op="Conv", x=[2, 3, 9], w=[2, 3, 4], attributes={"dilations": [2]}),
    "conv3d": dict(op="Conv", x=[1, 2, 4, 5, 3], w=[3, 2, 2, 3, 1], attributes={"strides": [1, 2, 2]}),
    "depthwise": dict(op="Conv", x=[1, 4, 6, 6], w=[4, 1, 3, 3], attributes={"group": 4, "auto_pad": "SAME_UPPER"}),
    "last": dict(op="Conv", domain=CHANNELS_LAST, x=[2, 5, 6, 3], w=[4, 3, 2, 3],
                 attributes={"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    "transposed": dict(op="ConvTranspose", x=[2, 4, 5], w=[4, 3, 5], attributes={"strides": [2], "group": 2}),
    "transposed2d": dict(op="ConvTranspose", x=[1, 2, 3, 3], w=[2, 2, 3, 3],
                         attributes={"strides": [2, 3], "dilations": [2, 1], "pads": [1, 1, 1, 1]}),
    "sparse": dict(op="ConvTranspose", x=[1, 2, 4], w=[2, 3, 2], attributes={"strides": [4], "output_padding": [3]}),
    "left": dict(op="MatMul", x=[3, 5], w=[4, 3], first=True),
    "left batched": dict(op="MatMul", x=[2, 3, 5], w=[2, 4, 3], first=True),
    "batched": dict(op="MatMul", x=[2, 3, 6], w=[2, 6, 3]),
    "broadcast": dict(op="MatMul", x=[3, 1, 2, 6], w=[2, 6, 3]),
    "vector": dict(op="MatMul", x=[2, 6], w=[6]),
    "of a vector": dict(op="MatMul", x=[6], w=[2, 6, 3]),
    "vectors": dict(op="MatMul", x=[6], w=[6]),
    "left vector": dict(op="MatMul", x=[2, 6, 3], w=[6], first=True),
    "gemm": dict(op="Gemm", x=[2, 6], w=[3, 6], attributes={"transB": 1}, bias=[3]),
    "gemm turned": dict(op="Gemm", x=[6, 2], w=[6, 3], attributes={"transA": 1, "alpha": 0.5, "beta": 2.0}, bias=[2, 3]),
    "gemm left": dict(op="Gemm", x=[5, 6], w=[3, 6], first=True, attributes={"transB": 1}, bias=[3, 1]),
    "biased": dict(op="Conv", x=[2, 3, 7], w=[4, 3, 3], bias=[4]),
    "biased last": dict(op="Conv", domain=CHANNELS_LAST, x=[2, 7, 3], w=[4, 3, 3], bias=[4],
                        attributes={"kernel_shape": [3]}),
    "biased transposed": dict(op="ConvTranspose", x=[2, 3, 4], w=[3, 2, 3], bias=[2], attributes={"strides": [2]}),
    "square": dict(op="Gemm", x=[3, 6], w=[6, 3], bias=[3, 1]),  # a bias of each row, which is nobody's start
}


def layer_model(path, layer, x_bits=3, scale=0.25, bias_scale=None, tile=None, seed=4):
    """One layer, its input at 0.5 and its weights at `scale`; a bias of codes at both where it has one."""
    rng = np.random.default_rng(seed)
    inits = []
    nodes = [quant("x", "x", 0.5, x_bits, 1, 0, inits)]
    codes = rng.integers(-7, 8, layer["w"])
    inits.append(nh.from_array((codes * scale).astype(np.float32), "w"))
    nodes.append(quant("w", "w", scale, 4, 1, 1, inits))
    operands = ["w_q", "x_q"] if layer.get("first") else ["x_q", "w_q"]
    if layer.get("bias"):
        unit = bias_scale or scale * 0.5
        inits.append(nh.from_array((rng.integers(-20, 21, layer["bias"]) * unit).astype(np.float32), "b"))
        nodes.append(quant("b", "b", unit, 16, 1, 0, inits))
        operands.append("b_q")
    domain = layer.get("domain", "")
    nodes.append(h.make_node(layer["op"], operands, ["y"], "layer", domain=domain, **layer.get("attributes", {})))
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, layer["x"])],
                         [h.make_tensor_value_info("y", T.FLOAT, None)], inits)
    opsets = [h.make_opsetid("", 13), h.make_opsetid(QONNX, 1), h.make_opsetid(CHANNELS_LAST, 1)]
    onnx.save(h.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return codes


@pytest.mark.parametrize(("name", "kind"), [(name, "") for name in LAYERS] +
                         [(name, "after") for name, layer in LAYERS.items() if layer.get("bias")])
def test_wide_registers_compute_the_layer(run, tmp_path, name, kind):
    """Powers of two as scales: every bit is the same."""
    layer, path = LAYERS[name], tmp_path / "layer.onnx"
    layer_model(path, layer, bias_scale=2**-7 if kind else None)
    x = np.random.default_rng(1).normal(size=layer["x"]).astype(np.float32)
    plain, wide = without_registers(run, layer, path, x), run(path, x, "--accumulator", 40)
    assert plain.shape == wide.shape and plain.dtype == wide.dtype
    assert (plain == wide).all()


@pytest.mark.parametrize("name", [name for name in LAYERS if name not in ("gemm turned", "square")])
def test_narrow_registers_wrap_the_exact_sums(run, tmp_path, name):
    """Whatever the order of the terms; every result in its place. A bias of the node's own lies inside."""
    layer, path = LAYERS[name], tmp_path / "layer.onnx"
    layer_model(path, layer)
    x = np.random.default_rng(6).normal(size=layer["x"]).astype(np.float32)
    sums, bits = without_registers(run, layer, path, x) / 0.125, 5
    assert (sums == np.rint(sums)).all()
    wrapped = run(path, x, "--accumulator", bits, "--overflow", "wrap") / 0.125
    assert (wrapped == (sums + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)).all()
    assert (wrapped != sums).any()


@pytest.mark.parametrize("name", [name for name, layer in LAYERS.items() if layer.get("domain", "") == ""])
def test_witnesses_need_just_the_bits_that_verify_says(crumb, run, tmp_path, name):
    layer, path = LAYERS[name], tmp_path / "net.onnx"
    layer_model(path, layer)
    bits = needed(crumb, path, "--witness", tmp_path)["layer"]
    overflowed = 0
    for witness in sorted(tmp_path.glob("layer*.onnx")):  # two where one channel's bias is a term of one extreme
        x = np.load(witness.with_suffix(".npy"))
        y = run(witness, x, "--accumulator", bits)
        assert (y == run(witness, x)).all()
        if (run(witness, x, "--accumulator", bits - 1, "--overflow", "wrap") == y).all():
            continue
        overflowed += 1
        told = run(witness, x, "--accumulator", bits - 1, "--overflow", "check", status=1)
        assert "layer 'layer'" in told and "output channel" in told and f"accumulator has {bits - 1}" in told
    assert overflowed


def registers(codes, x, bits, mode, tile):
    """x [N, K] and codes [K, M], addition by addition, in Python's integers."""
    high = (1 << (bits - 1)) - 1
    count = -(-codes.shape[0] // tile) if tile else 1
    wide = (1 << (bits - 1 + (count - 1).bit_length())) - 1

    def kept(total, most):
        if mode == "saturate":
            return min(max(total, -most - 1), most)
        return (total + most + 1) % (2 * most + 2) - most - 1

    sums = np.zeros((len(x), codes.shape[1]))
    for n, m in np.ndindex(sums.shape):
        tiles = {}
        for k in range(codes.shape[0]):
            at = k // tile if tile else 0
            tiles[at] = kept(tiles.get(at, 0) + int(codes[k, m]) * int(x[n, k]), high)
        total = 0
        for one in tiles.values():
            total = kept(total + one, wide)
        sums[n, m] = total
    return sums


def certify(crumb, path, tile):
    """A certificate of the sums that the codes have in such tiles."""
    model = onnx.load(path)
    claim = {"method": "none", "bits": 32, "input": [-4, 3], "tile": tile, "bias": "none", "rounding": "none",
             "constrained": False, "worst": []}
    entry = model.metadata_props.add()
    entry.key, entry.value = KEY, json.dumps({"layer": claim})
    onnx.save(model, path)


@pytest.mark.parametrize("tile", [0, 1, 4, 5])
@pytest.mark.parametrize("mode", ["wrap", "saturate"])
@pytest.mark.parametrize("bits", [4, 6, 7])
def test_narrow_registers_are_numpy_s(crumb, run, tmp_path, mode, bits, tile):
    path = tmp_path / "layer.onnx"
    codes = layer_model(path, dict(op="MatMul", x=[1, 13], w=[13, 4]))
    if tile:
        certify(crumb, path, tile)
    x = np.random.default_rng(3).integers(-4, 4, (9, 13))
    found = run(path, (x * 0.5).astype(np.float32), "--accumulator", bits, "--overflow", mode)
    assert (found / 0.125 == registers(codes, x, bits, mode, tile)).all()


def test_tiles_have_witnesses_too(crumb, run, tmp_path):
    """Each tile's register, and not the row's, must hold its sums."""
    path = tmp_path / "net.onnx"
    layer_model(path, dict(op="MatMul", x=[1, 13], w=[13, 4]))
    whole = needed(crumb, path)["layer"]
    certify(crumb, path, 4)
    bits = needed(crumb, path, "--witness", tmp_path)["layer"]
    assert bits < whole
    witness, x = tmp_path / "layer.onnx", np.load(tmp_path / "layer.npy")
    run(witness, x, "--accumulator", bits)
    assert "tile" in run(witness, x, "--accumulator", bits - 1, status=1)
    run(path, np.full((3, 13), -9, np.float32), "--accumulator", bits)


@pytest.mark.parametrize("form", ["onnx", "crumb", "qcdq"])
def test_a_network_in_every_form_of_file(crumb, run, tmp_path, form):
    source, path = tmp_path / "net.onnx", tmp_path / f"file.{'crumb' if form == 'crumb' else 'onnx'}"
    known = network(source)
    crumb(*{"onnx": ("passes", source, "-o", path, "tidy"), "crumb": ("passes", source, "-o", path, "tidy"),
            "qcdq": ("export", source, "-o", path, "--to", "qcdq")}[form])
    x = np.random.default_rng(2).uniform(-1, 9, (40, 24)).astype(np.float32)
    most = max(row["bits"] for row in known.values())
    plain = run(path, x)
    for mode in ("check", "wrap", "saturate"):
        np.testing.assert_allclose(run(path, x, "--accumulator", most, "--overflow", mode), plain, rtol=1e-6)
    narrow = run(path, x, "--accumulator", 6, "--overflow", "wrap")
    assert np.abs(narrow - plain).max() > 1


def test_the_value_between_product_and_bias_has_the_bias(crumb, run, tmp_path):
    """A MatMul and an Add whose codes lie at its scales: one register, started with the bias."""
    inits = []
    nodes = [quant("x", "x", 0.5, 4, 0, 0, inits)]
    codes, bias = np.array([[3, -2], [5, 7], [-6, 1]]), np.array([17, -23])
    for name, values, scale, bits in (("w", codes, 0.25, 4), ("b", bias, 0.125, 8)):
        inits.append(nh.from_array((values * scale).astype(np.float32), name))
        nodes.append(quant(name, name, scale, bits, 1, 0, inits))
    nodes += [h.make_node("MatMul", ["x_q", "w_q"], ["p"], "product"), h.make_node("Add", ["b_q", "p"], ["y"], "bias")]
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [1, 3])],
                         [h.make_tensor_value_info("y", T.FLOAT, [1, 2])], inits)
    path = tmp_path / "net.onnx"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 13), h.make_opsetid(QONNX, 1)], ir_version=8), path)
    x = np.array([[4, 15, 0], [0, 1, 15]])
    exact = x @ codes + bias
    found = run(path, (x * 0.5).astype(np.float32), "--accumulator", 9)
    assert (found == exact * 0.125).all()
    found = run(path, (x * 0.5).astype(np.float32), "--accumulator", 6, "--overflow", "wrap")
    assert (found == ((exact + 32) % 64 - 32) * 0.125).all()


def crossing(name):
    """A network where one code more takes this layer's sums past its certified width: its seed, what is known, the
    place of the code [row, channel] and the channel."""
    low, high = 0, 15
    for seed in range(100):
        known = network("/dev/null", seed=seed)
        codes, bits = known[name]["codes"], known[name]["bits"]
        for row, channel in np.argwhere(codes < 0):
            more = codes.copy()
            more[row, channel] = 7
            most, least = worst(more, low, high)  # without the bias, which can only add to it
            if bits_for(int(most.max()), int(least.min())) > bits:
                return seed, known, int(row), int(channel)
    raise AssertionError("no seed has such a code")


def fires(run, folder, name, bits):
    told = run(folder / f"{name}.onnx", np.load(folder / f"{name}.npy"), "--accumulator", bits, status=1)
    assert f"layer '{name}'" in told and f"accumulator has {bits}" in told
    return told


@pytest.mark.parametrize("name", ["dense1", "dense2"])
def test_a_raised_code_in_a_packed_file_overflows_the_certified_width(crumb, run, tmp_path, name):
    seed, known, row, channel = crossing(name)
    source, path = tmp_path / "net.onnx", tmp_path / "net.crumb"
    network(source, seed=seed)
    crumb("passes", source, "-o", path, "tidy")
    codes = known[name]["codes"]
    weight = next(n for n, value in crumb_reader.read(path).items() if value.size == codes.size)
    stored = np.rint(crumb_reader.read(path)[weight] / SCALES["w1" if name == "dense1" else "w2"]).astype(int)
    turned = stored.shape != codes.shape
    assert ((stored.T if turned else stored) == codes).all()

    def change(data, header):
        tensor = next(t for t in header["tensors"] if t["name"] == weight)
        place = channel * codes.shape[0] + row if tensor["shape"][0] == codes.shape[1] else row * codes.shape[1] + channel
        blob = tensor["codes"]
        at, shift = blob["offset"] + place // 2, 4 * (place % 2)
        assert (data[at] >> shift) & 15 == codes[row, channel] % 16
        data[at] = (data[at] & ~(15 << shift)) | 7 << shift
        return blob

    change.name = b'"name":"' + weight.encode()
    bits = known[name]["bits"]
    crumb("verify", path, "--accumulator", "--witness", tmp_path / "sound")
    run(tmp_path / "sound" / f"{name}.onnx", np.load(tmp_path / "sound" / f"{name}.npy"), "--accumulator", bits)
    tampered(path, change)
    told = crumb("verify", path, "--accumulator", "--witness", tmp_path / "w", status=1).stderr
    assert f"'{name}'" in told and f"channel {channel}" in told
    assert f"output channel {channel}" in fires(run, tmp_path / "w", name, bits)


OTHERS = ["TFC_1W1A", "TFC_1W2A", "TFC_2W2A", "tfc_1w1a_multithreshold", "espcn_nn_resize_quant",
          "espcn_subpixel_quant"]


@pytest.mark.parametrize("name", OTHERS)
def test_networks_of_others_in_wide_registers(crumb, run, networks, tmp_path, name):
    path = networks / f"{name}.onnx"
    shape = [dim.dim_value for dim in onnx.load(path).graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(5).uniform(-1, 1, shape).astype(np.float32)
    plain, wide = run(path, x), run(path, x, "--accumulator", 32)
    # Where a quantizer's edge lies between two roundings of one sum, its result is the next level: 1 / 255 of espcn's.
    off = np.abs(wide - plain)
    assert off.max() <= (1.01 / 255 if name.startswith("espcn") else 1e-5)
    assert (off > 1e-5).mean() < 1e-3
    bits = needed(crumb, path)
    most = max(one for one in bits.values() if one)
    np.testing.assert_array_equal(run(path, x, "--accumulator", most), wide)


def test_layers_that_are_not_simulated_are_named(crumb, tmp_path):
    path = tmp_path / "net.onnx"
    network(path, float_input=True, certify=False)
    np.save(tmp_path / "x.npy", np.ones((3, 24), np.float32))
    flags = ["run", path, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", "--accumulator", 20]
    told = crumb(*flags).stderr
    assert "note: dense1 (Gemm) is not simulated: the graph's input 'x' has neither" in told
    assert "note: 1 layer in accumulators of 20 bits: 0 of 15 sums overflowed" in told
    told = crumb(*flags, "--input-range", "x=0:15").stderr
    assert "not simulated" not in told and "note: 2 layers" in told
    np.save(tmp_path / "x.npy", np.full((3, 24), 16, np.float32))
    told = crumb(*flags, "--input-range", "x=0:15", status=1).stderr
    assert "layer 'dense1' (Gemm): an input is 16" in told and "from 0 to 15" in told


def test_only_constrained_layers(crumb, run, tmp_path):
    """dense1 was not constrained, and so is not simulated: dense2 fits its width, and a register less does not."""
    path = tmp_path / "net.onnx"
    known = network(path)
    model = onnx.load(path)
    claims = json.loads(model.metadata_props[0].value)
    claims["dense1"]["constrained"] = False
    model.metadata_props[0].value = json.dumps(claims)
    onnx.save(model, path)
    x = np.random.default_rng(2).uniform(-1, 9, (40, 24)).astype(np.float32)
    assert known["dense2"]["bits"] < known["dense1"]["bits"]
    flags = ("--constrained-only", "--accumulator")
    np.testing.assert_allclose(run(path, x, *flags, known["dense2"]["bits"]), run(path, x), rtol=1e-6)
    assert "layer 'dense2'" in run(path, x, *flags, 6, status=1)
    network(path, certify=False)
    assert "'dense1' (Gemm): it has no certificate" in run(path, x, *flags, 20, status=1)


@pytest.mark.parametrize("samples", [1, 7, 300, 359])
def test_every_sample_counts_once(crumb, tmp_path, samples):
    path = tmp_path / "net.onnx"
    network(path)
    model = onnx.load(path)
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, path)
    np.save(tmp_path / "x.npy", np.ones((samples, 24), np.float32))
    told = crumb("run", path, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", "--accumulator", 20).stderr
    assert f"0 of {samples * 21} sums" in told
    assert len(np.load(tmp_path / "y.npy")) == samples


def test_a_network_of_floats_cannot_be_simulated(crumb, tmp_path):
    graph = h.make_graph([h.make_node("MatMul", ["x", "w"], ["y"], "fc")], "g",
                         [h.make_tensor_value_info("x", T.FLOAT, [1, 2])],
                         [h.make_tensor_value_info("y", T.FLOAT, [1, 2])],
                         [nh.from_array(np.array([[0.3, 1], [2, 3]], np.float32), "w")])
    path = tmp_path / "float.onnx"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8), path)
    np.save(tmp_path / "x.npy", np.ones((1, 2), np.float32))
    told = crumb("run", path, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", "--accumulator", 8,
                 status=1).stderr
    assert "no layer's accumulator can be simulated" in told and "'fc' (MatMul): no quantizer" in told


WRONG = {
    ("--accumulator", "1"): "expected a number of bits, 2 to 63",
    ("--accumulator", "64"): "expected a number of bits, 2 to 63",
    ("--accumulator", "eight"): "expected a number of bits, 2 to 63",
    ("--accumulator", "8", "--overflow", "warp"): "'wrap'",
    ("--constrained-only",): "are for --accumulator BITS",
    ("--overflow", "wrap"): "are for --accumulator BITS",
    ("--accumulator", "8", "--input-range", "y=0:3"): "its inputs are 'x'",
}


@pytest.mark.parametrize("flags", WRONG, ids=" ".join)
def test_wrong_flags(crumb, tmp_path, flags):
    network(tmp_path / "net.onnx")
    np.save(tmp_path / "x.npy", np.ones((1, 24), np.float32))
    told = crumb("run", tmp_path / "net.onnx", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", *flags,
                 status=2).stderr
    assert WRONG[flags] in told
