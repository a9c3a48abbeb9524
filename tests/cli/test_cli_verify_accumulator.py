"""crumb verify --accumulator against sums that NumPy counts, on networks of others and made ones, in every form of file."""

import json
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "formats" / "crumb_file"))
import crumb_reader  # noqa: E402

QONNX = "qonnx.custom_op.general"
KEY = "crumb.accumulator"
SCALES = {"x": 0.5, "w1": 0.125, "h": 0.25, "w2": 0.25}


def quant(name, value, scale, bits, signed, narrow, inits, zero=0.0):
    for suffix, number in (("_s", scale), ("_z", zero), ("_b", bits)):
        inits.append(nh.from_array(np.array(number, np.float32), name + suffix))
    return h.make_node("Quant", [value, name + "_s", name + "_z", name + "_b"], [name + "_q"], name + "_quant",
                       domain=QONNX, signed=signed, narrow=narrow, rounding_mode="ROUND")


def worst(codes, low, high, bias=None):
    """Largest and least partial sums of each column of codes [K, N]: the terms above zero, and those below."""
    products = np.stack([codes * low, codes * high, 0 * codes])
    most, least = products.max(0).sum(0), products.min(0).sum(0)
    if bias is not None:
        most, least = most + np.maximum(bias, 0), least + np.minimum(bias, 0)
    return most, least


def bits_for(most, least):
    bits = 1
    while not (-(1 << (bits - 1)) <= least and most < (1 << (bits - 1))):
        bits += 1
    return bits


def network(path, certify=True, seed=1, x_zero=0.0, float_input=False):
    """x [N, 24] -> dense 16 (with a bias inside) -> ReLU -> dense 5 (with a bias after): codes, sums and bits of both.
    """
    rng = np.random.default_rng(seed)
    w1, w2 = rng.integers(-7, 8, (24, 16)), rng.integers(-7, 8, (16, 5))
    b1, b2 = rng.integers(-50, 51, 16), rng.normal(size=5).astype(np.float32)
    inits, nodes = [], []
    s = SCALES
    if not float_input:
        nodes += [h.make_node("Relu", ["x"], ["x_r"], "first"), quant("x", "x_r", s["x"], 4, 0, 0, inits, x_zero)]
    for name, codes in (("w1", w1), ("w2", w2)):
        inits.append(nh.from_array((codes * s[name]).astype(np.float32), name))
        nodes.append(quant(name, name, s[name], 4, 1, 1, inits))
    inits.append(nh.from_array((b1 * s["x"] * s["w1"]).astype(np.float32), "b1"))
    nodes.append(quant("b1", "b1", s["x"] * s["w1"], 16, 1, 0, inits))
    inits.append(nh.from_array(b2, "b2"))
    nodes += [
        h.make_node("Gemm", ["x" if float_input else "x_q", "w1_q", "b1_q"], ["p1"], "dense1"),
        h.make_node("Relu", ["p1"], ["r1"], "relu"),
        quant("h", "r1", s["h"], 4, 0, 0, inits),
        h.make_node("MatMul", ["h_q", "w2_q"], ["p2"], "dense2"),
        h.make_node("Add", ["p2", "b2"], ["y"], "bias2"),
    ]
    graph = h.make_graph(nodes, "net", [h.make_tensor_value_info("x", T.FLOAT, [1, 24])],
                         [h.make_tensor_value_info("y", T.FLOAT, [1, 5])], inits)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 13), h.make_opsetid(QONNX, 1)], ir_version=8)
    low = -int(x_zero)
    known = {}
    for name, codes, lo, hi, bias in (("dense1", w1, low, low + 15, b1), ("dense2", w2, 0, 15, None)):
        most, least = worst(codes, lo, hi, bias)
        known[name] = {"input": [lo, hi], "worst_max": int(most.max()), "worst_min": int(least.min()),
                       "bits": max(bits_for(*pair) for pair in zip(most.tolist(), least.tolist(), strict=True)),
                       "worst": [[pair] for pair in zip(most.tolist(), least.tolist(), strict=True)], "codes": codes}
    if certify:
        entry = model.metadata_props.add()
        entry.key = KEY
        entry.value = json.dumps({
            name: {"method": "a2q_plus", "bits": row["bits"], "input": row["input"], "tile": 0,
                   "bias": "inside" if name == "dense1" else "after", "rounding": "toward_zero", "constrained": True,
                   "worst": row["worst"]} for name, row in known.items()})
    onnx.save(model, path)
    return known


