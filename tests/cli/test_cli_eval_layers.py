"""crumb eval --layers: figures against onnxruntime and NumPy, the same of every form of file; layers that were spoiled on
purpose come first, and what is advised, pasted, helps."""

import json
import random
import shlex

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import load, numpy_helper

SAMPLES = 40


def save(path, nodes, constants, shape, width):
    """A network of x, [N, *shape], that gives y, [N, width]."""
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, ["N", *shape])],
                         [h.make_tensor_value_info("y", T.FLOAT, ["N", width])],
                         [numpy_helper.from_array(value, name) for name, value in constants.items()])  # fmt: skip
    path.write_bytes(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8).SerializeToString())
    return path


def run(path, x, output="y"):
    """What onnxruntime computes, also of a value inside."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = load(path)
    if output != "y":
        model.graph.output.append(h.make_tensor_value_info(output, T.FLOAT, None))
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run([output], {"x": x})[0]


def sqnr(meant, found):
    meant, found = meant.astype(np.float64), found.astype(np.float64)
    return 10 * np.log10((meant**2).sum() / ((meant - found) ** 2).sum())


def layers_of(crumb, model, baseline, x, *flags):
    return json.loads(crumb("eval", model, "--baseline", baseline, "--data", x, "--layers", "--worst", 0, "--json",
                            *flags).stdout)  # fmt: skip


WIDTHS = {"conv": 4, "fc": 3}
RANGES = {"conv": (0.02, 128, np.uint8), "fc": (0.011, 0, np.uint8)}  # scale, zero point: some numbers are cut off


def by_hand(path, quantized, names=True):
    """A convolution, of whose channels one is dead behind its Relu, and a matrix product; those of `quantized` as QuantizeLinear
    and DequantizeLinear make them."""
    rng = np.random.default_rng(5)
    weights = {"conv": rng.standard_normal((6, 2, 3, 3)).astype(np.float32), "fc": rng.standard_normal((7, 96)).astype(np.float32)}
    bias = rng.standard_normal(6).astype(np.float32)
    weights["conv"][2] *= 1e-3
    bias[2] = -1
    nodes, constants, codes = [], {"conv.bias": bias}, {}

    def taken(layer, value):
        if layer not in quantized:
            return value
        scale, zero, kind = RANGES[layer]
        constants[f"{layer}.scale"], constants[f"{layer}.zero"] = np.float32(scale), kind(zero)
        nodes.append(h.make_node("QuantizeLinear", [value, f"{layer}.scale", f"{layer}.zero"], [f"{value}_codes"]))
        nodes.append(h.make_node("DequantizeLinear", [f"{value}_codes", f"{layer}.scale", f"{layer}.zero"], [f"{value}_q"]))
        return f"{value}_q"

    def weight(layer):
        name = f"{layer}.weight" if names or layer not in quantized else f"w{len(layer)}"
        most = 2 ** (WIDTHS[layer] - 1) - 1
        rows = weights[layer].reshape(len(weights[layer]), -1)
        scale = np.abs(rows).max(1) / np.float32(most)
        codes[layer] = np.clip(np.rint(rows / scale[:, None]), -most - 1, most).astype(np.int8)
        if layer not in quantized:
            constants[name] = weights[layer]
            return name
        constants[f"{name}_codes"] = codes[layer].reshape(weights[layer].shape)
        constants[f"{name}_scales"], constants[f"{name}_zeros"] = scale, np.zeros(len(scale), np.int8)
        inputs = [f"{name}_clipped", f"{name}_scales", f"{name}_zeros"]
        constants[f"{name}_least"], constants[f"{name}_most"] = np.int8(-most - 1), np.int8(most)
        nodes.append(h.make_node("Clip", [f"{name}_codes", f"{name}_least", f"{name}_most"], [f"{name}_clipped"]))
        nodes.append(h.make_node("DequantizeLinear", inputs, [name], axis=0))
        return name

    call = {"conv": "conv" if names else "", "fc": "fc" if names else ""}
    nodes.append(h.make_node("Conv", [taken("conv", "x"), weight("conv"), "conv.bias"], ["a"], name=call["conv"]))
    nodes.append(h.make_node("Relu", ["a"], ["b"]))
    nodes.append(h.make_node("Flatten", ["b"], ["c"]))
    nodes.append(h.make_node("Gemm", [taken("fc", "c"), weight("fc")], ["y"], name=call["fc"], transB=1))
    return save(path, nodes, constants, (2, 6, 6), 7), weights, codes


@pytest.mark.parametrize("names", [True, False])
def test_figures_are_those_of_onnxruntime_and_numpy(crumb, tmp_path, names):
    x = np.random.default_rng(9).standard_normal((SAMPLES, 2, 6, 6)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    baseline, weights, codes = by_hand(tmp_path / "float.onnx", set())
    model, _, _ = by_hand(tmp_path / "model.onnx", {"conv", "fc"}, names)
    found = layers_of(crumb, model, baseline, tmp_path / "x.npy")
    layers = {layer["name"].split("@")[0] if names else layer["op"]: layer for layer in found["layers"]}
    layers = {"conv": layers["conv" if names else "Conv"], "fc": layers["fc" if names else "Gemm"]}
    meant = run(baseline, x)
    assert found["layers_on"]["samples"] == SAMPLES
    assert found["layers_on"]["sqnr_db"] == pytest.approx(sqnr(meant, run(model, x)), abs=1e-3)
    alone = []
    for name, layer in layers.items():
        one, _, _ = by_hand(tmp_path / "one.onnx", {name})
        alone.append(sqnr(meant, run(one, x)))
        assert layer["alone_db"] == pytest.approx(alone[-1], abs=1e-3)
        rows = weights[name].reshape(len(weights[name]), -1)
        scale = np.abs(rows).max(1, keepdims=True) / np.float32(2 ** (WIDTHS[name] - 1) - 1)
        assert layer["weights_sqnr_db"] == pytest.approx(sqnr(rows, codes[name] * scale), abs=1e-4)
        assert layer["weights"] == f"int{WIDTHS[name]}:channel" and layer["input"] == "uint8"
        assert layer["constants"] == [f"{name}.weight"]
        value = {"conv": "a", "fc": "y"}[name]
        assert layer["accumulated_db"] == pytest.approx(sqnr(run(baseline, x, value), run(model, x, value)), abs=1e-3)
        taken = x if name == "conv" else run(model, x, "c")
        np.testing.assert_allclose(layer["range"], [taken.min(), taken.max()], rtol=1e-6)
        step, zero, _ = RANGES[name]
        code = np.rint(taken / np.float32(step) + zero)
        assert layer["clipped"] == pytest.approx(100 * ((code < 0) | (code > 255)).mean(), abs=0.02)
        assert layer["clipped"] > 0.1
        least, most = -zero, 255 - zero
        wide = codes[name].astype(np.int64)
        top = np.where(wide > 0, wide * most, wide * least).sum(1).max()
        low = np.where(wide > 0, wide * least, wide * most).sum(1).min()
        assert layer["accumulator_bits"] == max(int(top).bit_length(), int(-low - 1).bit_length()) + 1
        assert layer["register_bits"] == 32
    activated = run(model, x, "b")
    assert layers["conv"]["dead_channels"] == (activated == 0).all((0, 2, 3)).sum() >= 1
    assert (layers["conv"]["channels"], layers["fc"]["channels"]) == (6, 7)
    order = [layer["alone_db"] for layer in found["layers"]]
    np.testing.assert_allclose(order, sorted(alone), atol=1e-3)


class Drawn:
    """A small network of drawn layers, and the names of its weights."""

    def __init__(self, folder, seed):
        self.draw = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants, self.weights = [], {}, []
        self.value, self.width, self.size = "x", self.draw.randint(2, 5), self.draw.choice([5, 6, 8])
        shape = (self.width, self.size, self.size)
        for _ in range(self.draw.randint(1, 3)):
            self.draw.choice([self.conv, self.residual, self.transposed, self.depthwise])()
        self.add("Flatten", [])
        self.width *= self.size * self.size
        for _ in range(self.draw.randint(1, 3)):
            self.draw.choice([self.matmul, self.gemm])(self.draw.randint(6, 12))
        self.nodes[-1].output[0] = "y"
        self.path = save(folder / f"float{seed}.onnx", self.nodes, self.constants, shape, self.width)
        self.x = folder / f"x{seed}.npy"
        np.save(self.x, self.rng.standard_normal((24, *shape)).astype(np.float32))

    def add(self, op, more, **attributes):
        value = f"v{len(self.nodes)}"
        self.nodes.append(h.make_node(op, [self.value, *more], [value], name=f"n{len(self.nodes)}", **attributes))
        self.value = value

    def constant(self, *shape, terms=1, is_weight=True):
        name = f"layer{len(self.weights)}.weight" if is_weight else f"bias{len(self.constants)}"
        self.constants[name] = (self.rng.standard_normal(shape) * (2 / terms) ** 0.5).astype(np.float32)
        if is_weight:
            self.weights.append(name)
        return name

    def conv(self, norm=True):
        out = self.draw.randint(3, 6)
        self.add("Conv", [self.constant(out, self.width, 3, 3, terms=9 * self.width), self.constant(out, is_weight=False)],
                 pads=[1, 1, 1, 1])  # fmt: skip
        self.width = out
        if norm and self.draw.random() < 0.5:
            mean, bias, gain, var = (self.constant(out, is_weight=False) for _ in range(4))
            self.constants[gain], self.constants[var] = (np.abs(self.constants[one]) + 0.5 for one in (gain, var))
            self.add("BatchNormalization", [gain, bias, mean, var])
        self.add("Relu", [])

    def residual(self):
        before = self.value
        self.add("Conv", [self.constant(self.width, self.width, 3, 3, terms=9 * self.width)], pads=[1, 1, 1, 1])
        self.add("Add", [before])

    def transposed(self):
        out = self.draw.randint(3, 6)
        self.add("ConvTranspose", [self.constant(self.width, out, 3, 3, terms=9 * self.width)], pads=[1, 1, 1, 1])
        self.width = out
        self.add("Relu", [])

    def depthwise(self):
        self.add("Conv", [self.constant(self.width, 1, 3, 3, terms=9)], pads=[1, 1, 1, 1], group=self.width)

    def matmul(self, out):
        self.add("MatMul", [self.constant(self.width, out, terms=self.width)])
        self.width = out

    def gemm(self, out):
        self.add("Gemm", [self.constant(out, self.width, terms=self.width), self.constant(out, is_weight=False)], transB=1)
        self.width = out


FEW = ["binary:channel", "int2:tensor"]


@pytest.mark.parametrize("part", range(5))
def test_a_spoiled_layer_comes_first_and_advice_helps(crumb, tmp_path, part):
    """Fifty drawn networks: one layer at one or two bits among eight."""
    for seed in range(part * 10, part * 10 + 10):
        drawn = Drawn(tmp_path, seed)
        spoiled = drawn.draw.choice(drawn.weights)
        flags = ["--weights", "int8:channel", "--method", "rounding", "--data", drawn.x]
        if drawn.draw.random() < 0.5:
            flags += ["--activations", "uint8:tensor"]
        spoil = ["--set", f"{spoiled}={drawn.draw.choice(FEW)}"]
        model = tmp_path / f"model{seed}.crumb"
        crumb("quantize", drawn.path, "-o", model, *flags, *spoil)
        found = layers_of(crumb, model, drawn.path, drawn.x)
        first = found["layers"][0]
        assert first["constants"] == [spoiled], (seed, found["layers"])
        assert sorted(name for layer in found["layers"] for name in layer["constants"]) == sorted(drawn.weights)
        advice = found["advice"][0]
        assert advice["layer"] == first["name"] and advice["gain_db"] > 1, (seed, found["advice"])
        if seed % 2:
            continue
        crumb("quantize", drawn.path, "-o", model, *flags, *spoil, *shlex.split(advice["set"]))
        then = layers_of(crumb, model, drawn.path, drawn.x)["layers_on"]["sqnr_db"]
        assert then > found["layers_on"]["sqnr_db"] + 1
        assert then == pytest.approx(advice["sqnr_db"], abs=3), seed


def test_every_form_of_file_has_the_same_figures(crumb, tmp_path):
    for seed in range(100, 106):
        drawn = Drawn(tmp_path, seed)
        model = tmp_path / "model.crumb"
        crumb("quantize", drawn.path, "-o", model, "--weights", "int4:channel", "--activations", "uint6:tensor", "--data",
              drawn.x)  # fmt: skip
        meant = layers_of(crumb, model, drawn.path, drawn.x)
        assert len(meant["layers"]) == len(drawn.weights) and all("alone_db" in layer for layer in meant["layers"])
        for form in ("qonnx", "qcdq"):
            crumb("export", model, "--to", form, "-o", tmp_path / "model.onnx")
            found = layers_of(crumb, tmp_path / "model.onnx", drawn.path, drawn.x)
            for one, other in zip(found["layers"], meant["layers"], strict=True):
                for key in ("name", "op", "weights", "input", "dead_channels", "accumulator_bits"):
                    assert one.get(key) == other.get(key), (seed, form, key)
                for key in ("weights_sqnr_db", "alone_db", "accumulated_db", "range", "clipped"):
                    assert one.get(key) == pytest.approx(other.get(key), rel=1e-5, abs=1e-3), (seed, form, key)


def two_products(path, names, outputs=("y",), sizes=(4, 6, 3)):
    """x [N, 4] through two matrix products; both results may be outputs."""
    rng = np.random.default_rng(3)
    values = [rng.standard_normal(sizes[i : i + 2]).astype(np.float32) for i in range(2)]
    nodes = [h.make_node("MatMul", ["x", names[0]], ["a"]), h.make_node("Relu", ["a"], ["b"]),
             h.make_node("MatMul", ["b", names[1]], ["y"])]  # fmt: skip
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, ["N", sizes[0]])],
                         [h.make_tensor_value_info(name, T.FLOAT, ["N", None]) for name in outputs],
                         [numpy_helper.from_array(*one) for one in zip(values, names, strict=True)])  # fmt: skip
    path.write_bytes(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8).SerializeToString())
    np.save(path.with_suffix(".npy"), rng.standard_normal((30, sizes[0])).astype(np.float32))
    return path, path.with_suffix(".npy")


@pytest.mark.parametrize("name", ["it's [a] * = b?", "re:x", "a\\b", "$(touch no)`"])
def test_flags_are_pasteable_whatever_the_name(crumb, tmp_path, name):
    baseline, x = two_products(tmp_path / "float.onnx", [name, "other"])
    flags = ["--weights", "binary:channel", "--method", "rounding", "--set", "other=int8"]
    crumb("quantize", baseline, "-o", tmp_path / "m.crumb", *flags)
    found = layers_of(crumb, tmp_path / "m.crumb", baseline, x)
    assert found["layers"][0]["constants"] == [name] and len(found["advice"]) >= 1
    advice = found["advice"][0]["set"]
    crumb("quantize", baseline, "-o", tmp_path / "m.crumb", *flags, *shlex.split(advice))
    then = layers_of(crumb, tmp_path / "m.crumb", baseline, x)
    assert then["layers"][0]["weights_sqnr_db"] is None or then["layers"][0]["weights_sqnr_db"] > 30
    assert then["layers_on"]["sqnr_db"] == pytest.approx(found["advice"][0]["sqnr_db"], abs=0.5)


def test_several_outputs_have_the_mean_of_their_noise(crumb, tmp_path):
    baseline, x = two_products(tmp_path / "float.onnx", ["one", "two"], outputs=("a", "y"))
    crumb("quantize", baseline, "-o", tmp_path / "m.crumb", "--weights", "int3:channel", "--method", "rounding")
    crumb("export", tmp_path / "m.crumb", "--to", "float", "-o", tmp_path / "m.onnx")
    values = {one.name: numpy_helper.to_array(one) for one in load(tmp_path / "m.onnx").graph.initializer}
    floats = {one.name: numpy_helper.to_array(one) for one in load(baseline).graph.initializer}
    found = {layer["constants"][0]: layer["alone_db"] for layer in layers_of(crumb, tmp_path / "m.crumb", baseline, x)["layers"]}

    def outputs(one, two):
        a = np.load(x) @ one
        return a, np.maximum(a, 0) @ two

    meant = outputs(floats["one"], floats["two"])
    for name in found:
        weights = {**floats, name: values[name]}
        shares = [10 ** (-sqnr(m, f) / 10) if (m != f).any() else 0 for m, f in zip(meant, outputs(weights["one"], weights["two"]), strict=True)]
        assert found[name] == pytest.approx(-10 * np.log10(np.mean(shares)), abs=1e-3)


def test_what_cannot_be_measured_is_said(crumb, tmp_path):
    baseline, x = two_products(tmp_path / "float.onnx", ["one", "two"])
    other, _ = two_products(tmp_path / "other.onnx", ["three", "two"], sizes=(4, 5, 3))
    eval_of = ["--baseline", baseline, "--data", x, "--layers", "--worst", 0, "--json"]
    crumb("quantize", other, "-o", tmp_path / "other.crumb", "--weights", "int4:channel", "--method", "rounding")
    done = crumb("eval", tmp_path / "other.crumb", *eval_of)
    assert "has 2 layers that the baseline has not" in done.stderr
    layers = json.loads(done.stdout)["layers"]
    assert [layer["weights"] for layer in layers] == ["int4:channel"] * 2
    assert all("alone_db" not in layer and layer["constants"] == [] and "range" in layer for layer in layers)
    quantization = pytest.importorskip("onnxruntime.quantization")
    quantization.quantize_dynamic(baseline, tmp_path / "dynamic.onnx")
    done = crumb("eval", tmp_path / "dynamic.onnx", *eval_of)
    assert "layers of" in done.stderr and "DynamicQuantizeLinear" in done.stderr
    assert json.loads(done.stdout)["layers"] == []
    done = crumb("eval", baseline, *eval_of)
    assert "has none that are quantized" in done.stderr


def test_weights_that_were_changed_in_floats_are_layers(crumb, tmp_path):
    baseline, x = two_products(tmp_path / "float.onnx", ["one", "two"])
    model = load(baseline)
    [pruned] = [constant for constant in model.graph.initializer if constant.name == "two"]
    values = numpy_helper.to_array(pruned).copy()
    values[np.abs(values) < 0.5] = 0
    pruned.CopyFrom(numpy_helper.from_array(values, "two"))
    (tmp_path / "pruned.onnx").write_bytes(model.SerializeToString())
    found = layers_of(crumb, tmp_path / "pruned.onnx", baseline, x)
    [layer] = found["layers"]
    assert (layer["weights"], layer["input"], layer["constants"]) == ("changed", None, ["two"])
    assert layer["alone_db"] == layer["accumulated_db"] == found["layers_on"]["sqnr_db"]
    [advice] = found["advice"]  # which makes it the baseline
    assert (advice["set"], advice["sqnr_db"]) == ("--set 'two=keep'", None)
