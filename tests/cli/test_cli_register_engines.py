"""crumb run --accumulator on the runtime, without LibTorch, and on LibTorch's engine: the same numbers and the same words
over drawn networks; certified widths hold, and each layer's witness needs every bit of its own."""

import io
import json
import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh
from test_cli_accumulator_products import KINDS, X, made
from test_cli_run_accumulator import LAYERS, layer_model
from test_cli_verify_accumulator import KEY, QONNX

SLOW = os.environ.get("CRUMB_SLOW", "0") not in ("", "0")
SEEDS = range(30 if SLOW else 12)
F = np.float32


class Drawn:
    """x [N, C, H, W] -> one to three convolutions -> Flatten -> Gemm -> MatMul and Add, with quantizers before each;
    biases inside, after and none; tiles by certificates."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.inits, self.claims, self.count = [], [], {}, 0
        self.shape = [1, int(self.rng.integers(1, 5)), *self.rng.integers(4, 8, 2).tolist()]
        self.input = list(self.shape)
        value = "x"
        for _ in range(self.rng.integers(1, 4)):
            value = self.convolution(value)
        value = self.node("Flatten", [value])
        self.shape = [1, int(np.prod(self.shape[1:]))]
        value = self.gemm(value)
        self.output = self.matmul(value)

    def draws(self, probability):
        return self.rng.random() < probability

    def constant(self, value):
        self.count += 1
        self.inits.append(nh.from_array(np.asarray(value, F), f"c{self.count}"))
        return f"c{self.count}"

    def node(self, op, inputs, domain="", **attributes):
        self.count += 1
        self.nodes.append(h.make_node(op, inputs, [f"v{self.count}"], f"n{self.count}", domain=domain, **attributes))
        return f"v{self.count}"

    def quant(self, value, scale, bits, zero=0, signed=1, narrow=0):
        operands = [value, self.constant(scale), self.constant(zero), self.constant(bits)]
        return self.node("Quant", operands, QONNX, signed=signed, narrow=narrow, rounding_mode="ROUND")

    def activation(self, value):
        self.scale = F(self.rng.uniform(0.05, 0.5)) if self.draws(0.7) else F(0.25)
        bits, signed = int(self.rng.integers(2, 9)), int(self.draws(0.5))
        # Inputs can be 0, so that witnesses reach the worst sums whatever the order of the terms.
        zero = int(self.rng.integers(-2 if signed else 0, 2 if signed else 4)) if self.draws(0.3) else 0
        if self.draws(0.4):
            value = self.node("Relu", [value])
        return self.quant(value, self.scale, bits, zero, signed)

    def weight(self, shape, axis):
        """Quantized by channel or as a whole; its scales."""
        bits = int(self.rng.integers(2, 9))
        most = 2 ** (bits - 1) - 1
        codes = self.rng.integers(-most, most + 1, shape)
        channels = shape[axis] if self.draws(0.6) else 1
        scales = self.rng.uniform(0.01, 0.2, channels).astype(F)
        spread = [1] * len(shape)
        spread[axis] = channels
        self.scales = scales
        return self.quant(self.constant(codes * scales.reshape(spread)), scales.reshape(spread), bits, narrow=1)

    def bias(self, channels, shape):
        """Of codes at the scale of the sums, or of floats; None: there is none."""
        if self.draws(0.3):
            return None
        if self.draws(0.3):
            return self.constant(self.rng.normal(size=shape))
        scales = np.broadcast_to(self.scales, channels) * self.scale
        codes = self.rng.integers(-60, 61, channels)
        return self.quant(self.constant((codes * scales).astype(F).reshape(shape)), scales.reshape(shape), 16)

    def claim(self, value):
        """A certificate for its tiles alone."""
        if self.draws(0.5):
            self.claims[self.nodes[-1].name] = {
                "method": "none", "bits": 32, "input": [0, 1], "tile": int(self.rng.integers(1, 9)), "bias": "none",
                "rounding": "none", "constrained": False, "worst": []}
        return value

    def convolution(self, value):
        rng, x = self.rng, self.activation(value)
        groups = int(rng.choice([g for g in (1, 2, 4) if self.shape[1] % g == 0]))
        outputs = groups * int(rng.integers(1, 4))
        kernel = [int(k) for k in rng.integers(1, 4, 2)]
        strides, dilations = rng.integers(1, 3, 2).tolist(), rng.integers(1, 3, 2).tolist()
        pads = rng.integers(0, 3, 4).tolist()
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        sizes = [s + pads[i] + pads[i + 2] for i, s in enumerate(self.shape[2:])]
        if any(s < r for s, r in zip(sizes, reach, strict=True)):
            kernel, reach = [1, 1], [1, 1]
        operands = [x, self.weight([outputs, self.shape[1] // groups, *kernel], 0)]
        bias = self.bias(outputs, [outputs])
        self.shape = [1, outputs, *((s - r) // t + 1 for s, r, t in zip(sizes, reach, strides, strict=True))]
        return self.claim(self.node("Conv", operands + ([bias] if bias else []), group=groups, strides=strides,
                                    dilations=dilations, pads=pads))

    def gemm(self, value):
        turned, outputs = int(self.draws(0.5)), int(self.rng.integers(1, 7))
        shape = [outputs, self.shape[1]] if turned else [self.shape[1], outputs]
        operands = [self.activation(value), self.weight(shape, 0 if turned else 1)]
        bias = self.bias(outputs, [outputs])
        self.shape = [1, outputs]
        return self.claim(self.node("Gemm", operands + ([bias] if bias else []), transB=turned))

    def matmul(self, value):
        outputs = int(self.rng.integers(1, 7))
        product = self.node("MatMul", [self.activation(value), self.weight([self.shape[1], outputs], 1)])
        self.claim(product)
        bias = self.bias(outputs, [outputs])
        return self.node("Add", [product, bias] if self.draws(0.5) else [bias, product]) if bias else product

    def save(self, path):
        graph = h.make_graph(self.nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, ["n", *self.input[1:]])],
                             [h.make_tensor_value_info(self.output, T.FLOAT, None)], self.inits)
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", 13), h.make_opsetid(QONNX, 1)], ir_version=8)
        if self.claims:
            entry = model.metadata_props.add()
            entry.key, entry.value = KEY, json.dumps(self.claims)
        onnx.save(model, path)

    def samples(self, count):
        return self.rng.normal(size=[count, *self.input[1:]]).astype(F) * F(3)

    def extremes(self, count):
        return self.rng.choice(F([-1000, 0, 1000]), [count, *self.input[1:]])


@pytest.fixture
def run(crumb, tmp_path):
    """run(model, x, flags..., engine="runtime") gives exit code, stderr, and the output's bytes. Without LibTorch."""

    def call(model, x, *flags, engine="runtime"):
        np.save(tmp_path / "in.npy", x)
        out = tmp_path / f"{engine}.npy"
        out.unlink(missing_ok=True)
        environment = dict(os.environ)
        if engine != "libtorch":
            environment["CRUMB_ENGINE"] = str(tmp_path / "no_libtorch.so")
        done = crumb("run", model, "--input", tmp_path / "in.npy", "--output", out, "--engine", engine, *flags,
                     status=None, env=environment)
        return done.returncode, done.stderr, out.read_bytes() if out.exists() else None

    return call