def rows_of(done):
    return json.loads(done.stdout)["layers"]


def check(found, known):
    by_name = {row["name"]: row for row in found}
    assert len(found) == len(known)
    for expected, row in zip(known.values(), found, strict=True):
        assert row["input"] == expected["input"]
        assert (row["worst_max"], row["worst_min"]) == (expected["worst_max"], expected["worst_min"])
        assert row["bits_needed"] == expected["bits"]
        assert row["tile"] == 0
    return by_name


@pytest.mark.parametrize("zero", [0.0, 3.0])
def test_sums_are_numpy_s(crumb, tmp_path, zero):
    path = tmp_path / "net.onnx"
    known = network(path, x_zero=zero)
    found = rows_of(crumb("verify", path, "--accumulator", "--json"))
    assert list(check(found, known)) == list(known)
    assert [row["bits_certified"] for row in found] == [row["bits"] for row in known.values()]
    keys = ["name", "input", "bits_needed", "bits_certified", "worst_max", "worst_min", "tile", "assumed", "input_step"]
    assert list(found[0]) == keys and not found[0]["assumed"]
    table = crumb("verify", "--accumulator", path).stdout
    assert "dense1" in table and "inside" in table and "after" in table and "a2q_plus" in table


FORMS = {
    "qonnx": [],
    "integer view": ["--integer-view"],
    "finn": ["--profile", "finn"],
    "hls4ml": ["--profile", "hls4ml"],
    "qcdq": ["--to", "qcdq"],
    "weights as float": ["--to", "qcdq", "--weights-as-float"],
    "native types": ["--to", "qcdq", "--native-types"],
    "opset 17": ["--opset", "17"],
}


@pytest.mark.parametrize("form", FORMS)
def test_certificates_survive_export(crumb, tmp_path, form):
    source, out, packed = tmp_path / "net.onnx", tmp_path / "out.onnx", tmp_path / "net.crumb"
    known = network(source)
    crumb("passes", source, "-o", packed, "tidy")
    flags = FORMS[form] if "--to" in FORMS[form] else ["--to", "qonnx", *FORMS[form]]
    for begin in (source, packed):
        crumb(*(("export", begin, "-o", out) if begin == source else ("convert", begin, out)), *flags)
        found = rows_of(crumb("verify", out, "--accumulator", "--json"))
        check(found, known)
        assert [row["bits_certified"] for row in found] == [row["bits"] for row in known.values()]
        again = tmp_path / "again.crumb"
        crumb("passes", out, "-o", again, "tidy")
        check(rows_of(crumb("verify", again, "--accumulator", "--json")), known)


def test_float_files_claim_nothing(crumb, tmp_path):
    network(tmp_path / "net.onnx")
    crumb("export", tmp_path / "net.onnx", "-o", tmp_path / "out.onnx", "--to", "float")
    assert KEY not in {entry.key for entry in onnx.load(tmp_path / "out.onnx").metadata_props}
    assert rows_of(crumb("verify", tmp_path / "out.onnx", "--accumulator", "--json")) == []


