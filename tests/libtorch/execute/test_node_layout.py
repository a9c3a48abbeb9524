"""Layout and indexing operators against NumPy and ONNX Runtime: the corners that ONNX's own suite leaves out."""

import numpy as np
import pytest

from node_cases import Cases, node_model, run_ort

RNG = np.random.default_rng(5)
I64 = np.int64


def arr(*values, dtype=I64):
    return np.array(values, dtype=dtype)


def numbers(shape, dtype=np.float32):
    size = int(np.prod(shape))
    if dtype == np.bool_:
        return RNG.integers(0, 2, shape).astype(bool)
    return RNG.permutation(np.arange(size)).reshape(shape).astype(dtype)


def run(tmp_path, rows):
    """rows: (op, opset, inputs, attributes, expected outputs)."""
    cases = Cases(tmp_path)
    for op, opset, inputs, attributes, outputs in rows:
        outputs = outputs if isinstance(outputs, list) else [outputs]
        model = node_model(op, inputs, opset=opset, outputs=len(outputs), **attributes)
        cases.add(model, inputs, outputs, f"{opset}_{attributes}"[:60].replace(" ", "").replace("'", ""))
    cases.check()


def test_shapes_change_as_numpy_changes_them(tmp_path):
    x, empty = numbers((2, 3, 4)), np.zeros((0, 3), np.float32)
    rows = [
        ("Reshape", 1, [x], {"shape": [4, -1]}, x.reshape(4, 6)),
        ("Reshape", 5, [x, arr(0, 0, -1, 2)], {}, x.reshape(2, 3, 2, 2)),
        ("Reshape", 14, [empty, arr(3, 0)], {"allowzero": 1}, empty.reshape(3, 0)),
        ("Reshape", 14, [empty, arr(0, 3, 1)], {}, empty.reshape(0, 3, 1)),
        ("Reshape", 13, [x[:1, :1, :1], np.zeros(0, I64)], {}, x[0, 0, 0].reshape(())),
        ("Flatten", 1, [x], {}, x.reshape(2, 12)),
        ("Flatten", 9, [x], {"axis": 3}, x.reshape(24, 1)),
        ("Flatten", 11, [x], {"axis": -3}, x.reshape(1, 24)),
        ("Flatten", 13, [np.float32(3).reshape(())], {"axis": 0}, np.full((1, 1), 3, np.float32)),
        ("Squeeze", 1, [x[:1, :, :1]], {}, x[0, :, 0]),
        ("Squeeze", 11, [x[:1, :, :1]], {"axes": [-1]}, x[:1, :, 0]),
        ("Squeeze", 13, [x[:1, :, :1], arr(0)], {}, x[0, :, :1]),
        ("Unsqueeze", 1, [x], {"axes": [0, 4]}, x.reshape(1, 2, 3, 4, 1)),
        ("Unsqueeze", 13, [x, arr(-1, 1)], {}, x.reshape(2, 1, 3, 4, 1)),
        ("Transpose", 1, [x], {}, x.T),
        ("Transpose", 13, [np.float32(3).reshape(())], {}, np.float32(3).reshape(())),
        ("Concat", 1, [x, x], {}, np.concatenate([x, x], 1)),
        ("Concat", 4, [x, x[:, :0]], {"axis": 1}, x),
        ("Concat", 11, [x, x], {"axis": -1}, np.concatenate([x, x], -1)),
        ("Tile", 6, [x, arr(2, 1, 3)], {}, np.tile(x, (2, 1, 3))),
        ("Tile", 13, [x, arr(0, 1, 1)], {}, x[:0]),
        ("Expand", 8, [x[:, :1], arr(5, 1, 3, 1)], {}, np.broadcast_to(x[:, :1], (5, 2, 3, 4))),
        ("Expand", 13, [x[:, :1], arr(1, 0, 4)], {}, x[:, :0]),
    ]
    run(tmp_path, rows)


TYPES = [np.uint8, np.int8, np.uint16, np.uint32, np.uint64, np.float16, np.float64, np.bool_]


