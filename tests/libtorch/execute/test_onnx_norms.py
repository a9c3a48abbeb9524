"""Normalizations and losses against onnxruntime and LibTorch: versions, types, axes, optional outputs."""

import numpy as np
import pytest
from layer_oracle import add_by_ort, check_near
from node_cases import Cases, node_model


def normal(rng, *shape, dtype=np.float32):
    return rng.normal(size=shape).astype(dtype)


def test_batch_normalization(tmp_path):
    rng = np.random.default_rng(1)
    cases = Cases(tmp_path)
    for shape in [(3, 4), (2, 4, 5), (2, 4, 3, 2), (2, 4, 2, 3, 2)]:
        x, *four = normal(rng, *shape), *[normal(rng, 4) for _ in range(3)], rng.random(4).astype(np.float32)
        for opset in (7, 9, 14, 15):
            add_by_ort(cases, "BatchNormalization", [x, *four], opset=opset, epsilon=1e-3)
        if len(shape) > 2:
            add_by_ort(cases, "BatchNormalization", [x, *four], opset=15, outputs=3, training_mode=1, momentum=0.7)
    check_near(cases, 1e-5)


def test_batch_normalization_of_features(tmp_path):
    """spatial = 0, before operator set 9: statistics for each feature of a sample; and training's five outputs."""
    rng = np.random.default_rng(2)
    cases = Cases(tmp_path)
    x = normal(rng, 3, 2, 4)
    scale, bias, mean, var = normal(rng, 2, 4), normal(rng, 2, 4), normal(rng, 2, 4), rng.random((2, 4), np.float32)
    model = node_model("BatchNormalization", [x, scale, bias, mean, var], opset=7, spatial=0)
    cases.add(model, [x, scale, bias, mean, var], [(x - mean) / np.sqrt(var + 1e-5) * scale + bias])
    own, spread = x.mean(axis=0), x.var(axis=0)
    y = (x - own) / np.sqrt(spread + 1e-5) * scale + bias
    five = [y, mean * 0.8 + own * 0.2, var * 0.8 + spread * 0.2, own, spread]
    model = node_model("BatchNormalization", [x, scale, bias, mean, var], opset=7, outputs=5, spatial=0, momentum=0.8)
    cases.add(model, [x, scale, bias, mean, var], [v.astype(np.float32) for v in five])
    check_near(cases, 1e-5)


def test_layer_and_rms_normalization(tmp_path):
    rng = np.random.default_rng(3)
    cases = Cases(tmp_path)
    for axis in (-1, 1, 0, -2):
        x = normal(rng, 3, 4, 5)
        inner = x.shape[axis:] if axis else x.shape
        scale, bias = normal(rng, *inner), normal(rng, *inner)
        add_by_ort(cases, "LayerNormalization", [x, scale, bias], opset=17, outputs=3, axis=axis)
        add_by_ort(cases, "LayerNormalization", [x, scale], opset=17, outputs=1, axis=axis, epsilon=0.1)
        add_by_ort(cases, "RMSNormalization", [x, scale], opset=23, axis=axis)
        # A scale for the last axis alone is broadcast.
        last = normal(rng, 5)
        over = tuple(range(axis % 3, 3))
        mean, var = x.mean(axis=over, keepdims=True), x.var(axis=over, keepdims=True)
        y = (x - mean) / np.sqrt(var + 1e-5) * last
        cases.add(node_model("LayerNormalization", [x, last], opset=17, axis=axis), [x, last], [y], "broadcast")
    for dtype in (np.float16, np.float64):
        x, scale = normal(rng, 2, 6, dtype=dtype), normal(rng, 6, dtype=dtype)
        wide = x.astype(np.float64)
        mean, var = wide.mean(-1, keepdims=True), wide.var(-1, keepdims=True)
        y = ((wide - mean) / np.sqrt(var + 1e-5) * scale).astype(dtype)
        outputs = [y, mean.astype(np.float32), (1 / np.sqrt(var + 1e-5)).astype(np.float32)]
        cases.add(node_model("LayerNormalization", [x, scale], opset=17, outputs=3), [x, scale], outputs, str(dtype))
    check_near(cases, 1e-5)