def test_bits_are_asked_of_constrained_layers(crumb, tmp_path):
    path = tmp_path / "net.onnx"
    known = network(path)
    most = max(row["bits"] for row in known.values())
    crumb("verify", path, "--accumulator", most)
    done = crumb("verify", path, "--accumulator", most - 1, status=1)
    assert f"expected at most {most - 1}" in done.stderr and "channel" in done.stderr
    model = onnx.load(path)
    claims = json.loads(model.metadata_props[0].value)
    for claim in claims.values():
        claim["constrained"] = False
    model.metadata_props[0].value = json.dumps(claims)
    onnx.save(model, path)
    crumb("verify", path, "--accumulator", 2)
    network(path, certify=False)  # then every layer counts
    crumb("verify", path, "--accumulator", most)
    crumb("verify", path, "--accumulator", most - 1, status=1)


def test_unknown_inputs_are_null_with_a_reason(crumb, tmp_path):
    path = tmp_path / "net.onnx"
    network(path, certify=False, float_input=True)
    done = crumb("verify", path, "--accumulator", "--json")
    row = rows_of(done)[0]
    assert row["input"] is None and row["bits_needed"] is None and row["worst_max"] is None
    assert "--input-range" in row["reason"]
    crumb("verify", path, "--accumulator", 32, status=1)
    row = rows_of(crumb("verify", path, "--accumulator", 32, "--json", "--input-range", "x=-5:9"))[0]
    assert row["input"] == [-5, 9] and row["assumed"] and "reason" not in row
    assert "-5..9, assumed" in crumb("verify", path, "--accumulator", 32, "--input-range", "x=-5:9").stdout
    model = onnx.load(path)
    note = model.graph.quantization_annotation.add()
    note.tensor_name = "x"
    entry = note.quant_parameter_tensor_names.add()
    entry.key, entry.value = "finn_datatype", "INT3"
    onnx.save(model, path)
    row = rows_of(crumb("verify", path, "--accumulator", "--json", "--input-range", "x=-5:9"))[0]
    assert row["input"] == [-4, 3] and row["assumed"]
    network(path, float_input=True)  # with a certificate
    done = crumb("verify", path, "--accumulator", "--json", status=1)
    assert rows_of(done)[0]["input"] is None and "'dense1'" in done.stderr and "not known" in done.stderr


@pytest.mark.parametrize("flag", ["x", "x=", "x=1", "x=1:", "x=2:1", "x=0:1e3", "=0:1", "y=0:1"])
def test_wrong_ranges_are_usage(crumb, tmp_path, flag):
    network(tmp_path / "net.onnx")
    done = crumb("verify", tmp_path / "net.onnx", "--accumulator", "--input-range", flag, status=2)
    assert "input" in done.stderr


def test_wrong_flags_are_usage(crumb, tmp_path):
    path = tmp_path / "net.onnx"
    network(path)
    crumb("verify", path, "--accumulator", "0", status=2)
    crumb("verify", path, "--accumulator", "many", status=2)
    crumb("verify", path, "--json", status=2)
    crumb("verify", status=2)


def test_malformed_claims_are_refused(crumb, tmp_path):
    path = tmp_path / "net.onnx"
    network(path)
    model = onnx.load(path)
    good = model.metadata_props[0].value
    for bad in ("", "{", "[1]", '{"dense1": 1}', good.replace('"bits": ', '"bits": -'), "[" * 100000, good[:-1]):
        model.metadata_props[0].value = bad
        onnx.save(model, path)
        done = crumb("verify", path, "--accumulator", status=1)
        assert KEY in done.stderr


def tampered(path, change):
    """One blob of a packed file changed, checksums recomputed."""
    data = bytearray(path.read_bytes())
    length = struct.unpack_from("<Q", data, 16)[0]
    header = json.loads(data[64 : 64 + length])
    blob = change(data, header)
    stored = bytes(data[blob["offset"] : blob["offset"] + blob["stored"]])
    text = bytes(data[64 : 64 + length])
    # The offset of a blob is its own: its checksum stands behind it.
    at = text.index(b'"crc32":"' + blob["crc32"].encode(), text.index(b'"offset":', text.index(change.name)))
    text = text[: at + 9] + f"{zlib.crc32(stored):08x}".encode() + text[at + 17 :]
    data[64 : 64 + length] = text
    struct.pack_into("<I", data, 32, zlib.crc32(text))
    struct.pack_into("<I", data, 36, zlib.crc32(bytes(data[:36])))
    path.write_bytes(data)


