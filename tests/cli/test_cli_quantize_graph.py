"""crumb quantize of a graph: what lies in the file is what was meant, and the network answers as before."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

DATA = np.random.default_rng(3)


def floats(*shape, scale=1.0):
    return (DATA.standard_normal(shape) * scale).astype(np.float32)


def value(name, *shape, kind=T.FLOAT):
    return h.make_tensor_value_info(name, kind, shape)


def save(path, nodes, inputs, outputs, opset=13, **tensors):
    initializers = [nh.from_array(array, name) for name, array in tensors.items()]
    for i, node in enumerate(nodes):
        node.name = node.name or f"{node.op_type}_{i}"
    graph = h.make_graph(nodes, "g", inputs, outputs, initializers)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path


def cnn(path, batch="N"):
    """Convolutions with batch norm, a residual addition, a concatenation, a pool, a dense layer."""
    c = 8
    tensors = {"stem.weight": floats(c, 3, 3, 3, scale=0.3), "body.weight": floats(c, c, 3, 3, scale=0.15),
               "side.weight": floats(c, c, 1, 1, scale=0.3), "side.bias": floats(c),
               "head.weight": floats(10, 2 * c, scale=0.4), "head.bias": floats(10)}  # fmt: skip
    for name in ("bn1", "bn2"):
        tensors |= {f"{name}.weight": 1 + floats(c, scale=0.1), f"{name}.bias": floats(c, scale=0.2),
                    f"{name}.mean": floats(c, scale=0.1), f"{name}.var": 1 + np.abs(floats(c))}  # fmt: skip

    def bn(name, x, y):
        return h.make_node("BatchNormalization", [x, *(f"{name}.{p}" for p in ("weight", "bias", "mean", "var"))], [y])

    nodes = [
        h.make_node("Conv", ["x", "stem.weight"], ["a"], pads=[1] * 4), bn("bn1", "a", "b"),
        h.make_node("Relu", ["b"], ["c"]),
        h.make_node("Conv", ["c", "body.weight"], ["d"], pads=[1] * 4), bn("bn2", "d", "e"),
        h.make_node("Add", ["e", "c"], ["f"]), h.make_node("Relu", ["f"], ["g"]),
        h.make_node("MaxPool", ["g"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        h.make_node("Conv", ["p", "side.weight", "side.bias"], ["s"]),
        h.make_node("Concat", ["s", "p"], ["t"], axis=1), h.make_node("Relu", ["t"], ["u"]),
        h.make_node("GlobalAveragePool", ["u"], ["v"]), h.make_node("Flatten", ["v"], ["w"]),
        h.make_node("Gemm", ["w", "head.weight", "head.bias"], ["y"], transB=1),
    ]  # fmt: skip
    return save(path, nodes, [value("x", batch, 3, 12, 12)], [value("y", batch, 10)], **tensors)


@pytest.fixture
def images(tmp_path):
    array = floats(70, 3, 12, 12)
    np.save(tmp_path / "x.npy", array)
    return tmp_path / "x.npy"


@pytest.fixture
def quantize(crumb, tmp_path):
    """Quantizes and gives (the report, the model)."""

    def run(model, *options, out="q.onnx"):
        done = crumb("quantize", model, "-o", tmp_path / out, *options, "--json")
        return json.loads(done.stdout), onnx.load(tmp_path / out)

    return run


def constants_of(model):
    return {t.name: nh.to_array(t) for t in model.graph.initializer}


def quantizers(model):
    """Every Quant of the model: (node, its constants by position)."""
    known = constants_of(model)
    return [(n, [known.get(i) for i in n.input]) for n in model.graph.node if n.op_type == "Quant"]


def is_weight(model, node):
    return node.input[0] in constants_of(model)


def activations(model):
    return [(n, c) for n, c in quantizers(model) if not is_weight(model, n)]


def attribute(node, name):
    return next(h.get_attribute_value(a) for a in node.attribute if a.name == name)


def ort_run(path, array):
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: array[i : i + 1]})[0] for i in range(len(array))])


def sqnr(expected, found):
    return 10 * np.log10((expected.astype(np.float64) ** 2).sum() / ((expected - found).astype(np.float64) ** 2).sum())


# --- weights alone: no engine, no data ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "inside", "weight", "axis", "attributes"),
    [
        ("Conv", (1, 4, 9), (6, 4, 3), 0, {}),
        ("Conv", (1, 3, 7, 5), (5, 3, 3, 1), 0, {}),
        ("Conv", (1, 4, 7, 5), (4, 1, 3, 3), 0, {"group": 4}),
        ("ConvTranspose", (1, 3, 5, 5), (3, 7, 2, 2), 1, {}),
        ("ConvTranspose", (1, 4, 5, 5), (4, 3, 2, 2), 1, {"group": 2}),
        ("MatMul", (2, 5), (5, 3), 1, {}),
        ("MatMul", (2, 3, 5), (5, 7), 1, {}),
        ("Gemm", (2, 5), (5, 3), 1, {}),
        ("Gemm", (2, 5), (3, 5), 0, {"transB": 1}),
    ],
)
@pytest.mark.parametrize("bits", [4, 8])
def test_codes_follow_the_output_axis_of_each_operator(quantize, tmp_path, op, inside, weight, axis, attributes, bits):
    w = floats(*weight)
    node = h.make_node(op, ["x", "w"], ["y"], **attributes)
    model = save(tmp_path / "m.onnx", [node], [value("x", *inside)], [value("y", *([None] * len(inside)))], w=w)
    report, made = quantize(model, "--weights", f"int{bits}")
    most = 2 ** (bits - 1) - 1
    scale = np.abs(w).max(axis=tuple(i for i in range(w.ndim) if i != axis), keepdims=True) / np.float32(most)
    codes = np.rint(w / scale)
    (quant, parameters), = quantizers(made)  # fmt: skip
    found = np.rint(parameters[0] / parameters[1])
    if found.shape != codes.shape:
        found = found.T  # Gemm by a transposed weight became MatMul
    np.testing.assert_array_equal(found, codes)
    np.testing.assert_array_equal(parameters[0].reshape(-1).sum(), (found * scale if found is codes else parameters[0]).sum())
    assert attribute(quant, "signed") == 1 and attribute(quant, "narrow") == 1 and parameters[3] == bits
    assert report["weights"][0]["output_axis"] == axis and report["weights"][0]["sqnr_db"] > 10
    assert report["activations"] == [] and report["outputs"] == []


def test_activations_need_data(crumb, tmp_path):
    model = cnn(tmp_path / "m.onnx")
    error = crumb("quantize", model, "-o", tmp_path / "q.onnx", "--scheme", "W8A8", status=2).stderr
    assert "calibration data" in error and "--data" in error and not (tmp_path / "q.onnx").exists()
    # A dry run needs none.
    done = crumb("quantize", model, "--scheme", "W8A8", "--dry-run")
    assert "stem.weight" in done.stdout and "uint8:tensor" in done.stdout and "nothing is written" in done.stdout
    assert "signed twin int8" in done.stderr
    report = json.loads(crumb("quantize", model, "--scheme", "W8A8", "--dry-run", "--json").stdout)
    assert report["dry_run"] and all(row["scale"] is None for row in report["activations"])


def test_results_that_are_no_numbers_are_said(crumb, tmp_path):
    model = onnx.load(cnn(tmp_path / "m.onnx"))
    bias = next(tensor for tensor in model.graph.initializer if len(tensor.dims) == 1)
    values = onnx.numpy_helper.to_array(bias).copy()
    values[0] = np.nan
    bias.CopyFrom(onnx.numpy_helper.from_array(values, bias.name))
    onnx.save(model, tmp_path / "nan.onnx")
    shape = [d.dim_value or 4 for d in model.graph.input[0].type.tensor_type.shape.dim]
    np.save(tmp_path / "x.npy", floats(*shape))
    how = ["quantize", tmp_path / "nan.onnx", "-o", tmp_path / "q.crumb", "--weights", "int8:channel", "--data", tmp_path / "x.npy"]
    said = crumb(*how).stdout
    assert "are inf or NaN, in the float network" in said and "SQNR inf" not in said
    (output,) = json.loads(crumb(*how, "--json").stdout)["outputs"]
    assert output["not_finite"] > 0 and output["sqnr_db"] is None and output["top1"] is None
    np.save(tmp_path / "none.npy", np.zeros([0, *shape[1:]], np.float32))
    for stages in ([], ["--stages", "bias_correction"]):
        said = crumb("quantize", tmp_path / "m.onnx", *how[2:-1], tmp_path / "none.npy", *stages, status=1).stderr
        assert "'none.npy' holds no samples" in said.replace(str(tmp_path) + "/", "") and "[0" in said


def test_wrong_usage(crumb, tmp_path):
    model = cnn(tmp_path / "m.onnx")
    np.savez(tmp_path / "t.npz", w=floats(3, 4))

    def refused(*arguments, status=2):
        return crumb("quantize", *arguments, status=status).stderr

    assert "-o FILE" in refused(model, "--weights", "int8")
    assert ".onnx or .crumb" in refused(model, "-o", tmp_path / "q.bin", "--weights", "int8")
    assert "--to float" in refused(model, "-o", tmp_path / "q.onnx", "--weights", "int8", "--to", "float")
    assert "'qcdq'" in refused(model, "-o", tmp_path / "q.onnx", "--weights", "int8", "--to", "qcqd")
    assert "--tensors-only" in refused(model, "-o", tmp_path / "q.crumb", "--target", "40kB")
    assert "graphs" in refused(tmp_path / "t.npz", "-o", tmp_path / "q.crumb", "--weights", "int8", "--data", "x.npy")
    assert "graphs" in refused(model, "--tensors-only", "-o", tmp_path / "q.crumb", "--weights", "int8", "--to", "qcdq")
    assert "'haed'" in refused(model, "-o", tmp_path / "q.onnx", "--weights", "int8", "--exclude", "haed")
    error = refused(model, "-o", tmp_path / "q.onnx", "--weights", "int4:group=5", status=1)
    assert "'stem.weight'" in error and "27 columns" in error
    assert "not yet" in refused(model, "-o", tmp_path / "q.onnx", "--weights", "int8", "--activations", "int8:channel")
    assert "--weights keep" in refused(model, "-o", tmp_path / "q.onnx", "--activations", "uint8")
    for opset in ("0", "-1"):
        error = refused(model, "-o", tmp_path / "q.onnx", "--weights", "int8", "--opset", opset)
        assert "operator set of ONNX" in error
    error = refused(model, "-o", tmp_path / "q.onnx", "--weights", "int8", "--profile", "onnxruntime")
    assert "qcdq" in error
    assert not any(tmp_path.glob("q.*"))


def test_tensors_only_takes_the_file_for_a_checkpoint(crumb, tmp_path):
    model = cnn(tmp_path / "m.onnx")
    crumb("quantize", model, "--tensors-only", "-o", tmp_path / "q.crumb", "--weights", "int8")
    crumb("verify", tmp_path / "q.crumb")
    error = crumb("quantize", model, "--tensors-only", "-o", tmp_path / "r.crumb", "--scheme", "W8A8", status=2).stderr
    assert "have no operators" in error


def test_tensors_and_networks_are_reported_alike(quantize, crumb, tmp_path, images):
    model = cnn(tmp_path / "m.onnx", "N")
    network, _ = quantize(model, "--scheme", "W8A8", "--data", images)
    tensors = json.loads(crumb("quantize", model, "--tensors-only", "-o", tmp_path / "t.crumb", "--weights", "int8", "--json").stdout)
    assert network["schema"] == tensors["schema"] == 1 and tensors.keys() <= network.keys()
    rows = {row["name"]: row for row in network["tensors"]}
    assert network["weights"] == network["tensors"] and all(tensors["tensors"][0].keys() <= row.keys() for row in rows.values())
    same = [row for row in tensors["tensors"] if row["spec"] and rows.get(row["name"], {}).get("spec") == row["spec"]]
    assert same and all(rows[row["name"]]["bytes"] == row["bytes"] for row in same)
    assert network["input_bytes"] == model.stat().st_size and network["output_bytes"] == (tmp_path / "q.onnx").stat().st_size
    quantized = [row for row in rows.values() if row["spec"]]
    numbers = sum(np.prod(row["shape"]) for row in quantized)
    assert network["bits_per_weight"] == pytest.approx(8 * sum(row["bytes"] for row in quantized) / numbers)
    dry = json.loads(crumb("quantize", model, "--dry-run", "--scheme", "W8A8", "--data", images, "--json").stdout)
    assert dry["output_bytes"] is None and dry["bits_per_weight"] == pytest.approx(network["bits_per_weight"])
    assert all(row["sqnr_db"] is None for row in dry["tensors"])


# --- with calibration data -------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def without_libtorch(monkeypatch):
    """Samples run on the runtime: nothing here needs the engine."""
    monkeypatch.setenv("CRUMB_ENGINE", "/nowhere/libcrumb_engine.so")


@pytest.mark.parametrize("batch", ["N", 1, 4])
@pytest.mark.parametrize("norm", ["fold", "keep"])
def test_a_network_answers_as_before(quantize, crumb, tmp_path, images, batch, norm):
    model = cnn(tmp_path / "m.onnx", batch)
    report, made = quantize(model, "--scheme", "W8A8", "--data", images, "--batch-norm", norm)
    output, = report["outputs"]  # fmt: skip
    assert output["sqnr_db"] > 25 and output["top1"] >= 0.9
    folded = not any(n.op_type in ("BatchNormalization", "Mul") for n in made.graph.node)
    assert folded == (norm == "fold")
    # Every edge that is asked for has one quantizer: x, the first relu, what is added to it, ...
    values = [row["value"] for row in report["activations"]]
    assert len(values) == len(set(values)) == len(activations(made))
    assert [row["value"] for row in report["activations"] if not row["signed_twin"]] == ["c", "g", "u", "v"]
    producers = {o: n.op_type for n in made.graph.node for o in n.output}
    for node, constants in activations(made):
        assert producers.get(node.input[0]) not in ("Quant", "MaxPool", "Reshape", "Flatten")
        assert constants[1].shape == () and constants[2] == 0 and constants[3] == 8
        assert attribute(node, "signed") == (producers.get(node.input[0]) not in ("Relu", "GlobalAveragePool"))
    # The file in qonnx's own executor.
    pytest.importorskip("qonnx")
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx

    wrapper = ModelWrapper(str(tmp_path / "q.onnx"))
    array = np.load(images)[:4]
    shape = wrapper.get_tensor_shape(made.graph.input[0].name)
    found = np.concatenate([
        list(execute_onnx(wrapper, {made.graph.input[0].name: array[i : i + shape[0]]}).values())[0]
        for i in range(0, 4, shape[0])
    ])  # fmt: skip
    assert sqnr(ort_run(cnn_fixed(model, tmp_path), array), found) > 22


def cnn_fixed(model, folder):
    """The same network for one sample at a time."""
    proto = onnx.load(model)
    for v in (*proto.graph.input, *proto.graph.output):
        v.type.tensor_type.shape.dim[0].dim_value = 1
    onnx.save(proto, folder / "one.onnx")
    return folder / "one.onnx"


def test_what_is_added_or_joined_shares_one_scale(quantize, tmp_path, images):
    """Of a concatenation where it is for an FPGA, which keeps every edge as integers; else samples decide
    (tests/graph/quantize/placement_test.cpp)."""
    options = [cnn(tmp_path / "m.onnx", 1), "--scheme", "W8A8", "--data", images, "--profile"]
    rows = {row["value"]: row for row in quantize(*options, "finn")[0]["activations"]}
    assert rows["g"]["scale"] == rows["s"]["scale"] != rows["c"]["scale"]
    report, made = quantize(*options, "qonnx")
    rows = {row["value"]: row for row in report["activations"]}
    assert rows["c"]["scale"] == rows["e"]["scale"] and rows["c"]["scale_group"] == rows["e"]["scale_group"]
    scale_of = {n.output[0]: float(c[1]) for n, c in activations(made)}
    add = [n for n in made.graph.node if n.op_type == "Add" and all(i in scale_of for i in n.input)]
    assert len(add) == 1 and len({scale_of[i] for i in add[0].input}) == 1


def test_lint_takes_what_finn_and_qonnx_are_given(crumb, tmp_path, images):
    model = cnn(tmp_path / "m.onnx", 1)
    for profile in ("qonnx", "finn"):
        out = tmp_path / f"{profile}.onnx"
        crumb("quantize", model, "-o", out, "--scheme", "W8A8", "--data", images, "--profile", profile)
        done = crumb("lint", out, "--for", "qonnx", "--json", status=None)
        assert json.loads(done.stdout)["findings"] == []


def test_qcdq_runs_in_onnxruntime(quantize, tmp_path, images):
    model = cnn(tmp_path / "m.onnx", 1)
    report, _ = quantize(model, "--scheme", "W8A8", "--data", images, "--to", "qcdq")
    array = np.load(images)
    expected, found = ort_run(model, array), ort_run(tmp_path / "q.onnx", array)
    assert abs(sqnr(expected, found) - report["outputs"][0]["sqnr_db"]) < 1
    assert (expected.argmax(1) == found.argmax(1)).mean() >= 0.9


def test_threads_and_pieces_change_nothing(crumb, tmp_path, images):
    model = cnn(tmp_path / "m.onnx", 1)
    found = []
    for i, threads in enumerate((1, 2, 3)):
        crumb("quantize", model, "-o", tmp_path / f"{i}.onnx", "--weights", "int4:channel:search=mse", "--activations",
              "uint4:search=mse", "--data", images, "--threads", threads)  # fmt: skip
        found.append((tmp_path / f"{i}.onnx").read_bytes())
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    "spec", ["uint8", "int8", "uint4:search=percentile=99", "uint8:search=ema", "int6:search=mse", "uint8:zero=int",
             "uint8:scale=e8m0", "e4m3fn", "int8:range=full"]
)  # fmt: skip
def test_every_kind_of_activations(quantize, tmp_path, images, spec):
    report, made = quantize(cnn(tmp_path / "m.onnx", 1), "--weights", "int8", "--activations", spec, "--data", images)
    assert report["outputs"][0]["sqnr_db"] > 12
    for row in report["activations"]:
        assert row["scale"] > 0 and row["min"] < row["max"] and 0 <= row["saturated"] < 0.1
        if "e8m0" in spec:
            assert np.log2(row["scale"]) == round(np.log2(row["scale"]))
        if spec.startswith("int"):
            assert not row["signed_twin"] and row["spec"].startswith("int")
        if "zero=int" in spec:
            assert row["spec"].startswith("uint8") and row["zero_point"] == round(row["zero_point"])


def test_ranges_come_from_the_data(quantize, tmp_path):
    """Calibration that sees half of what is to come, and one that is biased."""
    w = np.eye(4, dtype=np.float32)
    nodes = [h.make_node("MatMul", ["x", "w"], ["m"]), h.make_node("Relu", ["m"], ["r"]),
             h.make_node("MatMul", ["r", "w"], ["y"])]  # fmt: skip
    model = save(tmp_path / "m.onnx", nodes, [value("x", "N", 4)], [value("y", "N", 4)], w=w)
    array = np.linspace(-3, 5, 41 * 4, dtype=np.float32).reshape(41, 4)
    np.save(tmp_path / "x.npy", array)
    report, _ = quantize(model, "--weights", "keep", "--activations", "uint8", "--data", tmp_path / "x.npy")
    x, r = report["activations"]
    assert (x["min"], x["max"], r["min"], r["max"]) == (-3, 5, 0, 5)
    # Lopsided values have a zero point, by which 8 / 255 is a step, not 10 / 254; those from 0 on need none.
    assert x["spec"] == "uint8:tensor:zero=int" and x["scale"] == np.float32(8) / np.float32(255) and x["zero_point"] == 96
    assert r["spec"] == "uint8:tensor" and r["scale"] == np.float32(5) / np.float32(255)
    assert x["saturated"] == r["saturated"] == 0
    np.save(tmp_path / "x.npy", np.concatenate([array, np.full((1, 4), 50, np.float32)]))
    report, _ = quantize(model, "--weights", "keep", "--activations", "uint8:search=percentile=90", "--data",
                         tmp_path / "x.npy")  # fmt: skip
    assert report["activations"][0]["scale"] < 5 / 127 and report["activations"][0]["saturated"] > 0.05
    # An unsigned input is taken as it is, and what that costs is said.
    report, _ = quantize(model, "--weights", "keep", "--inputs", "uint8", "--data", tmp_path / "x.npy")
    assert [row["spec"] for row in report["activations"]] == ["uint8:tensor"]
    assert any("'x' goes down to -3" in note for note in report["notes"])


def test_data_from_folders_and_single_samples(quantize, crumb, tmp_path, images):
    model = cnn(tmp_path / "m.onnx")
    array = np.load(images)
    (tmp_path / "parts").mkdir()
    np.save(tmp_path / "parts/b.npy", array[40:])
    np.save(tmp_path / "parts/a.npy", array[:39])
    np.save(tmp_path / "parts/a2.npy", array[39])  # one sample, without a batch axis
    whole, _ = quantize(model, "--scheme", "W8A8", "--data", images)
    parts, _ = quantize(model, "--scheme", "W8A8", "--data", tmp_path / "parts")
    named, _ = quantize(model, "--scheme", "W8A8", "--data", f"x={tmp_path / 'parts'}")
    for report in (parts, named):
        assert report["activations"] == whole["activations"]
    (tmp_path / "empty").mkdir()
    error = crumb("quantize", model, "-o", tmp_path / "e.onnx", "--scheme", "W8A8", "--data", tmp_path / "empty",
                  status=1).stderr  # fmt: skip
    assert "no .npy" in error
    np.save(tmp_path / "odd.npy", floats(2, 3, 11, 12))
    error = crumb("quantize", model, "-o", tmp_path / "e.onnx", "--scheme", "W8A8", "--data", tmp_path / "odd.npy",
                  status=1).stderr  # fmt: skip
    assert "'x'" in error and "odd.npy" in error and "[2, 3, 11, 12]" in error
    error = crumb("quantize", model, "-o", tmp_path / "e.onnx", "--scheme", "W8A8", "--data", "z=odd.npy",
                  status=2).stderr  # fmt: skip
    assert "'z'" in error and "'x'" in error
    assert not (tmp_path / "e.onnx").exists()


def test_several_inputs(quantize, crumb, tmp_path):
    nodes = [h.make_node("MatMul", ["a", "w"], ["p"]), h.make_node("MatMul", ["b", "w"], ["q"]),
             h.make_node("Add", ["p", "q"], ["y"])]  # fmt: skip
    model = save(tmp_path / "m.onnx", nodes, [value("a", "N", 5), value("b", "N", 5)], [value("y", "N", 3)],
                 w=floats(5, 3))  # fmt: skip
    np.save(tmp_path / "a.npy", floats(9, 5))
    np.save(tmp_path / "b.npy", floats(9, 5, scale=10))
    report, made = quantize(model, "--scheme", "W8A8", "--data", f"a={tmp_path / 'a.npy'}", "--data",
                            f"b={tmp_path / 'b.npy'}")  # fmt: skip
    rows = {row["value"]: row for row in report["activations"]}
    assert rows["b"]["scale"] > 3 * rows["a"]["scale"]
    assert rows.keys() == {"a", "b"}  # no integers go on behind the sum
    error = crumb("quantize", model, "-o", tmp_path / "e.onnx", "--scheme", "W8A8", "--data", tmp_path / "a.npy",
                  status=2).stderr  # fmt: skip
    assert "NAME=FILE.npy" in error
    error = crumb("quantize", model, "-o", tmp_path / "e.onnx", "--scheme", "W8A8", "--data", f"a={tmp_path / 'a.npy'}",
                  status=2).stderr  # fmt: skip
    assert "'b'" in error


def test_biases_at_the_scale_of_input_and_weight(quantize, tmp_path, images):
    report, made = quantize(cnn(tmp_path / "m.onnx", 1), "--scheme", "W8A8", "--biases", "int32", "--data", images)
    assert sorted(row["name"] for row in report["biases"] if not row["name"].startswith("a")) != []
    assert report["outputs"][0]["sqnr_db"] > 25
    biases = [(n, c) for n, c in quantizers(made) if is_weight(made, n) and c[3] == 32]
    assert len(biases) == len(report["biases"]) == 4
    for _, (values, scale, zero, _) in biases:
        codes = values / scale
        np.testing.assert_allclose(codes, np.rint(codes), atol=1e-3 * max(1, np.abs(codes).max()) / 1000)
        assert zero == 0


def test_biases_of_convolutions_for_finn(quantize, crumb, tmp_path, images):
    """Their quantizers make columns themselves: FINN takes no Reshape behind a quantizer of constants."""
    quantize(cnn(tmp_path / "m.onnx", 1), "--weights", "int4", "--activations", "uint4", "--biases", "int32",
             "--data", images, "--profile", "finn")  # fmt: skip
    found = json.loads(crumb("lint", tmp_path / "q.onnx", "--for", "finn", "--json").stdout)
    assert found["findings"] == []


def test_a_rule_by_operator(quantize, tmp_path, images):
    (tmp_path / "r.yaml").write_text("""
