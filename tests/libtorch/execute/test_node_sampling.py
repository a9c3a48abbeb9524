"""Resize, GridSample, regions and signals against ONNX's reference, ONNX Runtime, PyTorch and NumPy."""

import itertools

import numpy as np
import pytest

from node_cases import Cases, node_model, run_ort, run_reference

RNG = np.random.default_rng(7)
COORDINATES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]


def image(*shape, dtype=np.float32):
    return (RNG.random(shape) * 200).astype(dtype)


def floats(*values):
    return np.array(values, np.float32)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_as_the_reference_does(tmp_path, mode):
    cases = Cases(tmp_path)
    forms = [
        ((2, 3, 5, 7), {"scales": floats(1, 1, 2, 3)}),
        ((1, 2, 5, 7), {"scales": floats(1, 1, 0.625, 1.35)}),
        ((1, 2, 49, 3), {"sizes": np.array([1, 2, 98, 147])}),
        ((1, 1, 9, 8), {"sizes": np.array([1, 1, 1, 5])}),
        ((2, 6, 3), {"sizes": np.array([3, 6, 11])}),
        ((2, 3, 4, 3, 2), {"scales": floats(1, 1, 2, 1.5, 4)}),
        ((7,), {"scales": floats(2.3)}),
    ]
    extra = [{"nearest_mode": n} for n in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")]
    if mode == "linear":
        extra = [{}, {"exclude_outside": 1}, {"antialias": 1}]
    if mode == "cubic":
        extra = [{}, {"cubic_coeff_a": -0.5}, {"exclude_outside": 1}, {"antialias": 1}]
    for (shape, size), coordinates, more in itertools.product(forms, COORDINATES, extra):
        if coordinates == "pytorch_half_pixel" and (mode == "cubic" or "antialias" in more) and len(shape) == 4:
            continue  # of one element: the reference reads -0.5 where the standard says 0
        # Far from 0, as the reference weighs cubics in single precision.
        inputs = [image(*shape, dtype=np.float64) + 500, None, size.get("scales"), size.get("sizes")]
        attributes = {"mode": mode, "coordinate_transformation_mode": coordinates, **more}
        # Which of two elements is nearer float32 decides, as in ONNX Runtime, which has a formula
        # of its own for align_corners where scales are given.
        oracle = run_reference
        if mode == "nearest" and not ("scales" in size and coordinates == "align_corners"):
            inputs[0], oracle = inputs[0].astype(np.float32), run_ort
        model = node_model("Resize", inputs, opset=19, **attributes)
        cases.add(model, inputs, oracle(model, inputs), f"{coordinates}_{more}_{len(shape)}")
    cases.check()


def test_resize_axes_policies_and_regions(tmp_path):
    cases = Cases(tmp_path)
    x = image(2, 5, 7, 3)
    for mode, policy in itertools.product(["nearest", "linear"], ["stretch", "not_larger", "not_smaller"]):
        inputs = [x, None, None, np.array([9, 6])]
        model = node_model("Resize", inputs, opset=18, mode=mode, keep_aspect_ratio_policy=policy, axes=[2, 1])
        cases.add(model, inputs, run_reference(model, inputs), f"{mode}_{policy}")
    for mode in ("nearest", "linear", "cubic"):
        inputs = [x, floats(0, 0.2, -0.3, 0, 1, 0.7, 1.4, 1), None, np.array([2, 4, 6, 3])]
        model = node_model("Resize", inputs, opset=13, mode=mode, extrapolation_value=10.0,
                           coordinate_transformation_mode="tf_crop_and_resize")
        cases.add(model, inputs, run_reference(model, inputs), f"crop_{mode}")
    cases.check()


def test_resize_of_integers(tmp_path):
    cases = Cases(tmp_path)
    for dtype, mode in itertools.product([np.uint8, np.int8, np.int32, np.float16], ["nearest", "linear"]):
        x = (RNG.random((1, 2, 4, 5)) * 120).astype(dtype)
        inputs = [x, None, floats(1, 1, 2, 4)]  # weights that no precision rounds: integers are cut off behind the sum
        model = node_model("Resize", inputs, opset=13, mode=mode)
        cases.add(model, inputs, run_reference(model, inputs), f"{dtype.__name__}_{mode}")
    cases.check()


def test_old_resizes_as_onnx_runtime_does(tmp_path):
    cases = Cases(tmp_path)
    x = image(1, 2, 5, 6)
    for mode in ("nearest", "linear"):
        for scales in (floats(1, 1, 2, 2), floats(1, 1, 1.5, 2.4)):
            inputs = [x, scales]
            for op, opset in (("Upsample", 9), ("Resize", 10)):
                model = node_model(op, inputs, opset=opset, mode=mode)
                cases.add(model, inputs, run_ort(model, inputs), f"{opset}_{mode}")
            model = node_model("Upsample", [x], opset=7, mode=mode, scales=[float(s) for s in scales])
            cases.add(model, [x], run_ort(model, [x]), f"7_{mode}")
        inputs = [x, floats(1, 1, 0.6, 0.5)]
        model = node_model("Resize", inputs, opset=10, mode=mode)
        cases.add(model, inputs, run_ort(model, inputs), f"10_down_{mode}")
        inputs = [x, floats(), floats(1, 1, 0.7, 1.5)]
        model = node_model("Resize", inputs, opset=11, mode=mode, coordinate_transformation_mode="tf_half_pixel_for_nn")
        cases.add(model, inputs, run_ort(model, inputs), f"11_{mode}")
    empty = [np.zeros((0, 2, 3, 4), np.float32), None, floats(1, 1, 2, 2)]
    model = node_model("Resize", empty, opset=13)
    cases.add(model, empty, [np.zeros((0, 2, 6, 8), np.float32)])
    cases.check()


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grid_sample_as_the_reference_does(tmp_path, mode):
    cases = Cases(tmp_path)
    shapes = [((2, 3, 4, 5), (3, 2)), ((1, 2, 3, 4, 3), (2, 3, 2)), ((2, 2, 6), (5,))]
    for (shape, out), padding, corners in itertools.product(shapes, ["zeros", "border", "reflection"], [0, 1]):
        if mode == "cubic" and padding == "border":
            continue  # the reference moves the place to the border first, PyTorch and ONNX Runtime do not
        x = image(*shape)
        grid = (RNG.random((shape[0], *out, len(shape) - 2)) * 5 - 2.5).astype(np.float32)
        model = node_model("GridSample", [x, grid], opset=20, mode=mode, padding_mode=padding, align_corners=corners)
        cases.add(model, [x, grid], run_reference(model, [x, grid]), f"{padding}_{corners}_{len(shape)}")
    cases.check()


def test_old_grid_samples_as_onnx_runtime_does(tmp_path):
    cases = Cases(tmp_path)
    x, grid = image(1, 2, 5, 4), (RNG.random((1, 3, 6, 2)) * 3 - 1.5).astype(np.float32)
    for mode, padding in itertools.product(["bilinear", "nearest", "bicubic"], ["zeros", "border", "reflection"]):
        model = node_model("GridSample", [x, grid], opset=16, mode=mode, padding_mode=padding)
        cases.add(model, [x, grid], run_ort(model, [x, grid]), f"{mode}_{padding}")
    cases.check()


def test_affine_grids_as_pytorch_makes_them(tmp_path):
    torch = pytest.importorskip("torch")
    cases = Cases(tmp_path)
    for size, corners in itertools.product([(2, 3, 4, 5), (2, 1, 3, 4, 5), (1, 1, 1, 6)], [0, 1]):
        theta = RNG.random((size[0], len(size) - 2, len(size) - 1)).astype(np.float32)
        made = torch.nn.functional.affine_grid(torch.from_numpy(theta), size, align_corners=bool(corners)).numpy()
        inputs = [theta, np.array(size)]
        cases.add(node_model("AffineGrid", inputs, opset=20, align_corners=corners), inputs, [made], f"{corners}")
    cases.check()


def test_regions_as_onnx_runtime_pools_them(tmp_path):
    cases = Cases(tmp_path)
    x = image(2, 3, 9, 11)
    corners = RNG.random((6, 4)) * 8
    rois = np.concatenate([corners[:, :2], corners[:, :2] + corners[:, 2:]], 1).astype(np.float32)
    rois[0] = [-4, -3, 30, 40]
    rois[1] = [20, 20, 30, 30]
    rois[2] = [3, 3, 3, 3]
    images = np.array([0, 1, 1, 0, 1, 0])
    for mode, ratio, where in itertools.product(["avg", "max"], [0, 2, 3], [None, "half_pixel", "output_half_pixel"]):
        attributes = {"mode": mode, "sampling_ratio": ratio, "output_height": 3, "output_width": 2}
        attributes["spatial_scale"] = 0.7
        opset = 10
        if where:
            opset, attributes["coordinate_transformation_mode"] = 16, where
        inputs = [x, rois, images]
        model = node_model("RoiAlign", inputs, opset=opset, **attributes)
        oracle = run_reference if where else run_ort
        cases.add(model, inputs, oracle(model, inputs), f"{mode}_{ratio}_{where}")
    pooled = [x, np.concatenate([images[:, None], rois], 1).astype(np.float32)]
    model = node_model("MaxRoiPool", pooled, opset=1, pooled_shape=[3, 4], spatial_scale=0.5)
    cases.add(model, pooled, run_ort(model, pooled))
    cases.check()


def test_transforms_as_numpy_makes_them(tmp_path):
    cases = Cases(tmp_path)
    x = RNG.random((2, 6, 5, 1)).astype(np.float32)
    z = RNG.random((2, 6, 5, 2))
    pair = z[..., 0] + 1j * z[..., 1]

    def parts(values, dtype):
        return [np.stack([values.real, values.imag], -1).astype(dtype)]

    def scalar(value):
        return np.array(value)

    rows = [
        (17, [x], {}, parts(np.fft.fft(x[..., 0], axis=1), np.float32)),
        (17, [x, scalar(9)], {"axis": 2}, parts(np.fft.fft(x[..., 0], 9, 2), np.float32)),
        (17, [x, scalar(4)], {"axis": 1, "onesided": 1}, parts(np.fft.rfft(x[..., 0], 4, 1), np.float32)),
        (17, [z], {"inverse": 1}, parts(np.fft.ifft(pair, axis=1), np.float64)),
        (20, [z], {}, parts(np.fft.fft(pair, axis=2), np.float64)),
        (20, [x, None, scalar(0)], {}, parts(np.fft.fft(x[..., 0], axis=0), np.float32)),
        (20, [z, scalar(7), scalar(1)], {"inverse": 1}, parts(np.fft.ifft(pair, 7, 1), np.float64)),
        (20, [z, scalar(10), scalar(1)], {"inverse": 1, "onesided": 1}, [np.fft.irfft(pair, 10, 1)[..., None]]),
    ]
    for opset, inputs, attributes, outputs in rows:
        cases.add(node_model("DFT", inputs, opset=opset, **attributes), inputs, outputs, str(attributes))
    signal = RNG.random((2, 20, 1)).astype(np.float32)
    window = RNG.random(6).astype(np.float32)
    frames = np.stack([signal[:, i : i + 6, 0] * window for i in range(0, 15, 4)], 1)
    inputs = [signal, scalar(4), window, scalar(6)]
    cases.add(node_model("STFT", inputs, opset=17), inputs, parts(np.fft.rfft(frames, axis=2), np.float32))
    inputs = [signal, scalar(4), window]
    cases.add(node_model("STFT", inputs, opset=17, onesided=0), inputs, parts(np.fft.fft(frames, axis=2), np.float32))
    cases.check()


def test_windows_and_mel_weights_as_the_reference_makes_them(tmp_path):
    cases = Cases(tmp_path)
    for op, periodic, kind in itertools.product(["HannWindow", "HammingWindow", "BlackmanWindow"], [0, 1], [1, 10, 11]):
        inputs = [np.array(11)]
        model = node_model(op, inputs, opset=17, periodic=periodic, output_datatype=kind)
        cases.add(model, inputs, run_reference(model, inputs), f"{periodic}_{kind}")
    inputs = [np.array(8), np.array(256), np.array(16000), np.array(300, np.float32), np.array(7000, np.float32)]
    model = node_model("MelWeightMatrix", inputs, opset=17)
    cases.add(model, inputs, run_reference(model, inputs))
    cases.check()


def test_bad_calls_are_refused(tmp_path):
    x = np.ones((1, 1, 4, 4), np.float32)
    rois, none = np.ones((1, 4), np.float32), np.zeros((1, 1, 0, 4), np.float32)
    big = 2**62
    rows = [
        ("Resize", 13, [x, None, floats(1, 1, -1, 1)], {}),
        ("Resize", 13, [x, None, floats(1, 1, np.nan, np.inf)], {}),
        ("Resize", 13, [x, None, floats(1, 1)], {}),
        ("Resize", 13, [x, None, floats(1, 1, 2, 2), np.array([1, 1, 4, 4])], {}),
        ("Resize", 13, [x, None, None, np.array([1, 1, -4, 4])], {}),
        ("Resize", 13, [x, None, None, np.array([1, 1, big, 4])], {}),
        ("Resize", 13, [none, None, None, np.array([1, 1, 2, 4])], {}),
        ("Resize", 13, [x, None, floats(1, 1, 2, 2)], {"coordinate_transformation_mode": "tf_crop_and_resize"}),
        ("Resize", 18, [x, None, floats(2, 2)], {"axes": [2, 4]}),
        ("GridSample", 20, [x, np.ones((1, 2, 2, 3), np.float32)], {}),
        ("GridSample", 20, [none, np.ones((1, 2, 2, 2), np.float32)], {}),
        ("RoiAlign", 16, [x, rois, np.array([1])], {}),
        ("RoiAlign", 16, [x, rois, np.array([-1])], {}),
        ("RoiAlign", 16, [x, rois * np.inf, np.array([0])], {}),
        ("RoiAlign", 16, [x, rois, np.array([0])], {"output_height": big}),
        ("MaxRoiPool", 1, [x, np.array([[7, 0, 0, 1, 1]], np.float32)], {"pooled_shape": [1, 1]}),
        ("DFT", 17, [x, np.array(0)], {}),
        ("DFT", 17, [x], {"axis": 3}),
        ("STFT", 17, [np.ones((1, 4, 1), np.float32), np.array(0), None, np.array(2)], {}),
        ("STFT", 17, [np.ones((1, 4, 1), np.float32), np.array(1), None, np.array(5)], {}),
        ("HannWindow", 17, [np.array(-1)], {}),
        ("MelWeightMatrix", 17, [np.array(8), np.array(16), np.array(8000), np.float32(0), np.float32(9000)], {}),
    ]
    cases = Cases(tmp_path)
    for op, opset, inputs, attributes in rows:
        cases.add(node_model(op, inputs, opset=opset, **attributes), inputs, None)
    for (verdict, folder, why), row in zip(cases.run(), rows, strict=True):
        assert verdict == "failed" and row[0] in why, (folder, verdict, why)


def test_regions_far_from_the_map_cost_nothing(tmp_path):
    x = np.ones((1, 1, 4, 4), np.float32)
    rois = np.array([[-1e30, -1e30, 1e30, 1e30], [0, 0, 1e30, 4]], np.float32)
    inputs = [x, rois, np.array([0, 0])]
    cases = Cases(tmp_path)
    model = node_model("RoiAlign", inputs, opset=16, output_height=2, output_width=2)
    cases.add(model, inputs, None)
    assert cases.run()[0][0] == "passed"