@pytest.mark.parametrize("seed", range(3))
def test_a_raised_code_is_found_in_a_packed_file(crumb, tmp_path, seed):
    source, path = tmp_path / "net.onnx", tmp_path / "net.crumb"
    known = network(source, seed=seed)
    crumb("passes", source, "-o", path, "tidy")
    crumb("verify", path, "--accumulator")
    name = next(name for name, value in crumb_reader.read(path).items() if value.size == 24 * 16)
    stored = crumb_reader.read(path)[name]
    codes = np.rint(stored / SCALES["w1"]).astype(int)
    assert (np.sort(codes.ravel()) == np.sort(known["dense1"]["codes"].ravel())).all()
    # The channel that goes farthest gets a larger code where it has none above 5.
    channels = codes if codes.shape == (16, 24) else codes.T
    most, least = worst(channels.T, 0, 15)
    channel, column = next((c, k) for c in np.argsort(-(most - least)) for k in range(24) if 0 < channels[c, k] < 6)

    def change(data, header):
        tensor = next(t for t in header["tensors"] if t["name"] == name)
        blob = tensor["codes"]
        assert tensor["shape"] == [16, 24] and tensor["encoding"]["number"] == "int4"
        at = blob["offset"] + (channel * 24 + column) // 2
        shift = 4 * ((channel * 24 + column) % 2)
        assert (data[at] >> shift) & 15 == channels[channel, column]
        data[at] = (data[at] & ~(15 << shift)) | 7 << shift
        return blob

    change.name = b'"name":"' + name.encode()
    tampered(path, change)
    crumb("verify", path)  # sound as a file
    done = crumb("verify", path, "--accumulator", status=1)
    assert "'dense1'" in done.stderr and f"channel {channel}" in done.stderr and "certified" in done.stderr


def test_a_raised_code_is_found_in_an_onnx_file(crumb, tmp_path):
    path = tmp_path / "net.onnx"
    known = network(path)
    model = onnx.load(path)
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == "w2")
    values = nh.to_array(weight).copy()
    most = np.array([pair[0][0] for pair in known["dense2"]["worst"]])
    channel = int(most.argmax())
    row = int(values[:, channel].argmin())
    values[row, channel] = 7 * SCALES["w2"]
    weight.CopyFrom(nh.from_array(values, "w2"))
    onnx.save(model, path)
    done = crumb("verify", path, "--accumulator", "--witness", tmp_path / "w", status=1)
    assert f"'dense2' (MatMul), channel {channel}" in done.stderr
    assert (tmp_path / "w" / "dense2.onnx").is_file()  # what a simulation of registers is to see


def run_qonnx(path, x):
    warnings = pytest.importorskip("warnings")
    warnings.simplefilter("ignore")
    wrapper = pytest.importorskip("qonnx.core.modelwrapper").ModelWrapper(str(path))
    from qonnx.core.onnx_exec import execute_onnx
    from qonnx.transformation.infer_shapes import InferShapes

    return execute_onnx(wrapper.transform(InferShapes()), {"x": x})["y"]


