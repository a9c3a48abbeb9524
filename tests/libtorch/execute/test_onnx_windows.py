"""Convolutions and poolings against onnxruntime and LibTorch's own functions: sizes, padding, every version."""

import itertools

import numpy as np
import pytest
from layer_oracle import add_by_ort, check_near, eighths, run_ort
from node_cases import Cases, node_model, run_reference

AUTO = ["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_convolution(tmp_path, axes):
    rng = np.random.default_rng(axes)
    cases = Cases(tmp_path)
    for trial in range(24):
        group = int(rng.choice([1, 1, 2, 3]))
        size = rng.integers(5, 9, size=axes).tolist()
        kernel = rng.integers(1, 4, size=axes).tolist()
        x = eighths(rng, int(rng.integers(1, 3)), 2 * group, *size)
        w = eighths(rng, 3 * group, 2, *kernel)
        bias = eighths(rng, 3 * group) if trial % 3 else None
        more = {"group": group, "strides": rng.integers(1, 4, size=axes).tolist()}
        auto = AUTO[trial % 4]
        if auto == "NOTSET":
            more["pads"] = rng.integers(0, 3, size=2 * axes).tolist()
        else:
            more["auto_pad"] = auto
        if auto in ("NOTSET", "VALID"):
            more["dilations"] = rng.integers(1, 3, size=axes).tolist()
        if trial % 2:
            more["kernel_shape"] = kernel
        inputs = [x, w] if bias is None else [x, w, bias]
        add_by_ort(cases, "Conv", inputs, why=auto, opset=[1, 11, 22][trial % 3], **more)
    cases.check()


def test_convolution_same_with_dilations(tmp_path):
    """The padding counts a dilated kernel's whole extent, so the size is the input's over the stride."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(7)
    cases = Cases(tmp_path)
    for auto, stride, dilation, size in itertools.product(AUTO[2:], [1, 2, 3], [2, 3], [6, 7]):
        x, w = eighths(rng, 1, 2, size), eighths(rng, 2, 2, 3)
        model = node_model("Conv", [x, w], opset=11, auto_pad=auto, strides=[stride], dilations=[dilation])
        total = max(0, (-(-size // stride) - 1) * stride + 2 * dilation + 1 - size)
        first = total // 2 if auto == "SAME_UPPER" else total - total // 2
        wide = torch.nn.functional.pad(torch.tensor(x), (first, total - first))
        y = torch.nn.functional.conv1d(wide, torch.tensor(w), stride=stride, dilation=dilation)
        cases.add(model, [x, w], [y.numpy()], auto)
    cases.check()


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_transposed_convolution(tmp_path, axes):
    rng = np.random.default_rng(10 + axes)
    cases = Cases(tmp_path)
    for trial in range(24):
        group = int(rng.choice([1, 1, 2]))
        size = rng.integers(2, 6, size=axes).tolist()
        kernel = rng.integers(1, 4, size=axes).tolist()
        strides = rng.integers(1, 4, size=axes).tolist()
        dilations = rng.integers(1, 3, size=axes).tolist()
        x, w = eighths(rng, 2, 2 * group, *size), eighths(rng, 2 * group, 3, *kernel)
        inputs = [x, w] + ([eighths(rng, 3 * group)] if trial % 3 else [])
        more = {"group": group, "strides": strides, "dilations": dilations}
        full = [s * (n - 1) + (k - 1) * d + 1 for s, n, k, d in zip(strides, size, kernel, dilations, strict=True)]
        if trial % 4 == 0:
            more["pads"] = [int(rng.integers(0, 1 + (f - 1) // 2)) if f > 2 else 0 for f in full] * 2
            more["pads"][0] = 0
            more["output_padding"] = [int(rng.integers(0, s)) for s in strides]
        elif trial % 4 == 1:
            more["output_shape"] = [max(1, f - int(rng.integers(0, 4))) for f in full]
            more["auto_pad"] = AUTO[2 + trial // 4 % 2]
        elif trial % 4 == 2:
            more["output_shape"] = [max(1, f - int(rng.integers(0, 4))) for f in full]
        add_by_ort(cases, "ConvTranspose", inputs, why=str(trial % 4), opset=[1, 11, 22][trial % 3], **more)
    cases.check()


def test_transposed_convolution_same(tmp_path):
    """Without output_shape SAME gives the input's size times the stride, also where that is more than there is."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(8)
    cases = Cases(tmp_path)
    for auto, stride, kernel in itertools.product(AUTO[2:], [1, 2, 3], [1, 2, 3, 4]):
        x, w = eighths(rng, 1, 2, 5), eighths(rng, 2, 2, kernel)
        model = node_model("ConvTranspose", [x, w], opset=11, auto_pad=auto, strides=[stride])
        full = torch.nn.functional.conv_transpose1d(torch.tensor(x), torch.tensor(w), stride=stride)
        total = max(0, full.shape[-1] - 5 * stride)
        first = total // 2 if auto == "SAME_UPPER" else total - total // 2
        y = full[..., first : first + 5 * stride]
        cases.add(model, [x, w], [torch.nn.functional.pad(y, (0, 5 * stride - y.shape[-1])).numpy()], auto)
    cases.check()


def test_deformable_convolution(tmp_path):
    """In two dimensions against the reference, away from its edge: offsets of any sign, groups of both kinds."""
    rng = np.random.default_rng(9)
    cases = Cases(tmp_path)
    for trial in range(8):
        group, shifts = [(1, 1), (2, 1), (1, 2), (2, 4)][trial % 4]
        stride, dilation, pads = [1, 2][trial // 4], 1 + trial % 2, [1, 0, 0, 1]
        x, w = eighths(rng, 2, 4, 6, 7), eighths(rng, 4, 4 // group, 2, 3)
        out = [(n + 1 - (k - 1) * dilation - 1) // stride + 1 for n, k in ((6, 2), (7, 3))]
        offset = rng.normal(0, 2, size=(2, shifts * 12, *out)).astype(np.float32)
        mask = rng.random(size=(2, shifts * 6, *out)).astype(np.float32) if trial % 3 else None
        inputs = [x, w, offset, eighths(rng, 4) if trial % 2 else None] + ([mask] if trial % 3 else [])
        if inputs[-1] is None:
            inputs.pop()
        shape = {"strides": [stride] * 2, "dilations": [dilation] * 2, "pads": pads}
        model = node_model("DeformConv", inputs, opset=19, group=group, offset_group=shifts, **shape)
        cases.add(model, inputs, run_reference(model, inputs))
    check_near(cases, 1e-5)


def test_columns_to_image(tmp_path):
    """Several axes and every kind of element: counts how many blocks cover each place."""
    rng = np.random.default_rng(11)
    cases = Cases(tmp_path)
    shapes = [
        ([5], [2], [2], [1], [1, 1]),
        ([4, 5], [2, 3], [1, 2], [2, 1], [1, 0, 0, 2]),
        ([3, 4, 3], [2, 1, 2], [1] * 3, [1] * 3, [0] * 6),
    ]
    types = ["float32", "float64", "float16", "int8", "uint8", "int64", "uint16", "complex64"]
    for dtype, shape in itertools.product(types, shapes):
        image, block, strides, dilations, pads = shape
        axes = len(image)
        counts = [
            (image[i] + pads[i] + pads[axes + i] - (block[i] - 1) * dilations[i] - 1) // strides[i] + 1
            for i in range(axes)
        ]
        x = rng.integers(0, 5, size=(2, 3 * int(np.prod(block)), int(np.prod(counts)))).astype(dtype)
        wide = np.zeros((2, 3, *[n + pads[i] + pads[axes + i] for i, n in enumerate(image)]), dtype)
        parts = x.reshape(2, 3, *block, *counts)
        for where in itertools.product(*map(range, block), *map(range, counts)):
            place = tuple(where[i] * dilations[i] + where[axes + i] * strides[i] for i in range(axes))
            wide[(slice(None), slice(None), *place)] += parts[(slice(None), slice(None), *where)]
        y = wide[(slice(None), slice(None), *[slice(pads[i], pads[i] + n) for i, n in enumerate(image)])]
        inputs = [x, np.array(image, np.int64), np.array(block, np.int64)]
        model = node_model("Col2Im", inputs, opset=18, strides=strides, dilations=dilations, pads=pads)
        cases.add(model, inputs, [y], dtype)
    cases.check()


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_pooling(tmp_path, op, axes):
    rng = np.random.default_rng(20 + axes)
    cases = Cases(tmp_path)
    for trial in range(32):
        kernel = rng.integers(1, 4, size=axes).tolist()
        x = eighths(rng, 2, 3, *rng.integers(4, 9, size=axes).tolist())
        more = {"kernel_shape": kernel, "strides": rng.integers(1, 4, size=axes).tolist()}
        auto = AUTO[trial % 4] if trial < 16 else "NOTSET"
        if auto == "NOTSET":
            more["pads"] = [int(rng.integers(0, k)) for k in kernel * 2]
            more["dilations"] = rng.integers(1, 3, size=axes).tolist() if trial % 3 == 2 else [1] * axes
            more["ceil_mode"] = int(trial % 2) if op != "LpPool" else 0  # onnxruntime's LpPool has none
        else:
            more["auto_pad"] = auto
            # Where a stride is longer than the kernel onnxruntime makes the padding negative, or refuses.
            more["strides"] = [min(pair) for pair in zip(more["strides"], kernel, strict=True)]
            if auto == "VALID" and op != "LpPool":
                more["ceil_mode"] = trial // 4 % 2
        if op == "AveragePool":
            more["count_include_pad"] = int(trial // 2 % 2)
        if op == "LpPool":
            more["p"] = int(rng.integers(1, 4))
        if op == "MaxPool":
            more["storage_order"] = int(trial // 2 % 2) if axes > 1 else 0
        opset = 22 if "ceil_mode" in more or trial % 2 else {"MaxPool": 8, "AveragePool": 7, "LpPool": 2}[op]
        add_by_ort(cases, op, [x], why=auto, opset=opset, outputs=2 if op == "MaxPool" else 1, **more)
    check_near(cases, 2e-6)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float64", "float16"])
def test_max_pool_types(tmp_path, dtype):
    rng = np.random.default_rng(5)
    cases = Cases(tmp_path)
    for pads in ([0] * 4, [1, 0, 0, 1], [1] * 4):
        x = rng.integers(0 if dtype == "uint8" else -128, 127, size=(1, 2, 6, 5)).astype(dtype)
        model = node_model("MaxPool", [x], opset=22, outputs=2, kernel_shape=[3, 2], pads=pads, strides=[2, 1])
        wide = x.astype(np.float32)
        expected = node_model("MaxPool", [wide], opset=22, outputs=2, kernel_shape=[3, 2], pads=pads, strides=[2, 1])
        values, places = run_ort(expected, [wide])
        cases.add(model, [x], [values.astype(dtype), places])
    cases.check()


def test_global_pools_and_empty_batches(tmp_path):
    rng = np.random.default_rng(6)
    cases = Cases(tmp_path)
    for shape in [(2, 3, 4), (2, 3, 4, 5), (1, 2, 3, 2, 2)]:
        x = eighths(rng, *shape)
        for op in ("GlobalAveragePool", "GlobalMaxPool"):
            add_by_ort(cases, op, [x], opset=22)
        for p in (1, 2, 3):
            add_by_ort(cases, "GlobalLpPool", [x], opset=2, p=p)
    none = np.zeros((0, 2, 5, 5), np.float32)
    shape = {"kernel_shape": [2, 2]}
    for op, inputs, more in [
        ("MaxPool", [none], shape),
        ("AveragePool", [none], shape),
        ("LpPool", [none], shape),
        ("Conv", [none, eighths(rng, 2, 2, 2, 2)], {}),
    ]:
        cases.add(node_model(op, inputs, opset=22, **more), inputs, [np.zeros((0, 2, 4, 4), np.float32)])
    check_near(cases, 2e-6)


def test_refusals(tmp_path):
    """Windows that do not fit, and attributes of the wrong length, are refused with what was found."""
    x, w = np.zeros((1, 2, 4, 4), np.float32), np.zeros((2, 2, 3, 3), np.float32)
    wrong = [
        ("Conv", [x, w], {"strides": [1]}, "strides has 1 entries, expected 2"),
        ("Conv", [x, w], {"strides": [0, 1]}, "strides holds 0"),
        ("Conv", [x, w], {"dilations": [2, 2]}, "does not fit"),
        ("Conv", [x, w], {"auto_pad": "SOME"}, "auto_pad is"),
        ("Conv", [x, w], {"kernel_shape": [2, 3]}, "kernel_shape is [2, 3], the weight's is [3, 3]"),
        ("MaxPool", [x], {"kernel_shape": [5, 5]}, "does not fit"),
        ("MaxPool", [x], {"kernel_shape": [2**40, 1]}, "a kernel of"),
        ("MaxUnpool", [x, np.full(x.shape, 99999, np.int64)], {"kernel_shape": [2, 2]}, "places outside"),
    ]
    cases = Cases(tmp_path)
    for op, inputs, more, _ in wrong:
        cases.add(node_model(op, inputs, opset=11, **more), inputs, None)
    for (verdict, _, why), (*_, expected) in zip(cases.run(), wrong, strict=True):
        assert verdict != "passed" and expected in why, why
