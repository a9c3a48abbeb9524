"""The numeric operators of ai.onnx.ml against ONNX Runtime."""

import itertools

import numpy as np
import pytest
from onnx import numpy_helper

from node_cases import Cases, node_model, run_ort, run_reference

RNG = np.random.default_rng(11)
ML = "ai.onnx.ml"
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]


def features(rows, columns, dtype=np.float32):
    return (RNG.standard_normal((rows, columns)) * 3).astype(dtype)


def against_ort(cases, op, inputs, *, opset=3, outputs=1, why="", **attributes):
    model = node_model(op, inputs, opset=opset, outputs=outputs, domain=ML, **attributes)
    cases.add(model, inputs, run_ort(model, inputs), why)


def some(count):
    return [float(v) for v in RNG.standard_normal(count).astype(np.float32)]


def test_scaling_and_encoding(tmp_path):
    cases = Cases(tmp_path)
    x = features(4, 3)
    against_ort(cases, "Binarizer", [x], opset=1, threshold=0.5)
    for dtype in (np.float32, np.float64, np.int64, np.int32):
        y = x.astype(dtype)
        against_ort(cases, "Scaler", [y], opset=1, offset=some(3), scale=some(3), why=dtype.__name__)
        against_ort(cases, "Scaler", [y], opset=1, offset=some(1), scale=some(1), why=dtype.__name__)
        for norm in ("MAX", "L1", "L2"):
            if norm != "MAX" or (y.max(1) > 0).all():
                against_ort(cases, "Normalizer", [np.abs(y) + 1], opset=1, norm=norm, why=norm)
        if dtype != np.int32:  # ONNX Runtime has none
            against_ort(cases, "OneHotEncoder", [y], opset=1, cats_int64s=[-3, 0, 1, 2, 5],
                        zeros=1)
    holes = np.where(x > 0, np.nan, x).astype(np.float32)
    against_ort(cases, "Imputer", [holes], opset=1, imputed_value_floats=some(3), replaced_value_float=float("nan"))
    against_ort(cases, "Imputer", [x.astype(np.int64)], opset=1, imputed_value_int64s=[7], replaced_value_int64=0)
    inputs = [x, features(4, 2)]
    against_ort(cases, "FeatureVectorizer", inputs, opset=1, inputdimensions=[3, 2])
    cases.check()


def test_labels_are_encoded(tmp_path):
    cases = Cases(tmp_path)
    x = np.array([[1, 2, 3], [-5, 2, 9]], np.int64)
    against_ort(cases, "LabelEncoder", [x], opset=2, keys_int64s=[1, 2, -5], values_floats=[0.5, 1.5, 2.5])
    against_ort(cases, "LabelEncoder", [x], opset=2, keys_int64s=[1, 2], values_int64s=[8, 9], default_int64=4)
    y = np.array([1, np.nan, 2.5, -0.0], np.float32)
    for opset in (2, 4):
        against_ort(cases, "LabelEncoder", [y], opset=opset, keys_floats=[0.0, 1.0, float("nan")],
                    values_int64s=[3, 4, 5])
    tensors = {
        "keys_tensor": numpy_helper.from_array(np.array([1, 2], np.int64)),
        "values_tensor": numpy_helper.from_array(np.array([7, -7], np.int16)),
        "default_tensor": numpy_helper.from_array(np.array([99], np.int16)),
    }
    model = node_model("LabelEncoder", [x], opset=4, domain=ML, **tensors)
    cases.add(model, [x], [np.array([[7, -7, 99], [99, -7, 99]], np.int16)])
    cases.check()