@pytest.mark.parametrize("dtype", TYPES)
def test_every_element_type_moves(tmp_path, dtype):
    x = numbers((2, 4, 3), dtype)
    rows = [
        ("Transpose", 13, [x], {"perm": [2, 0, 1]}, x.transpose(2, 0, 1)),
        ("Slice", 13, [x, arr(2), arr(-9), arr(1), arr(-1)], {}, x[:, 2::-1]),
        ("Pad", 18, [x, arr(1, -1), None, arr(1)], {}, np.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1]),
        ("Pad", 19, [x, arr(0, 2, 0, 0, 3, 1)], {"mode": "wrap"}, np.pad(x, ((0, 0), (2, 3), (0, 1)), mode="wrap")),
        ("Gather", 13, [x, arr(-1, 0, 3)], {"axis": 1}, x[:, [3, 0, 3]]),
        ("GatherND", 12, [x, arr(1, 0).reshape(2, 1)], {"batch_dims": 1}, np.stack([x[0, 1], x[1, 0]])),
        ("Split", 13, [x, arr(1, 3)], {"axis": 1}, [x[:, :1], x[:, 1:]]),
        ("Compress", 11, [x, np.array([False, True, True])], {"axis": 1}, x[:, 1:3]),
        ("NonZero", 13, [x], {}, np.array(np.nonzero(x), I64)),
    ]
    run(tmp_path, rows)


def test_largest_unsigned_values_survive_reductions(tmp_path):
    x = np.array([1, 2**63, 2**64 - 1, 5], np.uint64)
    updates = np.array([2**63 + 1, 3, 2**62, 2**64 - 2], np.uint64)
    rows = [
        ("ScatterElements", 18, [x, arr(0, 1, 2, 3), updates], {"reduction": "max"}, np.maximum(x, updates)),
        ("ScatterElements", 18, [x, arr(0, 1, 2, 3), updates], {"reduction": "min"}, np.minimum(x, updates)),
        ("Unique", 11, [x[[2, 1, 0, 2]]], {}, [x[:3], arr(2, 1, 0), arr(2, 1, 0, 2), arr(1, 1, 2)]),
        ("ScatterElements", 16, [np.array([65535], np.uint16), arr(0), np.array([3], np.uint16)],
         {"reduction": "add"}, np.array([2], np.uint16)),
    ]
    run(tmp_path, rows)


def test_slices_end_where_pythons_end(tmp_path):
    x = numbers((7,))
    far = 2**63 - 1
    rows = [("Slice", 1, [numbers((3, 4))], {"starts": [0, 1], "ends": [-1, 1000]}, None)]
    rows[0] = (*rows[0][:4], rows[0][2][0][:-1, 1:1000])
    for start in (-far - 1, -9, -7, -3, 0, 2, 6, 9, far):
        for end in (-far - 1, -9, -7, -3, 0, 3, 9, far):
            for step in (1, 3, -1, -2, far, -far - 1):
                rows.append(("Slice", 13, [x, arr(start), arr(end), arr(0), arr(step)], {}, x[start:end:step]))
    rows.append(("Slice", 10, [x, arr(1, dtype=np.int32), arr(4, dtype=np.int32)], {}, x[1:4]))
    rows.append(("Slice", 13, [x[:0], arr(-1), arr(-9), arr(0), arr(-1)], {}, x[:0]))
    run(tmp_path, rows)


def test_splits(tmp_path):
    x = numbers((7, 2))
    rows = [
        ("Split", 2, [x], {"split": [3, 4], "axis": 0}, [x[:3], x[3:]]),
        ("Split", 2, [x], {"axis": 1}, [x[:, :1], x[:, 1:]]),
        ("Split", 18, [x], {"num_outputs": 3}, [x[:3], x[3:6], x[6:]]),
        ("Split", 18, [x, arr(0, 7)], {}, [x[:0], x]),
        ("Split", 11, [x.T], {"axis": -2}, [x.T[:1], x.T[1:]]),
    ]
    run(tmp_path, rows)


