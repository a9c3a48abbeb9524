"""The stage fisher of `crumb quantize`: in every palette's codebook each value is the mean of its weights, weighed by the squared gradients
that PyTorch finds, of the text's next tokens or of results with drawn signs; other stages go on from it; what it cannot do is said."""

import json
import os
import shutil

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.numpy")
helper = onnx.helper
pytestmark = pytest.mark.usefixtures("engine")

# A mean moves by the error of its weights' shares times how far numbers lie apart: float32 backward passes of a few layers are within
# 1e-5 of the largest squared gradient, and numbers within 2 (scales are 1).
BOUND = 1e-5
MASK = (1 << 64) - 1


def split_mix(z):
    z = (z + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def signs(sample, draw, result, count):
    """As qat/squared_gradients.h has them."""
    before = split_mix(split_mix(split_mix(sample) ^ draw) ^ result)
    return torch.tensor([1.0 if split_mix(before ^ i) >> 63 == 0 else -1.0 for i in range(count)], dtype=torch.float64)


def off_means(found, weights, squares):
    """How far values of a codebook are from the weighed means of the weights that have them, of numbers over their scales. Rows are
    outputs, each with the scale that its largest number is 1 by."""
    scale = np.abs(weights).max(1, keepdims=True)
    levels, numbers, importance = found / scale, weights / scale, squares * scale**2
    order = np.argsort(levels, axis=None)
    cells = np.split(order, np.flatnonzero(np.diff(levels.ravel()[order]) > 1e-5) + 1)
    worst = 0
    for cell in cells:
        share = importance.ravel()[cell]
        if share.sum() > 1e-12 * importance.sum():
            worst = max(worst, abs(levels.ravel()[cell].mean() - (share * numbers.ravel()[cell]).sum() / share.sum()))
    return worst, len(cells)


def check(found, weights, squares, bits):
    """The codebook follows the squared gradients, and would be another without them."""
    off, size = off_means(found, weights, squares)
    assert off < BOUND and size <= 2**bits
    flat, _ = off_means(found, weights, np.ones_like(squares))
    assert flat > 10 * BOUND


class Drawn:
    """A network of products and convolutions in drawn order, as ONNX and as torch has it. Matrices lie as the operator wants them;
    `outputs`: the axis of each that outputs lie on."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.outputs, self.steps = [], {}, {}, []
        self.value, self.width = "x", 6
        self.is_image = seed % 2 == 1
        for _ in range(2 if self.is_image else 0):
            self.conv()
        if self.is_image:
            self.add("GlobalAveragePool", [], lambda w, x: x.mean((2, 3), keepdim=True))
            self.add("Flatten", [], lambda w, x: x.flatten(1))
        for kind in self.random.permutation(["matmul", "gemm", "turned", "shared"]):
            getattr(self, kind)()
            self.add("Tanh", [], lambda w, x: x.tanh())

    def weight(self, shape, axis):
        name = f"w{len(self.weights)}"
        # Neither even nor of one mean, so that a codebook has a choice.
        self.weights[name] = self.random.gumbel(size=shape).astype(np.float32)
        self.outputs[name] = axis
        return name

    def add(self, op, weights, step, **attributes):
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.value, *weights], [out], **attributes))
        self.steps.append(step)
        self.value = out

    def conv(self):
        groups, kernel, out = int(self.random.choice([1, 2])), int(self.random.choice([1, 3])), 2 * int(self.random.integers(2, 6))
        w = self.weight((out, self.width // groups, kernel, kernel), 0)
        self.add("Conv", [w], lambda all, x: torch.nn.functional.conv2d(x, all[w], groups=groups, padding=kernel // 2),
                 group=groups, pads=[kernel // 2] * 4)  # fmt: skip
        self.width = out

    def matmul(self):
        w = self.weight((self.width, out := int(self.random.integers(5, 12))), 1)
        self.add("MatMul", [w], lambda all, x: x @ all[w])
        self.width = out

    def gemm(self):
        w = self.weight((self.width, out := int(self.random.integers(5, 12))), 1)
        self.add("Gemm", [w], lambda all, x: x @ all[w])
        self.width = out

    def turned(self):
        w = self.weight((out := int(self.random.integers(5, 12)), self.width), 0)
        self.add("Gemm", [w], lambda all, x: x @ all[w].T, transB=1)
        self.width = out

    def shared(self):
        """One matrix in two layers."""
        w = self.weight((self.width, self.width), 1)
        for _ in range(2):
            self.add("MatMul", [w], lambda all, x: (x @ all[w]))
            self.add("Sigmoid", [], lambda all, x: x.sigmoid())

    def save(self, path):
        shape = ["n", 6, 5, 5] if self.is_image else ["n", 6]
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", 1, shape)],
            [helper.make_tensor_value_info(self.value, 1, ["n", self.width])],
            [onnx.numpy_helper.from_array(w, name) for name, w in self.weights.items()])  # fmt: skip
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
        return path

    def samples(self, count):
        return self.random.standard_normal((count, 6, 5, 5) if self.is_image else (count, 6)).astype(np.float32)

    def squares(self, samples, draws):
        """Of each matrix: the sum over samples of squared gradients."""
        weights = {name: torch.tensor(w, dtype=torch.float64, requires_grad=True) for name, w in self.weights.items()}
        sums = {name: np.zeros(w.shape) for name, w in self.weights.items()}
        for i, sample in enumerate(samples):
            x = torch.tensor(sample[None], dtype=torch.float64)
            for step in self.steps:
                x = step(weights, x)
            for draw in range(draws):
                loss = (x.flatten() * signs(i, draw, 0, x.numel())).sum()
                for name, found in zip(weights, torch.autograd.grad(loss, list(weights.values()), retain_graph=True), strict=True):
                    sums[name] += found.numpy() ** 2 / draws
        return sums

    def rows(self, name, values):
        return np.moveaxis(values, self.outputs[name], 0).reshape(values.shape[self.outputs[name]], -1)


def constants_of(crumb, model, folder):
    """Of a packed graph, in floats."""
    crumb("export", model, "--to", "float", "-o", folder / "floats.onnx")
    return {one.name: onnx.numpy_helper.to_array(one) for one in onnx.load(folder / "floats.onnx").graph.initializer}


@pytest.mark.parametrize("seed", range(8))
def test_palettes_of_graphs_follow_gradients(crumb, tmp_path, seed):
    drawn, draws = Drawn(seed), 1 + seed % 3
    samples = drawn.samples(40)
    np.save(tmp_path / "x.npy", samples)
    report = crumb("quantize", drawn.save(tmp_path / "x.onnx"), "-o", tmp_path / "x.crumb", "--weights", "palette2:channel", "--data",
        tmp_path / "x.npy", "--stages", f"fisher:draws={draws}", "--json")  # fmt: skip
    assert [layer["layer"] for layer in json.loads(report.stdout)["stages"][0]["layers"]] == sorted(drawn.weights)
    found, squares = constants_of(crumb, tmp_path / "x.crumb", tmp_path), drawn.squares(samples, draws)
    for name, weights in drawn.weights.items():
        check(*(drawn.rows(name, values.astype(np.float64)) for values in (found[name], weights, squares[name])), bits=2)