def layers_of(crumb, path, *flags):
    return json.loads(crumb("verify", path, "--accumulator", "--json", *flags, status=None).stdout)["layers"]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("seed", SEEDS)
def test_both_engines_give_the_same_numbers_and_the_same_words(crumb, run, tmp_path, seed):
    network, path = Drawn(seed), tmp_path / "net.onnx"
    network.save(path)
    bits = [row["bits_needed"] for row in layers_of(crumb, path) if row["bits_needed"]]
    x = network.samples(int(network.rng.integers(1, 7)))
    width = int(network.rng.integers(max(2, min(bits) - 5), max(bits) + 1))
    for mode in ("check", ("wrap", "saturate")[seed % 2]):
        flags = ("--accumulator", width, "--overflow", mode)
        ours, theirs = run(path, x, *flags), run(path, x, *flags, engine="libtorch")
        assert ours == theirs
        assert ours[0] in ((0, 1) if mode == "check" else (0,))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "qlinear" not in kind])
def test_both_engines_simulate_the_same_operators(run, tmp_path, kind):
    """Those that only LibTorch has among them, where registers take the place of all of them."""
    path = made(tmp_path / "net.onnx", kind)
    for flags in (("--accumulator", 3, "--overflow", "wrap"), ("--accumulator", 4, "--overflow", "saturate"),
                  ("--accumulator", 3)):
        assert run(path, X, *flags) == run(path, X, *flags, engine="libtorch")


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", LAYERS)
def test_both_engines_simulate_the_same_layers(run, tmp_path, name):
    layer, path = LAYERS[name], tmp_path / "layer.onnx"
    x = np.random.default_rng(8).normal(size=layer["x"]).astype(F)
    for bias_scale in (None, 2**-7) if layer.get("bias") else (None,):
        layer_model(path, layer, bias_scale=bias_scale)
        for width in (5, 40) if layer.get("domain") else (5,):
            flags = ("--accumulator", width, "--overflow", "saturate")
            found = run(path, x, *flags)
            assert found[0] == 0
            assert found == run(path, x, *flags, engine="libtorch")