def test_pads(tmp_path):
    x = numbers((3, 4))
    rows = [
        ("Pad", 1, [x], {"paddings": [1, 0, 0, 2], "value": 1.5}, np.pad(x, ((1, 0), (0, 2)), constant_values=1.5)),
        ("Pad", 2, [x], {"pads": [1, 2, 2, 3], "mode": "reflect"}, np.pad(x, ((1, 2), (2, 3)), mode="reflect")),
        ("Pad", 2, [x], {"pads": [5, 0, 0, 6], "mode": "edge"}, np.pad(x, ((5, 0), (0, 6)), mode="edge")),
        ("Pad", 11, [x, arr(0, -1, 0, 2), np.float32(7).reshape(())], {},
         np.pad(x[:, 1:], ((0, 0), (0, 2)), constant_values=7)),
        ("Pad", 13, [x, arr(-1, 0, 1, 0)], {"mode": "edge"}, np.pad(x[1:], ((0, 1), (0, 0)), mode="edge")),
        ("Pad", 18, [x, arr(7, 8), None, arr(-1, dtype=np.int32)], {"mode": "reflect"},
         np.pad(x, ((0, 0), (7, 8)), mode="reflect")),
        ("Pad", 19, [x, arr(9, 0, 4, 5)], {"mode": "wrap"}, np.pad(x, ((9, 4), (0, 5)), mode="wrap")),
        ("Pad", 13, [np.float32(3).reshape(()), np.zeros(0, I64)], {}, np.float32(3).reshape(())),
        ("Pad", 13, [x[:0], arr(2, 0, 0, 0), np.float32(1).reshape(())], {}, np.ones((2, 4), np.float32)),
        ("Pad", 13, [x.astype(np.int64) + 2**53, arr(1, 0, 0, 0), arr(2**53 + 1).reshape(())], {},
         np.pad(x.astype(np.int64) + 2**53, ((1, 0), (0, 0)), constant_values=2**53 + 1)),
    ]
    run(tmp_path, rows)


def test_gathers_and_scatters(tmp_path):
    x = numbers((3, 4, 5))
    index = RNG.integers(-4, 4, (3, 2, 5))
    pairs = RNG.integers(-3, 3, (2, 6, 2))
    updates = numbers((3, 2, 5))
    scattered = x.copy()
    np.put_along_axis(scattered, np.array([[[0] * 5, [2] * 5]] * 3), updates, 1)
    added = x.copy()
    np.add.at(added, (pairs[..., 0], pairs[..., 1]), numbers((2, 6, 5)) * 0 + 2)
    rows = [
        ("Gather", 1, [x, arr(1).reshape(())], {"axis": 2}, x[:, :, 1]),
        ("Gather", 11, [x, np.zeros((0, 2), I64)], {}, x[:0].reshape(0, 2, 4, 5)),
        ("Gather", 13, [x, arr(-1, dtype=np.int32).reshape(1, 1)], {"axis": -1}, x[:, :, -1].reshape(3, 4, 1, 1)),
        ("Gather", 13, [x[:, :0], arr(1, 1)], {"axis": 0}, x[[1, 1], :0]),
        ("GatherElements", 13, [x, index], {"axis": 1}, np.take_along_axis(x, index, 1)),
        ("GatherND", 11, [x, pairs], {}, x[pairs[..., 0], pairs[..., 1]]),
        ("GatherND", 13, [x, RNG.integers(0, 5, (3, 4, 1))], {"batch_dims": 2}, None),
        ("Scatter", 9, [x, np.array([[[0] * 5, [-2] * 5]] * 3), updates], {"axis": 1}, scattered),
        ("ScatterND", 16, [x, pairs, numbers((2, 6, 5)) * 0 + 2], {"reduction": "add"}, added),
        ("ScatterND", 11, [x, np.zeros((0, 3), I64), np.zeros(0, np.float32)], {}, x),
        ("ScatterND", 11, [x, arr(1).reshape(1, 1), x[:1]], {}, np.stack([x[0], x[0], x[2]])),
        ("ArrayFeatureExtractor", 1, [x, arr(4, 0, 0)], {"domain": "ai.onnx.ml"}, x[..., [4, 0, 0]]),
    ]
    batched = rows[6]
    rows[6] = (*batched[:4], np.take_along_axis(x, batched[2][1], 2)[..., 0])
    run(tmp_path, rows)