weights: int8
activations: uint8
rules:
  - {match: {op: Conv}, weights: int4}
  - {match: {name: [stem, head]}, weights: int8}
  - {match: {op: GlobalAveragePool}, activations: keep}
  - {match: {op: Relu}, activations: uint4}
""")
    report, made = quantize(cnn(tmp_path / "m.onnx", 1), "--recipe", tmp_path / "r.yaml", "--data", images)
    specs = {row["name"]: row["spec"] for row in report["weights"] if row["spec"]}
    assert specs == {"stem.weight": "int8:channel", "head.weight": "int8:channel", "body.weight": "int4:channel",
                     "side.weight": "int4:channel"}  # fmt: skip
    found = {row["value"]: row["spec"] for row in report["activations"]}
    free = {"e": "int8:tensor", "s": "int8:tensor"}  # of a sum and a concatenation: samples decide
    assert {**free, **found} == {**free, "x": "int8:tensor", "c": "uint4:tensor", "g": "uint4:tensor", "u": "uint4:tensor",
                                 "v": "uint8:tensor"}  # fmt: skip


# --- networks that others made ---------------------------------------------------------------------------------------


def test_the_mnist_network(quantize, crumb, networks, tmp_path):
    model = networks / "mnist_conv_float.onnx"
    proto = onnx.load(model)
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    tensor = onnx.TensorProto()
    tensor.ParseFromString((networks / "mnist_conv_float.input_0.pb").read_bytes())
    sample = nh.to_array(tensor)
    noise = np.random.default_rng(1).uniform(-20, 20, (15, *sample.shape[1:])).astype(np.float32)
    np.save(tmp_path / "x.npy", np.concatenate([sample, np.clip(sample + noise, 0, 255)]).reshape(-1, *shape[1:]))
    for scheme, least in (("W8A8", 30), ("W4A8", 10)):
        report, made = quantize(model, "--scheme", scheme, "--data", tmp_path / "x.npy")
        assert report["outputs"][0]["sqnr_db"] > least and report["outputs"][0]["top1"] == 1
    weights = [row for row in report["weights"] if row["spec"]]
    assert [row["output_axis"] for row in weights if "Conv" in row["node"]] == [0, 0]


@pytest.mark.parametrize("name", ["espcn_subpixel_float", "espcn_nn_resize_float"])
def test_super_resolution(quantize, networks, tmp_path, name):
    tensor = onnx.TensorProto()
    tensor.ParseFromString((networks / "espcn_input_0.pb").read_bytes())
    image = nh.to_array(tensor)
    shape = [d.dim_value for d in onnx.load(networks / f"{name}.onnx").graph.input[0].type.tensor_type.shape.dim]
    height, width = (size or 32 for size in shape[2:])  # its pieces, as large as the network takes
    pieces = [image[:, :, i : i + height, j : j + width] for i in range(0, 97, 32) for j in range(0, 97, 32)]
    np.save(tmp_path / "x.npy", np.concatenate(pieces if height <= 32 else [image]))
    report, made = quantize(networks / f"{name}.onnx", "--scheme", "W8A8", "--data", tmp_path / "x.npy")
    assert report["outputs"][0]["sqnr_db"] > 25
    codes = {row["name"]: row for row in report["weights"] if row["spec"]}
    assert len(codes) >= 3 and all(row["sqnr_db"] > 30 for row in codes.values())


def test_a_network_that_torch_exports(quantize, tmp_path):
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
            self.bn = torch.nn.BatchNorm2d(8)
            self.depth = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)
            self.mix = torch.nn.Conv2d(16, 8, 1)
            self.fc = torch.nn.Linear(8, 5)

        def forward(self, x):
            a = torch.relu(self.bn(self.conv(x)))
            b = a + self.depth(a)
            c = torch.nn.functional.hardtanh(self.mix(torch.cat([a, b], 1)), 0, 6)
            return self.fc(c.mean((2, 3)))

    torch.manual_seed(0)
    net = Net().eval()
    torch.onnx.export(net, (torch.randn(2, 3, 9, 7),), tmp_path / "m.onnx", input_names=["x"], dynamo=False,
                      dynamic_axes={"x": {0: "batch"}}, opset_version=17)  # fmt: skip
    np.save(tmp_path / "x.npy", torch.randn(33, 3, 9, 7).numpy())
    report, made = quantize(tmp_path / "m.onnx", "--scheme", "W8A8", "--data", tmp_path / "x.npy")
    assert report["outputs"][0]["sqnr_db"] > 25
    assert len(activations(made)) == len(report["activations"])
    assert sum(row["spec"] is not None for row in report["weights"]) == 4


def test_the_residual_sums_of_a_transformer_with_open_sizes(quantize, crumb, tmp_path):
    """Inference names the size of a branch anew behind Shape and Reshape."""
    torch = pytest.importorskip("torch")

    torch.manual_seed(0)
    net = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    sizes = [{0: torch.export.Dim("batch")}]
    torch.onnx.export(net, (torch.randn(8, 6, 32),), tmp_path / "m.onnx", dynamo=True, dynamic_shapes=sizes)
    np.save(tmp_path / "x.npy", torch.randn(8, 6, 32).numpy())
    options = [tmp_path / "m.onnx", "--scheme", "W8A8", "--data", tmp_path / "x.npy"]

    def sums(report):
        return [row for row in report["activations"] if "(Add)" in str(row)]

    everywhere = json.loads(crumb("quantize", *options, "--profile", "finn", "--dry-run", "--json").stdout)
    assert len(sums(everywhere)) == 2, everywhere["activations"]
    report, _ = quantize(*options)
    assert not sums(report)  # norms are behind them, which compute in floats
    assert report["outputs"][0]["sqnr_db"] > 20


# --- a packed file ---------------------------------------------------------------------------------------------------


def test_a_packed_file_holds_the_same_integers(crumb, tmp_path, images):
    model = cnn(tmp_path / "m.onnx", 1)
    options = ["--weights", "int4:channel", "--activations", "uint8", "--data", images]
    crumb("quantize", model, "-o", tmp_path / "q.crumb", *options)
    crumb("verify", tmp_path / "q.crumb")
    crumb("quantize", model, "-o", tmp_path / "q.onnx", *options)
    report = json.loads(crumb("inspect", tmp_path / "q.crumb", "--json").stdout)
    specs = {row["name"]: row["spec"] for row in report["tensors"] if row["spec"]}
    assert specs == {f"{name}.weight": "int4:channel" for name in ("stem", "body", "side", "head")}


SPECS = ["int4:group=4", "uint4:group=8", "int4:group=8:zero=int", "e2m1:group=4", "int2h:group=8", "int3:channel", "int4:tensor", "e3m2:channel",
         "int4:group=5:pad", "ternary:group=4"]  # fmt: skip


@pytest.mark.parametrize("name", ["MatMul", "Gemm", "Conv"])
@pytest.mark.parametrize("to", ["qonnx", "qcdq"])
def test_a_graph_goes_straight_into_onnx_by_any_spec(crumb, tmp_path, name, to):
    """The file that the packed one is exported as, byte for byte, though nobody said shapes of its constants; which both run alike."""
    nodes, weight, shape = {"MatMul": ([h.make_node("MatMul", ["x", "w"], ["y"])], floats(16, 6), (16,)),
                            "Gemm": ([h.make_node("Gemm", ["x", "w"], ["y"], transB=1)], floats(6, 16), (16,)),
                            "Conv": ([h.make_node("Conv", ["x", "w"], ["y"])], floats(6, 8, 1, 1), (8, 3, 3))}[name]  # fmt: skip
    out = (6,) if name != "Conv" else (6, 3, 3)
    save(tmp_path / "m.onnx", nodes, [value("x", "N", *shape)], [value("y", "N", *out)], opset=21, w=weight)
    np.save(tmp_path / "x.npy", floats(5, *shape))
    for spec in SPECS:
        if to == "qcdq" and not spec.startswith(("int3", "int4", "uint4", "ternary")):
            continue
        flags = ["--weights", spec, *(["--opset", 21] if to == "qcdq" else [])]
        straight = crumb("quantize", tmp_path / "m.onnx", "-o", tmp_path / "a.onnx", "--to", to, *flags)
        assert straight.returncode == 0
        crumb("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.crumb", "--weights", spec)
        crumb("export", tmp_path / "q.crumb", "-o", tmp_path / "b.onnx", "--to", to, *flags[2:])
        given = []
        for file in ("a.onnx", "b.onnx", "q.crumb"):
            crumb("run", tmp_path / file, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
            given.append(np.load(tmp_path / "y.npy"))
        assert np.array_equal(given[0], given[1]) and np.allclose(given[0], given[2], rtol=1e-5, atol=1e-6), spec