def test_witnesses_reach_the_worst_sums_in_qonnx(crumb, tmp_path):
    path, folder = tmp_path / "net.onnx", tmp_path / "w"
    known = network(path, x_zero=3.0)
    crumb("verify", path, "--accumulator", "--witness", folder)
    files = {file.stem for file in folder.iterdir()}
    assert {"dense1", "dense2"} <= files <= {"dense1", "dense1_min", "dense2"}
    assert sorted(file.name for file in folder.iterdir()) == sorted(f"{n}.{end}" for n in files for end in ("npy", "onnx"))
    reached = {}
    for stem in files:
        name = stem.removesuffix("_min")
        row = known[name]
        x = np.load(folder / f"{stem}.npy")
        low, high = row["input"]
        assert x.min() >= low and x.max() <= high and (x == np.rint(x)).all()
        y = run_qonnx(folder / f"{stem}.onnx", x)
        reached.setdefault(name, set()).update({y.max(), y.min()})
        alone = rows_of(crumb("verify", folder / f"{stem}.onnx", "--accumulator", "--json"))
        assert alone[0]["name"] == name and alone[0]["input"] == row["input"]
    for name, row in known.items():  # a bias that takes one of them further is not in the other's witness
        assert {row["worst_max"], row["worst_min"]} <= reached[name]


@pytest.mark.parametrize("bias", [9, -9])
def test_two_witnesses_where_one_channel_s_bias_is_a_term_of_one_extreme(crumb, tmp_path, bias):
    inits = [nh.from_array(np.array([[1], [-2], [3]], np.float32), "w"), nh.from_array(np.array([bias], np.float32), "b")]
    nodes = [quant("x", "x", 1.0, 3, 1, 0, inits), quant("w", "w", 1.0, 4, 1, 1, inits), quant("b", "b", 1.0, 8, 1, 0, inits),
             h.make_node("Gemm", ["x_q", "w_q", "b_q"], ["y"], "fc")]
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [1, 3])],
                         [h.make_tensor_value_info("y", T.FLOAT, [1, 1])], inits)
    path, folder = tmp_path / "net.onnx", tmp_path / "w"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 13), h.make_opsetid(QONNX, 1)], ir_version=8), path)
    (row,) = rows_of(crumb("verify", path, "--accumulator", "--json", "--witness", folder))
    assert (row["worst_max"], row["worst_min"]) == (4 * 3 + 2 * 4 + max(bias, 0), -4 * 4 - 2 * 3 + min(bias, 0))
    assert sorted(file.name for file in folder.iterdir()) == ["fc.npy", "fc.onnx", "fc_min.npy", "fc_min.onnx"]
    sums = {stem: run_qonnx(folder / f"{stem}.onnx", np.load(folder / f"{stem}.npy")) for stem in ("fc", "fc_min")}
    assert sums["fc"].max() == row["worst_max"] and sums["fc_min"].min() == row["worst_min"]


LAYERS = {
    "conv": dict(op="Conv", x=[1, 4, 5, 5], w=[6, 2, 3, 2], attributes={"group": 2, "strides": [2, 1]}),
    "conv1d": dict(op="Conv", x=[1, 3, 9], w=[2, 3, 4], attributes={"dilations": [2]}),
    "transposed": dict(op="ConvTranspose", x=[1, 4, 5], w=[4, 3, 5], attributes={"strides": [2], "group": 2}),
    "transposed2d": dict(op="ConvTranspose", x=[1, 2, 3, 3], w=[2, 2, 3, 3],
                         attributes={"strides": [2, 3], "dilations": [2, 1], "pads": [1, 1, 1, 1]}),
    "left": dict(op="MatMul", x=[3, 5], w=[4, 3], first=True),
    "batched": dict(op="MatMul", x=[2, 1, 6], w=[2, 6, 3]),
    "vector": dict(op="MatMul", x=[2, 6], w=[6]),
    "gemm": dict(op="Gemm", x=[2, 6], w=[3, 6], attributes={"transB": 1}),
}