def test_linear_models(tmp_path):
    cases = Cases(tmp_path)
    x = features(5, 3)
    for targets, transform in itertools.product([1, 2], ["NONE"]):
        against_ort(cases, "LinearRegressor", [x], opset=1, targets=targets, coefficients=some(3 * targets),
                    intercepts=some(targets), post_transform=transform)
    for transform in TRANSFORMS[:4]:
        against_ort(cases, "LinearClassifier", [x], opset=1, outputs=2, coefficients=some(9), intercepts=some(3),
                    classlabels_ints=[4, 7, 9], post_transform=transform, multi_class=1, why=transform)
        against_ort(cases, "LinearClassifier", [x], opset=1, outputs=2, coefficients=some(6), intercepts=some(2),
                    classlabels_ints=[0, 1], post_transform=transform, multi_class=1, why=transform)
    cases.check()


def ensemble(kind, targets, positive=False):
    """Three trees of depth two with random splits; every leaf votes for all `targets`."""
    made = {name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
                                  "missing_value_tracks_true")}
    votes = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    modes = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"]
    for tree in range(3):
        for node in range(7):
            leaf = node > 2
            made["treeids"].append(tree)
            made["nodeids"].append(node)
            made["featureids"].append(0 if leaf else int(RNG.integers(0, 3)))
            made["values"].append(0.0 if leaf else float(np.float32(RNG.standard_normal())))
            made["modes"].append("LEAF" if leaf else modes[tree])
            made["truenodeids"].append(0 if leaf else 2 * node + 1)
            made["falsenodeids"].append(0 if leaf else 2 * node + 2)
            made["missing_value_tracks_true"].append(int(RNG.integers(0, 2)))
            for target in targets if leaf else ():
                votes["treeids"].append(tree)
                votes["nodeids"].append(node)
                votes["ids"].append(target)
                weight = np.float32(RNG.standard_normal())
                votes["weights"].append(float(abs(weight) / 4 if positive else weight))
    return {f"nodes_{k}": v for k, v in made.items()} | {f"{kind}_{k}": v for k, v in votes.items()}


def test_tree_regressors(tmp_path):
    cases = Cases(tmp_path)
    x = features(20, 3)
    x[3, :] = np.nan
    for aggregate, targets in itertools.product(["SUM", "AVERAGE", "MIN", "MAX"], [1, 2]):
        base = some(targets) if aggregate != "MIN" else None
        more = {"base_values": base} if base else {}
        against_ort(cases, "TreeEnsembleRegressor", [x], opset=1, n_targets=targets, aggregate_function=aggregate,
                    **ensemble("target", range(targets)), **more, why=aggregate)
    cases.check()


def test_tree_classifiers(tmp_path):
    cases = Cases(tmp_path)
    x = features(20, 3)
    for transform in TRANSFORMS[:4]:
        against_ort(cases, "TreeEnsembleClassifier", [x], opset=1, outputs=2, classlabels_int64s=[5, 6, 9],
                    post_transform=transform, **ensemble("class", range(3)), why=transform)
        for positive in (True, False):
            if transform.startswith("SOFTMAX"):
                continue  # ONNX Runtime leaves the scores of two classes as they are
            against_ort(cases, "TreeEnsembleClassifier", [x], opset=1, outputs=2, classlabels_int64s=[2, 8],
                        post_transform=transform, **ensemble("class", [0], positive), why=f"{transform}_{positive}")
        for voted in ([0], [0, 1]):
            if transform == "NONE" and voted == [0]:
                continue
            model = node_model("TreeEnsembleClassifier", [x], opset=1, outputs=2, domain=ML, classlabels_int64s=[3, 1],
                               post_transform=transform, **ensemble("class", voted))
            cases.add(model, [x], run_reference(model, [x]), f"{transform}_{voted}")
    cases.check()