def test_one_hot_and_its_versions(tmp_path):
    values = np.array([2, 9], np.int32)
    inside = arr(0, 2, -1, 7, -9)
    rows = [
        ("OneHot", 9, [inside, arr(3).reshape(()), values], {},
         np.array([[9, 2, 2], [2, 2, 9], [2, 2, 2], [2, 2, 2], [2, 2, 2]], np.int32)),
        ("OneHot", 11, [inside.astype(np.float32), np.array([3], np.float32), values], {"axis": 0},
         np.array([[9, 2, 2], [2, 2, 9], [2, 2, 9], [2, 2, 2], [2, 2, 2]], np.int32).T),
        ("OneHot", 11, [arr(1).reshape(()), arr(2), values], {}, np.array([2, 9], np.int32)),
    ]
    run(tmp_path, rows)


def test_unique_takes_every_form(tmp_path):
    x = RNG.integers(0, 3, (6, 4, 2)).astype(np.int32)
    rows = []
    for axis in (None, 0, -1, 1):
        kept, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
        along = {} if axis is None else {"axis": axis}
        rows.append(("Unique", 11, [x], along, [kept, first, inverse.reshape(-1), counts]))
        order = np.argsort(first)
        place = np.argsort(order)
        again = np.take(x.reshape(-1) if axis is None else x, first[order], axis=axis or 0)
        rows.append(("Unique", 11, [x], {**along, "sorted": 0},
                     [again, first[order], place[inverse.reshape(-1)], counts[order]]))
    none = np.zeros(0, I64)
    rows.append(("Unique", 11, [x[:0]], {}, [x[:0].reshape(-1), none, none, none]))
    run(tmp_path, rows)


def test_boxes_are_suppressed_as_onnx_runtime_does(tmp_path):
    cases = Cases(tmp_path)
    for centered in (0, 1):
        for limits in ((3, 0.5, 0.3), (10, 0.0, None), (0, 0.5, 0.0), (100, 0.9, 0.6)):
            boxes = RNG.random((2, 30, 4), np.float32)
            scores = RNG.integers(0, 12, (2, 3, 30)).astype(np.float32) / 12
            most, overlap, least = limits
            inputs = [boxes, scores, arr(most), np.array([overlap], np.float32)]
            if least is not None:
                inputs.append(np.array([least], np.float32))
            model = node_model("NonMaxSuppression", inputs, opset=11, center_point_box=centered)
            cases.add(model, inputs, run_ort(model, inputs))
    cases.check()


def test_grams_are_counted_as_onnx_runtime_does(tmp_path):
    cases = Cases(tmp_path)
    pool = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7, 1, 2, 3, 5, 5, 5]
    for mode in ("TF", "IDF", "TFIDF"):
        for least, most, skip in ((1, 1, 0), (1, 2, 1), (2, 3, 3), (1, 3, 40), (3, 3, 0)):
            x = RNG.integers(1, 9, (3, 20)).astype(np.int64)
            for rows in (x, x[0]):
                model = node_model(
                    "TfIdfVectorizer", [rows], opset=9, mode=mode, min_gram_length=least, max_gram_length=most,
                    max_skip_count=skip, ngram_counts=[0, 4, 10], ngram_indexes=[8, 1, 2, 3, 4, 5, 6, 7, 0],
                    pool_int64s=pool, weights=[0.5, 1, 2, 3, 4, 5, 6, 7, 8.5])
                cases.add(model, [rows], run_ort(model, [rows]), mode)
    cases.check()


