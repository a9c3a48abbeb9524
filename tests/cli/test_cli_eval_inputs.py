"""crumb eval on what people bring: TorchScript archives, both engines, models that take or give other types than the baseline,
labels in every form that says the same, samples of several sizes; and what is wrong is named."""

import importlib.util
import json
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

metrics = pytest.importorskip("sklearn.metrics")
RNG = np.random.default_rng


def saved(path, nodes, inputs, outputs, constants=()):
    """An ONNX file. `inputs` and `outputs`: (name, type, shape)."""
    values = [[h.make_tensor_value_info(*one) for one in some] for some in (inputs, outputs)]
    graph = h.make_graph(nodes, "g", *values, [nh.from_array(value, name) for name, value in constants])
    path.write_bytes(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8).SerializeToString())
    return path


def evaluated(crumb, model, baseline, data, *flags, status=0):
    done = crumb("eval", model, "--baseline", baseline, "--data", data, *flags, "--json", status=status)
    return json.loads(done.stdout) if status == 0 else done.stderr


def close(found, expected, atol):
    """Figures within rounding of others, for each that both have."""
    for name, metric in expected["metrics"].items():
        for key in ("baseline", "model", "difference", "interval"):
            np.testing.assert_allclose(found["metrics"][name][key], metric[key], rtol=1e-4, atol=atol, err_msg=name)
    for one, other in zip(found["outputs"].values(), expected["outputs"].values(), strict=True):
        for key in ("sqnr_db", "cosine", "agreement", "kl_mean", "kl_p99"):
            np.testing.assert_allclose(one[key], other[key], rtol=1e-3, atol=1e-5, err_msg=key)