@pytest.mark.parametrize("seed", SEEDS)
def test_certified_widths_hold_and_witnesses_need_them(crumb, run, tmp_path, seed):
    network, path = Drawn(seed), tmp_path / "net.onnx"
    network.save(path)
    rows = [row for row in layers_of(crumb, path, "--witness", tmp_path / "worst") if row["bits_needed"]]
    assert rows
    enough = max(row["bits_needed"] for row in rows)
    for x in (network.samples(9), network.extremes(9)):
        code, told, _ = run(path, x, "--accumulator", enough, "--overflow", "check")
        assert code == 0 and ": 0 of " in told
    for row in rows:
        fired = 0
        files = sorted((tmp_path / "worst").glob(row["name"] + "*.onnx"))
        files = [file for file in files if file.stem in (row["name"], row["name"] + "_min")]
        assert files
        for witness in files:
            x = np.load(witness.with_suffix(".npy"))
            # A tile's certificate goes with the witness; what it says of widths does not count.
            assert run(witness, x, "--accumulator", row["bits_needed"])[0] == 0
            if row["bits_needed"] == 2:  # the least register
                fired += 1
                continue
            code, told, _ = run(witness, x, "--accumulator", row["bits_needed"] - 1)
            fired += code
            assert code == 0 or f"the accumulator has {row['bits_needed'] - 1}" in told
        assert fired


def test_a_trained_network_s_certificates_hold_over_its_data(crumb, repo, run, tmp_path):
    """Every digit of the data set; every layer's witness needs its width."""
    path = repo / "examples/digits/digits_cnn.crumb"
    rows = layers_of(crumb, path, "--witness", tmp_path / "worst")
    data = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed").load_digits()
    x = data.images.astype(F)[:, None]
    constrained = max(row["bits_certified"] for row in rows[1:-1])
    assert constrained == 12
    enough = max(row["bits_needed"] for row in rows)
    for flags in (("--accumulator", constrained, "--constrained-only"), ("--accumulator", enough)):
        code, told, written = run(path, x, *flags)
        assert code == 0 and ": 0 of " in told
        scores = np.load(io.BytesIO(written))
        assert (scores.argmax(1) == data.target).mean() > 0.99
    narrow = ("--accumulator", constrained - 3, "--constrained-only")
    assert run(path, x, *narrow)[0] == 1
    for row in rows:
        witness = tmp_path / "worst" / (row["name"].replace("/", "_") + ".onnx")
        x = np.load(witness.with_suffix(".npy"))
        assert row["bits_certified"] == row["bits_needed"]
        assert run(witness, x, "--accumulator", row["bits_certified"])[0] == 0
        code, told, _ = run(witness, x, "--accumulator", row["bits_certified"] - 1)
        assert code == 1 and f"layer '{row['name']}'" in told


def test_the_runtime_is_taken_where_it_has_every_operator(crumb, run, tmp_path):
    network, path = Drawn(3), tmp_path / "net.onnx"
    network.save(path)
    x = network.samples(2)
    assert run(path, x, "--accumulator", 40, engine="auto") == run(path, x, "--accumulator", 40)
    requantized = made(tmp_path / "requantized.onnx", "qlinear matmul")
    code, told, _ = run(requantized, X, "--accumulator", 40)
    assert code == 1 and "the runtime has no kernel for node 'it' (QLinearMatMul)" in told
    code, told, _ = run(requantized, X, "--accumulator", 40, engine="auto")
    assert code == 1 and "note: executed on LibTorch: the runtime has no kernel for node 'it'" in told
    assert "cannot be opened" in told


@pytest.mark.usefixtures("engine")
def test_libtorch_is_taken_where_an_operator_is_missing(crumb, tmp_path):
    path = made(tmp_path / "net.onnx", "qlinear matmul")
    np.save(tmp_path / "x.npy", X)
    told = crumb("run", path, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", "--accumulator", 40).stderr
    assert "note: executed on LibTorch: the runtime has no kernel for node 'it' (QLinearMatMul)" in told
    assert "note: 1 layer in accumulators of 40 bits: 0 of " in told