@pytest.mark.parametrize("name", LAYERS)
def test_witnesses_of_every_kind_of_layer(crumb, tmp_path, name):
    """The adversary climbs: no input of the layer gives more than is said, and the witness gives just that."""
    layer = LAYERS[name]
    rng = np.random.default_rng(4)
    inits = []
    nodes = [quant("x", "x", 1.0, 3, 1, 0, inits)]
    codes = rng.integers(-7, 8, layer["w"])
    inits.append(nh.from_array(codes.astype(np.float32), "w"))
    nodes.append(quant("w", "w", 1.0, 4, 1, 1, inits))
    operands = ["w_q", "x_q"] if layer.get("first") else ["x_q", "w_q"]
    nodes.append(h.make_node(layer["op"], operands, ["y"], name, **layer.get("attributes", {})))
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, layer["x"])],
                         [h.make_tensor_value_info("y", T.FLOAT, None)], inits)
    path = tmp_path / "layer.onnx"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 13), h.make_opsetid(QONNX, 1)], ir_version=8),
              path)
    row = rows_of(crumb("verify", path, "--accumulator", "--json", "--witness", tmp_path))[0]
    y = run_qonnx(tmp_path / f"{name}.onnx", np.load(tmp_path / f"{name}.npy"))
    assert (y.max(), y.min()) == (row["worst_max"], row["worst_min"])
    # Of the layer itself: for every output, the input that gives the most is known from what each input contributes.
    import onnxruntime

    plain = h.make_graph([h.make_node(layer["op"], [name[:1] for name in operands], ["y"],
                                      **layer.get("attributes", {}))], "g",
                         [h.make_tensor_value_info("x", T.FLOAT, layer["x"])],
                         [h.make_tensor_value_info("y", T.FLOAT, None)],
                         [nh.from_array(codes.astype(np.float32), "w")])
    model = h.make_model(plain, opset_imports=[h.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    size = int(np.prod(layer["x"]))
    unit = np.eye(size, dtype=np.float32)
    jacobian = np.stack([session.run(None, {"x": row.reshape(layer["x"])})[0].ravel() for row in unit])
    most = np.maximum(jacobian * 3, jacobian * -4).sum(0).max()
    least = np.minimum(jacobian * 3, jacobian * -4).sum(0).min()
    assert (most, least) == (row["worst_max"], row["worst_min"])


ZOO = ["TFC_1W1A", "TFC_1W2A", "TFC_2W2A"]


def quantized_by_numpy(model, value, known):
    """The integers of a weight behind Quant or BipolarQuant, and Transposes."""
    makers = {node.output[0]: node for node in model.graph.node}
    node = makers[value]
    if node.op_type == "Transpose":
        return quantized_by_numpy(model, node.input[0], known).T
    number = [known[name] for name in node.input]
    if node.op_type == "BipolarQuant":
        return np.where(number[0] >= 0, 1, -1)
    signed = next(a.i for a in node.attribute if a.name == "signed")
    narrow = next(a.i for a in node.attribute if a.name == "narrow")
    assert signed == 1
    most = 2 ** (number[3].item() - 1) - 1
    return np.clip(np.rint(number[0] / number[1] + number[2]), -most - (1 - narrow), most).astype(int)


@pytest.mark.parametrize("name", ZOO)
def test_networks_of_the_zoo(crumb, networks, tmp_path, name):
    path = networks / f"{name}.onnx"
    model = onnx.load(path)
    known = {tensor.name: nh.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            known[node.output[0]] = nh.to_array(node.attribute[0].t)
    expected = []
    for node in model.graph.node:
        if node.op_type == "MatMul":
            codes = quantized_by_numpy(model, node.input[1], known)
            most, least = worst(codes, -1, 1)  # one or two narrow bits
            expected.append((len(codes), int(most.max()), int(least.min()), bits_for(most.max(), least.min())))
    found = rows_of(crumb("verify", path, "--accumulator", "--json"))
    assert [row["input"] for row in found] == [[-1, 1]] * len(expected)
    assert [(row["worst_max"], row["worst_min"], row["bits_needed"]) for row in found] == [e[1:] for e in expected]
    out = tmp_path / "qcdq.onnx"
    crumb("export", path, "-o", out, "--to", "qcdq")
    again = rows_of(crumb("verify", out, "--accumulator", "--json"))
    assert [{**row, "name": ""} for row in again] == [{**row, "name": ""} for row in found]