def test_other_normalizations(tmp_path):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    cases = Cases(tmp_path)
    for shape in [(2, 6, 4), (2, 6, 3, 4)]:
        x, scale, bias = normal(rng, *shape), normal(rng, 6), normal(rng, 6)
        add_by_ort(cases, "InstanceNormalization", [x, scale, bias], opset=6)
        for groups in (1, 2, 6):
            for opset, each in ((18, 6 // groups), (21, 1)):
                s, b = (scale, bias) if each == 1 else (scale[:groups], bias[:groups])
                spread = [torch.tensor(np.repeat(values, each)) for values in (s, b)]
                y = torch.group_norm(torch.tensor(x), groups, *spread)
                model = node_model("GroupNormalization", [x, s, b], opset=opset, num_groups=groups)
                cases.add(model, [x, s, b], [y.numpy()], f"group{opset}")
    for size in (1, 2, 3, 4, 5, 9):
        x = normal(rng, 2, 6, 3, 2)
        squares = np.zeros_like(x)
        for c in range(6):
            squares[:, c] = (x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1] ** 2).sum(axis=1)
        y = x / (1.5 + 0.2 / size * squares) ** 0.6
        model = node_model("LRN", [x], opset=13, size=size, alpha=0.2, beta=0.6, bias=1.5)
        cases.add(model, [x], [y.astype(np.float32)], f"lrn{size}")
    for p in (1, 2):
        for axis in (-1, 0, 1):
            x = normal(rng, 3, 4, 5)
            x[1] = 0
            norm = (np.abs(x) ** p).sum(axis=axis, keepdims=True) ** (1 / p)
            y = np.divide(x, norm, out=np.zeros_like(x), where=norm != 0)
            cases.add(node_model("LpNormalization", [x], opset=22, p=p, axis=axis), [x], [y], f"lp{p}")
    for axes in (None, [0], [1, -1], [0, 2, 3]):
        x = normal(rng, 3, 2, 4, 5) * 3 + 1
        over = tuple(axes or [0, 2, 3])
        y = (x - x.mean(over, keepdims=True)) / x.std(over, keepdims=True)
        cases.add(node_model("MeanVarianceNormalization", [x], opset=13, **({"axes": axes} if axes else {})), [x], [y])
    check_near(cases, 1e-5)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_losses(tmp_path, reduction):
    """Also with a class that is never likely and one that is ignored, whose infinite loss must not come up."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    cases = Cases(tmp_path)
    for shape in [(5, 4), (3, 4, 2), (2, 4, 3, 2)]:
        for weighted in (False, True):
            for ignored in (None, 2, -100):
                x = normal(rng, *shape)
                target = rng.integers(0, 4, size=(shape[0], *shape[2:]))
                if ignored is not None:
                    target.flat[1] = ignored
                    x[:, 2] = -np.inf if ignored == 2 else x[:, 2]
                    target[(target == 2) & (ignored != 2)] = 1
                weight = rng.random(4).astype(np.float32) if weighted else None
                inputs = [x, target] + ([weight] if weighted else [])
                more = {"reduction": reduction} | ({} if ignored is None else {"ignore_index": ignored})
                keywords = {"weight": None if weight is None else torch.tensor(weight), "reduction": reduction}
                keywords["ignore_index"] = -(2**40) if ignored is None else ignored
                log = torch.log_softmax(torch.tensor(x), 1)
                loss = torch.nn.functional.nll_loss(log, torch.tensor(target), **keywords).numpy()
                model = node_model("SoftmaxCrossEntropyLoss", inputs, opset=13, outputs=2, **more)
                cases.add(model, inputs, [loss, log.numpy()])
                own = [log.numpy(), *inputs[1:]]
                cases.add(node_model("NegativeLogLikelihoodLoss", own, opset=13, **more), own, [loss])
    check_near(cases, 2e-6)


def test_empty_batches(tmp_path):
    rng = np.random.default_rng(6)
    cases = Cases(tmp_path)
    x, scale, bias = np.zeros((0, 4, 3), np.float32), normal(rng, 4), normal(rng, 4)
    for op, inputs, opset, more in [
        ("BatchNormalization", [x, scale, bias, bias, np.abs(scale)], 15, {}),
        ("InstanceNormalization", [x, scale, bias], 22, {}),
        ("GroupNormalization", [x, scale, bias], 21, {"num_groups": 2}),
        ("LayerNormalization", [x, normal(rng, 3)], 17, {}),
        ("RMSNormalization", [x, normal(rng, 3)], 23, {}),
        ("LpNormalization", [x], 22, {}),
        ("LRN", [x], 13, {"size": 3}),
    ]:
        cases.add(node_model(op, inputs, opset=opset, **more), inputs, [x])
    cases.check()
