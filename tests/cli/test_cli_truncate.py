"""Average pools that cut off lower bits: what quantize plans, writes, and other programs compute."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

FLAGS = ["--weights", "int8", "--activations", "uint4", "--average-pools", "truncate"]


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def network(path, size=8, pool=None, opset=13, relu=True):
    """Convolution, a pool of 2x2 (or the nodes given, from r to p), convolution, the mean of all places, a dense layer."""
    pool = pool or [h.make_node("AveragePool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2])]
    nodes = [
        h.make_node("Conv", ["x", "a.weight"], ["a"], pads=[1] * 4), h.make_node("Relu" if relu else "Tanh", ["a"], ["r"]),
        *pool, h.make_node("Conv", ["p", "b.weight"], ["b"]), h.make_node("Relu", ["b"], ["s"]),
        h.make_node("GlobalAveragePool", ["s"], ["g"]), h.make_node("Flatten", ["g"], ["f"]),
        h.make_node("Gemm", ["f", "c.weight"], ["y"], transB=1),
    ]  # fmt: skip
    tensors = {"a.weight": floats(4, 2, 3, 3), "b.weight": floats(5, 4, 1, 1, seed=1), "c.weight": floats(3, 5, seed=2)}
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, ["N", 2, size, size])],
                         [h.make_tensor_value_info("y", T.FLOAT, ["N", 3])],
                         [nh.from_array(array, name) for name, array in tensors.items()])  # fmt: skip
    for i, node in enumerate(nodes):
        node.name = f"{node.op_type}_{i}"
    path.write_bytes(h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8).SerializeToString())
    return path


def samples(path, size=8):
    np.save(path, floats(40, 2, size, size, seed=5))
    return path


def parts(model):
    by_output = {n.output[0]: n for n in model.graph.node}
    known = {t.name: nh.to_array(t) for t in model.graph.initializer}
    return by_output, known


@pytest.mark.parametrize("size", [8, 10, 14])
def test_the_sum_of_codes_is_cut_to_the_bits_that_are_wanted(crumb, tmp_path, size):
    model, x, out = network(tmp_path / "m.onnx", size), samples(tmp_path / "x.npy", size), tmp_path / "q.onnx"
    report = json.loads(crumb("quantize", model, "-o", out, *FLAGS, "--data", x, "--json").stdout)
    written = onnx.load(out)
    by_output, known = parts(written)
    cuts = [n for n in written.graph.node if n.op_type == "Trunc"]
    windows = [4, (size // 2) ** 2]
    assert len(cuts) == 2 and not [n for n in written.graph.node if n.op_type == "GlobalAveragePool"]
    scale = {e["value"]: e["scale"] for e in report["activations"]}
    for cut, window, before, after in zip(cuts, windows, ("r", "s"), ("p", "g"), strict=True):
        step, zero, bits, kept = (float(known[i]) for i in cut.input[1:])
        assert bits == 4 + int(np.ceil(np.log2(window))) and kept == 4 and zero == 0
        assert step == np.float32(scale[before])
        assert scale[after] == pytest.approx(step * 2 ** (bits - kept) / window)
        mul = by_output[cut.input[0]]
        assert mul.op_type == "Mul" and known[mul.input[1]] == window and known[mul.input[1]].shape == ()
        assert by_output[mul.input[0]].op_type == "AveragePool"
    # As many activation quantizers as before, less the two.
    plain, recipe = tmp_path / "plain.onnx", tmp_path / "plain.yaml"
    # By a rule, for samples leave in floats what gains too little.
    rule = "{match: {op: [AveragePool, GlobalAveragePool]}, activations: uint4}"
    recipe.write_text(f"version: 1\nweights: int8\nactivations: uint4\nrules:\n  - {rule}\n")
    crumb("quantize", model, "-o", plain, "--recipe", recipe, "--data", x)
    count = {p: sum(n.op_type == "Quant" for n in onnx.load(p).graph.node) for p in (out, plain)}
    assert count[out] == count[plain] - 2
    assert [e.get("truncated_bits") for e in report["activations"] if e["value"] in ("p", "g")] == [
        2, int(np.ceil(np.log2(windows[1])))]  # fmt: skip
    finn = tmp_path / "finn.onnx"
    crumb("quantize", model, "-o", finn, *FLAGS, "--data", x, "--profile", "finn")
    assert json.loads(crumb("lint", finn, "--for", "finn", "--json", status=None).stdout)["findings"] == []


@pytest.mark.parametrize("opset", [13, 18])
def test_what_it_computes_is_the_formula_in_qonnx_and_here(crumb, tmp_path, opset):
    pytest.importorskip("qonnx")
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx

    model, x, out = network(tmp_path / "m.onnx", 14, opset=opset), samples(tmp_path / "x.npy", 14), tmp_path / "q.onnx"
    report = json.loads(crumb("quantize", model, "-o", out, *FLAGS, "--data", x, "--json").stdout)
    crumb("run", out, "--input", x, "--output-dir", tmp_path / "t", "--all-tensors")
    context = execute_onnx(ModelWrapper(str(out)), {"x": np.load(x)[:1]}, return_full_exec_context=True)
    written = onnx.load(out)
    by_output, known = parts(written)
    scale = {e["value"]: e["scale"] for e in report["activations"]}
    for cut in (n for n in written.graph.node if n.op_type == "Trunc"):
        pool = by_output[by_output[cut.input[0]].input[0]]
        step, _, bits, kept = (float(known[i]) for i in cut.input[1:])
        codes = np.rint(context[pool.input[0]].astype(np.float64) / step)
        assert codes.min() >= 0 and codes.max() <= 15
        window = next(a.ints for a in pool.attribute if a.name == "kernel_shape")
        n, c, rows, columns = codes.shape
        sums = codes[:, :, : rows // window[0] * window[0], : columns // window[1] * window[1]]
        sums = sums.reshape(n, c, rows // window[0], window[0], columns // window[1], window[1]).sum((3, 5))
        expected = np.floor(sums / 2 ** (bits - kept)) * step
        np.testing.assert_allclose(context[cut.output[0]], expected, rtol=1e-6)
        taker = next(n for n in written.graph.node if cut.output[0] in n.input)
        if window[0] == 7:  # means again
            assert taker.op_type == "Mul" and known[taker.input[1]] == np.float32(2.0 ** (bits - kept) / 49)
            assert scale["g"] == pytest.approx(step * 2 ** (bits - kept) / 49)
        else:
            assert taker.op_type == "Conv"
    crumb("run", out, "--input", x, "--output", tmp_path / "y.npy")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy")[:1], context["y"], rtol=1e-5, atol=1e-5)


def test_the_layer_behind_it_knows_its_integers(crumb, tmp_path):
    model, x, out = network(tmp_path / "m.onnx", 14), samples(tmp_path / "x.npy", 14), tmp_path / "q.onnx"
    for name in (out, tmp_path / "q.crumb"):
        crumb("quantize", model, "-o", name, *FLAGS, "--data", x)
        layers = json.loads(crumb("verify", name, "--accumulator", "--json").stdout)["layers"]
        assert all(layer["bits_needed"] for layer in layers), layers
        # The mean of 49 codes up to 15: floor(735 / 64) = 11, five of them times at most 127.
        assert layers[-1]["worst_max"] <= 5 * 11 * 127


@pytest.mark.parametrize(
    ("pool", "why"),
    [
        ([h.make_node("AveragePool", ["r"], ["p"], kernel_shape=[3, 3], pads=[1] * 4)], "it pads"),
        ([h.make_node("AveragePool", ["r"], ["q"], kernel_shape=[1, 1]), h.make_node("Add", ["q", "r"], ["p"])],
         "shares a scale"),
        ([h.make_node("Sigmoid", ["r"], ["q"]), h.make_node("AveragePool", ["q"], ["p"], kernel_shape=[2, 2])], None),
    ],
)  # fmt: skip
def test_others_keep_their_quantizer_and_are_named(crumb, tmp_path, pool, why):
    model, x, out = network(tmp_path / "m.onnx", pool=pool), samples(tmp_path / "x.npy"), tmp_path / "q.onnx"
    done = crumb("quantize", model, "-o", out, *FLAGS, "--data", x)
    cuts = sum(n.op_type == "Trunc" for n in onnx.load(out).graph.node)
    assert cuts == (1 if why else 2)
    if why:
        assert "(AveragePool) is not truncated" in done.stdout + done.stderr
        assert why in done.stdout + done.stderr


def test_signed_codes_are_floored(crumb, tmp_path):
    model, x, out = network(tmp_path / "m.onnx", relu=False), samples(tmp_path / "x.npy"), tmp_path / "q.onnx"
    crumb("quantize", model, "-o", out, *FLAGS, "--data", x)
    crumb("run", out, "--input", x, "--output-dir", tmp_path / "t", "--all-tensors")
    by_output, known = parts(onnx.load(out))
    cut = next(n for n in by_output.values() if n.op_type == "Trunc")
    made = np.load(next((tmp_path / "t").glob(f"{cut.output[0]}*.npy"))) / known[cut.input[1]]
    assert made.min() < -1 and np.abs(made - np.rint(made)).max() < 1e-4


def test_words(crumb, tmp_path):
    model = network(tmp_path / "m.onnx")
    refused = crumb("quantize", model, "-o", tmp_path / "q.onnx", *FLAGS[:4], "--average-pools", "cut", status=2)
    assert "--average-pools: expected quantize or truncate, found 'cut'" in refused.stderr