HOSTILE = [
    ("Gather", 13, [np.ones((3, 2), np.float32), arr(3)], {}),
    ("Gather", 13, [np.ones((3, 2), np.float32), arr(-4)], {}),
    ("Gather", 13, [np.ones((0, 2), np.float32), arr(0)], {}),
    ("GatherElements", 13, [np.ones((3, 2), np.float32), arr(2**62, -(2**62)).reshape(1, 2)], {}),
    ("GatherElements", 13, [np.ones((3, 2), np.float32), np.zeros((3, 3), I64)], {}),
    ("GatherND", 13, [np.ones((3, 2), np.float32), arr(0, 2).reshape(1, 2)], {}),
    ("GatherND", 13, [np.ones((3, 2), np.float32), arr(0, 0, 0).reshape(1, 3)], {}),
    ("ScatterElements", 18, [np.ones(3, np.float32), arr(3), np.ones(1, np.float32)], {}),
    ("ScatterElements", 18, [np.ones(3, np.float32), arr(-4), np.ones(1, np.float32)], {"reduction": "add"}),
    ("ScatterElements", 18, [np.ones(3, np.float32), arr(0, 1), np.ones(1, np.float32)], {}),
    ("ScatterND", 18, [np.ones(3, np.float32), arr(3).reshape(1, 1), np.ones(1, np.float32)], {}),
    ("ScatterND", 18, [np.ones(3, np.float32), arr(0).reshape(1, 1), np.ones(2, np.float32)], {}),
    ("TensorScatter", 24, [np.ones((1, 4, 2), np.float32), np.ones((1, 2, 2), np.float32), arr(3)], {}),
    ("TensorScatter", 24, [np.ones((1, 4, 2), np.float32), np.ones((1, 2, 2), np.float32), arr(-1)], {}),
    ("Compress", 11, [np.ones(2, np.float32), np.array([True] * 3)], {}),
    ("Reshape", 13, [np.ones(4, np.float32), arr(2**62, 4)], {}),
    ("Reshape", 13, [np.ones(4, np.float32), arr(-2, -2)], {}),
    ("Reshape", 13, [np.zeros(0, np.float32), arr(2**32, 2**32)], {}),
    ("Slice", 13, [np.ones(4, np.float32), arr(0), arr(4), arr(0), arr(0)], {}),
    ("Slice", 13, [np.ones(4, np.float32), arr(0, 0), arr(4)], {}),
    ("Pad", 13, [np.ones(4, np.float32), arr(2**63 - 1, 2**63 - 1)], {}),
    ("Pad", 13, [np.ones(4, np.float32), arr(-5, 0)], {}),
    ("Pad", 13, [np.zeros(0, np.float32), arr(1, 0)], {"mode": "reflect"}),
    ("Tile", 13, [np.ones(4, np.float32), arr(-1)], {}),
    ("Tile", 13, [np.ones(4, np.float32), arr(2**61)], {}),
    ("Expand", 13, [np.ones(4, np.float32), arr(3)], {}),
    ("Split", 13, [np.ones(4, np.float32), arr(5, -1)], {}),
    ("Split", 13, [np.ones(4, np.float32), arr(2**63 - 1, 2**63 - 1)], {}),
    ("ReverseSequence", 10, [np.ones((2, 2), np.float32), arr(3, 1)], {}),
    ("ReverseSequence", 10, [np.ones((2, 2), np.float32), arr(-1, 1)], {}),
    ("CenterCropPad", 18, [np.ones((2, 2), np.float32), arr(-1, 1)], {}),
    ("DepthToSpace", 13, [np.ones((1, 4, 2, 2), np.float32)], {"blocksize": 0}),
    ("DepthToSpace", 13, [np.ones((1, 4, 2, 2), np.float32)], {"blocksize": 2**62}),
    ("SpaceToDepth", 13, [np.ones((1, 4, 3, 2), np.float32)], {"blocksize": 2}),
    ("Squeeze", 13, [np.ones((2, 1), np.float32), arr(0)], {}),
    ("Unsqueeze", 13, [np.ones((2, 1), np.float32), arr(0, 0)], {}),
    ("Transpose", 13, [np.ones((2, 1), np.float32)], {"perm": [0, 0]}),
    ("OneHot", 11, [arr(0), arr(-1), np.ones(2, np.float32)], {}),
    ("TfIdfVectorizer", 9, [arr(1)], {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0,
                                      "ngram_counts": [0], "ngram_indexes": [2**63 - 1], "pool_int64s": [1]}),
    ("TfIdfVectorizer", 9, [arr(1)], {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0,
                                      "ngram_counts": [9], "ngram_indexes": [0], "pool_int64s": [1]}),
    ("NonMaxSuppression", 11, [np.ones((1, 3, 4), np.float32), np.ones((1, 1, 4), np.float32), arr(1)], {}),
]


def test_bad_calls_are_refused_with_the_nodes_name(tmp_path):
    cases = Cases(tmp_path)
    for op, opset, inputs, attributes in HOSTILE:
        outputs = 2 if op == "Split" else 1
        cases.add(node_model(op, inputs, opset=opset, outputs=outputs, **attributes), inputs, None)
    for (verdict, folder, why), row in zip(cases.run(), HOSTILE, strict=True):
        assert verdict in ("failed", "refused"), (folder, verdict)
        assert row[0] in why or verdict == "refused", (folder, why)