def test_trees_that_are_broken_are_refused(tmp_path):
    x = features(2, 3)
    good = ensemble("target", [0])
    rows = [
        {"nodes_truenodeids": [0] * 21},  # a circle
        {"nodes_truenodeids": [99] * 21},
        {"nodes_featureids": [3] * 21},
        {"nodes_featureids": [-1] * 21},
        {"nodes_featureids": [0] * 20},
        {"target_ids": [1] * 12},
        {"target_ids": [-1] * 12},
        {"target_nodeids": [99] * 12},
        {"nodes_modes": ["BRANCH_X"] * 21},
    ]
    cases = Cases(tmp_path)
    for change in rows:
        more = {"nodes_falsenodeids": [0] * 21} if change == rows[0] else {}
        attributes = {**good, **change, **more}
        model = node_model("TreeEnsembleRegressor", [x], opset=1, domain=ML, n_targets=1, **attributes)
        cases.add(model, [x], None)
    for verdict, folder, why in cases.run():
        assert verdict == "failed" and "TreeEnsembleRegressor" in why, (folder, verdict, why)


def test_support_vectors(tmp_path):
    cases = Cases(tmp_path)
    x = features(6, 3)
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        parameters = [0.2, 0.4, 2.0]
        for one_class in (0, 1):
            against_ort(cases, "SVMRegressor", [x], opset=1, kernel_type=kernel, kernel_params=parameters, n_supports=4,
                        support_vectors=some(12), coefficients=some(4), rho=some(1), one_class=one_class, why=kernel)
        for classes in (2, 3):
            sizes = [2, 3, 1][:classes]
            pairs = classes * (classes - 1) // 2
            for with_proba in (False, True):
                proba = {"prob_a": some(pairs), "prob_b": some(pairs)} if with_proba else {}
                against_ort(cases, "SVMClassifier", [x], opset=1, outputs=2, kernel_type=kernel,
                            kernel_params=parameters, vectors_per_class=sizes, support_vectors=some(3 * sum(sizes)),
                            coefficients=some((classes - 1) * sum(sizes)), rho=some(pairs),
                            classlabels_ints=[3, 5, 8][:classes], **proba, why=f"{kernel}_{classes}_{with_proba}")
    against_ort(cases, "SVMRegressor", [x], opset=1, coefficients=some(3), rho=some(1), kernel_type="LINEAR",
                kernel_params=parameters, why="plain")
    against_ort(cases, "SVMClassifier", [x], opset=1, outputs=2, coefficients=some(9), rho=some(1),
                kernel_params=parameters, classlabels_ints=[1, 2, 4], why="plain")
    cases.check()


@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
def test_tree_ensembles_with_members(tmp_path, aggregate):
    def tensor(values, dtype):
        return numpy_helper.from_array(np.array(values, dtype))

    model = node_model(
        "TreeEnsemble", [np.zeros((5, 2), np.float32)], opset=5, domain=ML, n_targets=2, aggregate_function=aggregate,
        tree_roots=[0, 2], nodes_featureids=[0, 1, 1], nodes_modes=tensor([6, 0, 6], np.uint8),
        nodes_splits=tensor([0, 1.5, 0], np.float32), nodes_truenodeids=[0, 1, 3], nodes_trueleafs=[1, 1, 1],
        nodes_falsenodeids=[1, 2, 0], nodes_falseleafs=[0, 1, 1], leaf_targetids=[0, 1, 0, 1],
        leaf_weights=tensor([1, 10, 100, 1000], np.float32),
        membership_values=tensor([1, 2, np.nan, 0, 7, np.nan], np.float32))
    x = np.array([[1, 0], [2, 5], [3, 1], [3, 2], [np.nan, 7]], np.float32)
    # The leaves, (target, weight), by hand: the first tree's, then the second's.
    leaves = [[(0, 1), (1, 1000)], [(0, 1), (0, 1)], [(1, 10), (0, 1)], [(0, 100), (0, 1)], [(0, 100), (1, 1000)]]
    expected = np.zeros((5, 2), np.float32)
    for row, votes in enumerate(leaves):
        for target in (0, 1):
            found = [weight for at, weight in votes if at == target]
            if found:
                expected[row, target] = [sum(found) / 2, sum(found), min(found), max(found)][aggregate]
    cases = Cases(tmp_path)
    cases.add(model, [x], [expected])
    cases.check()