# --- TorchScript, engines ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """net.pt and net.onnx compute the same, of x [N, 6]; spoiled.pt and spoiled.onnx a little else, of `image`; steps.pt
    takes a whole number, too; late.pt has samples along axis 1."""
    torch = pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("archives")
    rng = RNG(3)
    weights = rng.standard_normal((6, 5)).astype(np.float32)
    classes = 'torch.nn.Module):\n def __init__(self, w):\n  super().__init__()\n  self.w = torch.nn.Parameter(w)\n'
    (folder / "nets.py").write_text(
        f"import torch\nclass Net({classes} def forward(self, x):\n  return torch.tanh(x @ self.w)\n"
        f"class Other({classes} def forward(self, image):\n  return torch.tanh(image @ self.w)\n"
        f"class Steps({classes} def forward(self, x, steps: int):\n  y = x @ self.w\n  for _ in range(steps):\n"
        "   y = torch.tanh(y)\n  return y\n"
        f"class Late({classes} def forward(self, x):\n  return torch.tanh(self.w.t() @ x)\n", encoding="utf-8")  # fmt: skip
    spec = importlib.util.spec_from_file_location("nets", folder / "nets.py")
    nets = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(nets)
    spoiled = (weights + rng.standard_normal(weights.shape) * 0.2).astype(np.float32)
    for name, make, values in (("net", nets.Net, weights), ("spoiled", nets.Other, spoiled), ("steps", nets.Steps, spoiled),
                               ("late", nets.Late, spoiled)):  # fmt: skip
        torch.jit.script(make(torch.from_numpy(values))).save(folder / f"{name}.pt")
    for name, given, values in (("net", "x", weights), ("spoiled", "image", spoiled)):
        nodes = [h.make_node("MatMul", [given, "w"], ["t"]), h.make_node("Tanh", ["t"], ["y"])]
        saved(folder / f"{name}.onnx", nodes, [(given, T.FLOAT, ["N", 6])], [("y", T.FLOAT, ["N", 5])], [("w", values)])
    x = rng.standard_normal((70, 6)).astype(np.float32)
    np.save(folder / "x.npy", x)
    np.save(folder / "across.npy", np.ascontiguousarray(x.T))
    np.save(folder / "y.npy", np.where(rng.random(70) < 0.8, (x @ weights).argmax(1), 0))
    return folder


@pytest.mark.parametrize("engine", ["auto", "libtorch", "runtime"])
def test_archives_and_engines_give_the_runtimes_figures(crumb, archives, engine):
    data, labels = archives / "x.npy", ["--labels", archives / "y.npy"]
    expected = evaluated(crumb, archives / "spoiled.onnx", archives / "net.onnx", data, *labels, "--engine", "runtime")
    assert expected["metrics"]["top1"]["difference"] != 0
    for model, baseline, name in (("spoiled.pt", "net.onnx", "x="), ("spoiled.onnx", "net.pt", ""), ("spoiled.pt", "net.pt", "x=")):
        found = evaluated(crumb, archives / model, archives / baseline, f"{name}{data}", *labels, "--engine", engine)
        close(found, expected, 1e-4)
    # Names are the baseline's, whichever of the two is an archive.
    found = evaluated(crumb, archives / "net.pt", archives / "spoiled.onnx", f"image={data}", *labels, "--engine", engine)
    for name, metric in expected["metrics"].items():
        assert found["metrics"][name]["baseline"] == pytest.approx(metric["model"], abs=1e-4)


def test_each_archive_takes_its_own_arguments(crumb, archives):
    labels = ["--labels", archives / "y.npy"]
    expected = evaluated(crumb, archives / "spoiled.onnx", archives / "net.onnx", archives / "x.npy", *labels)
    done = crumb("eval", archives / "steps.pt", archives / "spoiled.pt", "--baseline", archives / "net.pt", "--data", archives / "x.npy",
                 *labels, "--set-argument", "steps=1", "--json")  # fmt: skip
    for model in json.loads(done.stdout)["models"]:
        close(model, expected, 1e-4)
    for arguments, words in ((["stepz=1"], ["stepz", "'steps'"]), (["steps"], ["NAME=VALUE"]), (["steps=x"], ["steps.pt", "'x'"]),
                             ([], ["steps.pt", "int", "--set-argument steps="])):  # fmt: skip
        flags = ["--set-argument", *arguments] if arguments else []
        said = evaluated(crumb, archives / "steps.pt", archives / "net.pt", archives / "x.npy", *flags, status=2)
        assert all(word in said for word in words), said
    said = evaluated(crumb, archives / "net.onnx", archives / "net.onnx", archives / "x.npy", "--set-argument", "steps=1", status=2)
    assert "no model is one" in said


def test_samples_may_lie_along_another_axis_of_every_kind(crumb, archives, tmp_path):
    """The axes are those of the baseline, and hold for models that name inputs and outputs otherwise."""
    w = nh.to_array(onnx.load(archives / "spoiled.onnx").graph.initializer[0])
    late = saved(tmp_path / "late.onnx", [h.make_node("MatMul", ["w", "z"], ["t"]), h.make_node("Tanh", ["t"], ["u"])],
                 [("z", T.FLOAT, [6, "N"])], [("u", T.FLOAT, [5, "N"])], [("w", np.ascontiguousarray(w.T))])  # fmt: skip
    expected = evaluated(crumb, archives / "spoiled.onnx", archives / "spoiled.onnx", archives / "x.npy", "--labels", archives / "y.npy")
    for model, baseline, given, made in ((archives / "late.pt", late, "z", "u"), (late, archives / "late.pt", "x", "output")):
        found = evaluated(crumb, model, baseline, f"{given}={archives / 'across.npy'}", "--labels", archives / "y.npy", "--batch-axis",
                          f"{given}=1", "--batch-axis", f"{made}=1", "--engine", "libtorch")  # fmt: skip
        assert (found["task"], found["samples"]) == ("classify", 70)
        for name, metric in expected["metrics"].items():
            assert found["metrics"][name]["model"] == pytest.approx(metric["model"], abs=1e-4), name


# --- Types of inputs, outputs and labels ------------------------------------------------------------------------------

TYPES = {"float": (T.FLOAT, np.float32), "uint8": (T.UINT8, np.uint8), "int32": (T.INT32, np.int32), "int64": (T.INT64, np.int64),
         "double": (T.DOUBLE, np.float64), "float16": (T.FLOAT16, np.float16), "bool": (T.BOOL, np.bool_)}  # fmt: skip


def takes(path, kind):
    """A network that gives the mean and the spread of pictures [N, 2, 3] of this type."""
    nodes = [h.make_node("Cast", ["x"], ["f"], to=T.FLOAT), h.make_node("ReduceMean", ["f"], ["y"], axes=[2], keepdims=0)]
    return saved(path, nodes, [("x", TYPES[kind][0], ["N", 2, 3])], [("y", T.FLOAT, ["N", 2])])


@pytest.mark.parametrize("kind", list(TYPES))
def test_networks_take_the_same_numbers_in_other_types(crumb, tmp_path, kind):
    baseline, model = takes(tmp_path / "a.onnx", "float"), takes(tmp_path / "b.onnx", kind)
    numbers = RNG(5).integers(0, 2 if kind == "bool" else 200, (37, 2, 3))
    for stored in ("float", "uint8", "int64", "double", "float16"):
        np.save(tmp_path / "x.npy", numbers.astype(TYPES[stored][1]))
        for first, second in ((model, baseline), (baseline, model)):
            found = evaluated(crumb, first, second, tmp_path / "x.npy")
            assert (found["samples"], found["outputs"]["y"]["sqnr_db"]) == (37, None), stored
    if kind in ("uint8", "int32", "int64", "bool"):
        np.save(tmp_path / "x.npy", (numbers + 0.25).astype(np.float32))
        said = evaluated(crumb, model, baseline, tmp_path / "x.npy", status=1)
        assert all(word in said for word in ("b.onnx", "'x'", f"expected {kind}", "found float", ".25")), said
        if kind in ("uint8", "bool"):
            np.save(tmp_path / "x.npy", numbers - 300)
            assert f"no {kind}" in evaluated(crumb, model, baseline, tmp_path / "x.npy", status=1)


def scored(path, shape, last=None, axis=1):
    """A network that gives its input, or what `last` makes of it: the largest along an axis, or the first number."""
    whole = last == "ArgMax"
    node = h.make_node(last, ["x"], ["y"], axis=axis, keepdims=0) if whole else h.make_node("Identity", ["x"], ["y"])
    made = [size for i, size in enumerate(["N", *shape]) if i != axis] if whole else ["N", *shape]
    return saved(path, [node], [("x", T.FLOAT, ["N", *shape])], [("y", T.INT64 if whole else T.FLOAT, made)])


def drawn_scores(rng, labels, classes):
    scores = rng.standard_normal((len(labels), classes, *labels.shape[1:])).astype(np.float32)
    np.put_along_axis(scores, labels[:, None], np.take_along_axis(scores, labels[:, None], 1) + 1.5, 1)
    return scores


def test_a_model_may_give_the_class_itself(crumb, tmp_path):
    rng = RNG(7)
    labels = rng.integers(0, 6, 90)
    x = drawn_scores(rng, labels, 6)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", labels)
    scores, classes = scored(tmp_path / "scores.onnx", [6]), scored(tmp_path / "classes.onnx", [6], "ArgMax")
    for model, baseline in ((scores, classes), (classes, scores), (classes, classes)):
        found = evaluated(crumb, model, baseline, tmp_path / "x.npy", "--labels", tmp_path / "y.npy")
        assert found["task"] == "classify" and list(found["metrics"]) == ["top1", "balanced_accuracy"]
        for which in ("baseline", "model"):
            assert found["metrics"]["top1"][which] == pytest.approx(100 * metrics.accuracy_score(labels, x.argmax(1)))
            np.testing.assert_array_equal(found["confusion"][which], metrics.confusion_matrix(labels, x.argmax(1)))
    said = evaluated(crumb, classes, scores, tmp_path / "x.npy", "--labels", tmp_path / "y.npy", "--fail-if", "kl_mean > 1", status=2)
    assert "no 'kl_mean'" in said and "top1_drop" in said  # the two outputs are not compared


def test_a_model_may_give_the_classes_of_pixels(crumb, tmp_path):
    rng = RNG(9)
    labels = rng.integers(0, 5, (12, 7, 8))
    x = drawn_scores(rng, labels, 5)
    labels[rng.random(labels.shape) < 0.1] = 255
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", labels.astype(np.uint8))
    scores, classes = scored(tmp_path / "scores.onnx", [5, 7, 8]), scored(tmp_path / "classes.onnx", [5, 7, 8], "ArgMax")
    kept = labels != 255
    pair = labels[kept], x.argmax(1)[kept]
    for model, baseline in ((scores, classes), (classes, classes)):
        found = evaluated(crumb, model, baseline, tmp_path / "x.npy", "--labels", tmp_path / "y.npy", "--task", "segment")
        for which in ("baseline", "model"):
            assert found["metrics"]["mean_iou"][which] == pytest.approx(100 * metrics.jaccard_score(*pair, average="macro"))
            assert found["metrics"]["pixel_accuracy"][which] == pytest.approx(100 * metrics.accuracy_score(*pair))
            np.testing.assert_array_equal(found["confusion"][which], metrics.confusion_matrix(*pair))


def test_one_number_a_sample_has_a_threshold(crumb, tmp_path):
    rng = RNG(11)
    labels = rng.integers(0, 2, 80)
    x = (labels + rng.standard_normal(80) * 0.4).astype(np.float32)[:, None]
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", labels.astype(bool))
    model = scored(tmp_path / "m.onnx", [1])
    found = evaluated(crumb, model, model, tmp_path / "x.npy", "--labels", tmp_path / "y.npy", "--task", "classify", "--threshold", "0.3")
    assert found["metrics"]["top1"]["model"] == pytest.approx(100 * metrics.accuracy_score(labels, x[:, 0] > 0.3))


def test_labels_in_every_form_that_says_the_same(crumb, tmp_path):
    rng = RNG(13)
    labels = rng.integers(0, 6, 90)
    np.save(tmp_path / "x.npy", drawn_scores(rng, labels, 6))
    model = scored(tmp_path / "m.onnx", [6])
    expected = None
    for form in (np.int64, np.uint8, np.int32, np.uint64, np.float32, np.float64, np.float16, "column", "text"):
        path = tmp_path / ("y.txt" if form == "text" else "y.npy")
        if form == "text":
            path.write_text("".join(f"{label}\n" for label in labels))
        else:
            np.save(path, labels[:, None] if form == "column" else labels.astype(form))
        found = evaluated(crumb, model, model, tmp_path / "x.npy", "--labels", path)
        expected = expected or found
        assert found == expected and found["metrics"]["top5"]["model"] > 90, form
    numbers = rng.standard_normal(90).astype(np.float32)
    np.save(tmp_path / "x.npy", numbers[:, None])
    (tmp_path / "y.txt").write_text("".join(f"{number + 1}\n" for number in numbers))
    one = scored(tmp_path / "one.onnx", [1])
    found = evaluated(crumb, one, one, tmp_path / "x.npy", "--labels", tmp_path / "y.txt")
    assert found["task"] == "regress" and found["metrics"]["mae"]["model"] == pytest.approx(1, abs=1e-6)


def test_of_many_classes_there_is_no_confusion_matrix(crumb, tmp_path):
    rng = RNG(15)
    labels = rng.integers(0, 1500, 60)
    x = drawn_scores(rng, labels, 1500)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", labels)
    model = scored(tmp_path / "m.onnx", [1500])
    found = evaluated(crumb, model, model, tmp_path / "x.npy", "--labels", tmp_path / "y.npy")
    assert not found.get("confusion", {}).get("model")
    counted = [(one["class"], one["count"], one["recall"]["model"]) for one in found["classes"]]
    assert counted == [(c, (labels == c).sum(), pytest.approx(100 * (x.argmax(1)[labels == c] == c).mean())) for c in np.unique(labels)]
    crumb("eval", model, "--baseline", model, "--data", tmp_path / "x.npy", "--labels", tmp_path / "y.npy", "--per-class")


# --- Sizes ------------------------------------------------------------------------------------------------------------


def test_samples_of_several_sizes(crumb, tmp_path):
    rng = RNG(17)
    model = saved(tmp_path / "m.onnx", [h.make_node("Relu", ["x"], ["y"])], [("x", T.FLOAT, ["N", "L"])], [("y", T.FLOAT, ["N", "L"])])
    errors = []
    for name in "xy":
        (tmp_path / name).mkdir()
    for i, (count, length) in enumerate([(2, 3), (1, 9), (4, 2), (3, 1)]):
        x, y = rng.standard_normal((2, count, length)).astype(np.float32)
        np.save(tmp_path / "x" / f"{i}.npy", x)
        np.save(tmp_path / "y" / f"{i}.npy", y)
        errors.append((np.maximum(x, 0) - y).ravel())
    found = evaluated(crumb, model, model, tmp_path / "x", "--labels", tmp_path / "y", "--task", "regress")
    assert found["samples"] == 10 and found["metrics"]["r2"]["model"] is None
    assert found["metrics"]["rmse"]["model"] == pytest.approx(np.sqrt((np.concatenate(errors) ** 2).mean()), rel=1e-6)
    assert evaluated(crumb, model, model, tmp_path / "x")["samples"] == 10


def test_one_sample_has_figures_and_no_interval(crumb, tmp_path):
    np.save(tmp_path / "x.npy", np.array([[0.1, 0.7, 0.2]], np.float32))
    np.save(tmp_path / "y.npy", np.array([1]))
    model = scored(tmp_path / "m.onnx", [3])
    found = evaluated(crumb, model, model, tmp_path / "x.npy", "--labels", tmp_path / "y.npy")
    assert found["metrics"]["top1"] == {"baseline": 100, "model": 100, "difference": 0, "interval": [None, None], "p": None}
    shown = crumb("eval", model, "--baseline", model, "--data", tmp_path / "x.npy", "--labels", tmp_path / "y.npy").stdout
    assert shown.startswith("1 sample, classify\n")


def test_an_output_without_samples_is_left_out(crumb, tmp_path):
    nodes = [h.make_node("Identity", ["x"], ["y"]), h.make_node("ReduceSum", ["x"], ["all"], keepdims=0)]
    model = saved(tmp_path / "m.onnx", nodes, [("x", T.FLOAT, ["N", 3])], [("y", T.FLOAT, ["N", 3]), ("all", T.FLOAT, [])])
    np.save(tmp_path / "x.npy", RNG(19).standard_normal((9, 3)).astype(np.float32))
    done = crumb("eval", model, "--baseline", model, "--data", tmp_path / "x.npy", "--json")
    assert "'all' is not compared: it is [] of the baseline for 9 samples" in done.stderr
    assert list(json.loads(done.stdout)["outputs"]) == ["y"]
    np.save(tmp_path / "y.npy", np.zeros(9))
    said = evaluated(crumb, model, model, tmp_path / "x.npy", "--labels", tmp_path / "y.npy", "--output", "all", status=1)
    assert "'all' is []" in said and "--batch-axis all=AXIS" in said
    # Conditions are of the output that labels are of, or there are none.
    said = evaluated(crumb, model, model, tmp_path / "x.npy", "--output", "all", "--fail-if", "cosine < 2", status=2)
    assert "no 'cosine'" in said


# --- What is wrong is named -------------------------------------------------------------------------------------------

DATA = {"x": np.zeros((8, 3), np.float32), "none": np.zeros((0, 3), np.float32), "scalar": np.float32(1), "wide": np.zeros((8, 4), np.float32),
        "complex": np.zeros((8, 3), np.complex64), "labels": np.zeros(8, np.int64), "seven": np.zeros(7, np.int64), "nine": np.zeros(9, np.int64),
        "fractions": np.full(8, 0.5), "nan": np.full((8, 3), np.nan), "complex_labels": np.zeros(8, np.complex128),
        "two": np.zeros((8, 2), np.int64), "below": np.full(8, -1), "beyond": np.full(8, 2**62)}  # fmt: skip


@pytest.mark.parametrize("data, labels, flags, status, words", [
    ("none.npy", "", [], 1, ["--data", "none.npy", "no samples"]),
    ("scalar.npy", "", [], 1, ["scalar.npy", "axis"]),
    ("wide.npy", "", [], 1, ["m.onnx", "'x'", "[8, 4]", "[N, 3]"]),
    ("complex.npy", "", [], 1, ["complex64", "float"]),
    ("gone.npy", "", [], 1, ["gone.npy", "No such file"]),
    ("words.txt", "", [], 2, ["words.txt", "m.onnx", ".npy"]),
    ("words.npz", "", [], 2, ["words.npz", "archive"]),
    ("z=x.npy", "", [], 2, ["'z'", "'x'"]),
    ("x.npy", "seven.npy", [], 2, ["seven.npy", "7 labels", "8 samples"]),
    ("x.npy", "nine.npy", [], 2, ["nine.npy", "9 labels", "8 samples"]),
    ("x.npy", "words.txt", [], 2, ["words.txt", "1 label", "8 samples"]),
    ("x.npy", "cats.txt", [], 1, ["cats.txt", "line 3", "'cat'", "class"]),
    ("x.npy", "cats.txt", ["--task", "segment"], 2, ["cats.txt", "text", "segment"]),
    ("x.npy", "fractions.npy", [], 1, ["fractions.npy", "sample 0", "0.5", "class"]),
    ("x.npy", "nan.npy", [], 1, ["nan.npy", "sample 0", "nan", "finite"]),
    ("x.npy", "complex_labels.npy", [], 1, ["complex_labels.npy", "c16"]),
    ("x.npy", "two.npy", [], 2, ["two.npy", "[2]", "[3]", "--task"]),
    ("x.npy", "two.npy", ["--task", "classify"], 1, ["two.npy", "sample 0", "[2]"]),
    ("x.npy", "two.npy", ["--task", "regress"], 1, ["m.onnx", "two.npy", "sample 0", "[2]", "[3]"]),
    ("x.npy", "below.npy", [], 1, ["below.npy", "-1", "0 to 2"]),
    ("x.npy", "beyond.npy", [], 1, ["beyond.npy", "4611686018427387904", "0 to 2"]),
    ("x.npy", "scalar.npy", [], 1, ["scalar.npy", "one number"]),
])  # fmt: skip
def test_what_is_wrong_is_named(crumb, tmp_path, data, labels, flags, status, words):
    for name, array in DATA.items():
        np.save(tmp_path / f"{name}.npy", array)
    np.savez(tmp_path / "words.npz", x=DATA["x"])
    (tmp_path / "words.txt").write_text("a few words\n")
    (tmp_path / "cats.txt").write_text("1\n2\ncat\n" + "0\n" * 5)
    scored(tmp_path / "m.onnx", [3])
    done = crumb("eval", "m.onnx", "--baseline", "m.onnx", "--data", data, *(["--labels", labels] if labels else []), *flags, cwd=tmp_path,
                 status=status)  # fmt: skip
    assert done.stdout == "" and all(word in done.stderr for word in words), done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2  # the note of a guess may stand before it


@pytest.mark.parametrize("which", ["x", "y"])
def test_damaged_arrays_are_refused_or_mean_something(crumb_sanitized_bin, tmp_path, which):
    """A bit, a size or an end that is another: an exit code and a message, never a signal."""
    rng = RNG(23)
    model = saved(tmp_path / "m.onnx", [h.make_node("Relu", ["x"], ["y"])], [("x", T.FLOAT, ["N", "L"])], [("y", T.FLOAT, ["N", "L"])])
    np.save(tmp_path / "x.npy", rng.standard_normal((12, 5)).astype(np.float32))
    np.save(tmp_path / "y.npy", rng.integers(0, 5, 12))
    good = (tmp_path / f"{which}.npy").read_bytes()
    shape = b"(12, 5)" if which == "x" else b"(12,)"
    changed = [good[: rng.integers(len(good))] for _ in range(6)] + [good + b"\0"]
    for _ in range(24):
        at, bit = rng.integers(len(good)), 1 << rng.integers(8)
        changed.append(good[:at] + bytes([good[at] ^ bit]) + good[at + 1 :])
    for new in (b"(12,5,)", b"(0, 5)", b"(0,)", b"(5, 0)", b"()", b"(1,)", b"(-1,)", b"(60,)", b"(5,12)", b"(3, 4)", b"(1,1,12)", b"(2**9)", b"(1e3,)"):
        changed.append(good.replace(shape, new + b" " * (len(shape) - len(new))) if len(new) <= len(shape) else good)
    for content in changed:
        (tmp_path / f"{which}.npy").write_bytes(content)
        for task in ([], ["--task", "classify"]):
            done = subprocess.run([crumb_sanitized_bin, "eval", model, "--baseline", model, "--data", tmp_path / "x.npy", "--labels",
                                   tmp_path / "y.npy", *task], capture_output=True, text=True, errors="replace", timeout=120)  # fmt: skip
            assert done.returncode in (0, 1, 2), (content, done)
            assert done.returncode == 0 or ("crumb: " in done.stderr and done.stdout == ""), (content, done)
