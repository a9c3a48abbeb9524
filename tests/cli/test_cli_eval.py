"""crumb eval: every task's figures on drawn answers against scikit-learn, scipy, scikit-image and jiwer, and by definition: SSIM, edits,
KL divergence."""

import json
import signal
import subprocess
import time

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper as h

metrics = pytest.importorskip("sklearn.metrics")
ndimage = pytest.importorskip("scipy.ndimage")
stats = pytest.importorskip("scipy.stats")
special = pytest.importorskip("scipy.special")


def answer(path, which, shape, batch="N", repeats=0):
    """A network of inputs a and b that gives one of them: what two models answer is then whatever a test draws."""
    inputs = [h.make_tensor_value_info(name, T.FLOAT, [batch, *shape]) for name in "ab"]
    outputs = [h.make_tensor_value_info("y", T.FLOAT, [batch, *shape])]
    nodes = [h.make_node("Identity", [which], ["y0" if repeats else "y"])]
    for i in range(repeats):
        nodes.append(h.make_node("Tanh", [f"y{i}"], ["y" if i + 1 == repeats else f"y{i + 1}"]))
    graph = h.make_graph(nodes, "g", inputs, outputs)
    path.write_bytes(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8).SerializeToString())
    return path


@pytest.fixture
def evaluate(crumb, tmp_path):
    """evaluate(a, b, labels, *flags): the JSON of b against a, with labels as an array or lines."""

    def run(a, b, labels=None, *flags, status=0, batch="N", json_flag=True):
        np.save(tmp_path / "a.npy", a)
        np.save(tmp_path / "b.npy", b)
        if isinstance(labels, list):
            (tmp_path / "labels.txt").write_text("".join(f"{line}\n" for line in labels), encoding="utf-8")
            flags = ["--labels", tmp_path / "labels.txt", *flags]
        elif labels is not None:
            np.save(tmp_path / "labels.npy", labels)
            flags = ["--labels", tmp_path / "labels.npy", *flags]
        networks = [answer(tmp_path / f"{which}.onnx", which, a.shape[1:], batch) for which in "ab"]
        done = crumb("eval", networks[1], "--baseline", networks[0], "--data", f"a={tmp_path / 'a.npy'}", "--data",
                     f"b={tmp_path / 'b.npy'}", *flags, *(["--json"] if json_flag else []), status=status)  # fmt: skip
        return json.loads(done.stdout) if json_flag and done.stdout else done

    return run


def check(found, name, baseline, model, rtol=1e-9, atol=0):
    metric = found["metrics"][name]
    np.testing.assert_allclose([metric["baseline"], metric["model"]], [baseline, model], rtol=rtol, atol=atol, err_msg=name)
    np.testing.assert_allclose(metric["difference"], metric["model"] - metric["baseline"], rtol=1e-12, atol=1e-12)
    low, high = metric["interval"]
    assert low <= metric["difference"] <= high


def drawn_classes(seed, samples=400, classes=7):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, samples)
    labels[: classes] = np.arange(classes)
    a = rng.standard_normal((samples, classes)).astype(np.float32)
    a[np.arange(samples), labels] += 2
    return labels, a, (a + rng.standard_normal(a.shape) * 0.6).astype(np.float32)


@pytest.mark.parametrize("batch", ["N", 1, 7])
def test_classes_are_scored_as_scikit_learn_scores_them(evaluate, batch):
    labels, a, b = drawn_classes(3)
    found = evaluate(a, b, labels, batch=batch)
    assert (found["schema"], found["task"], found["samples"]) == (1, "classify", 400)
    top = [x.argmax(1) for x in (a, b)]
    check(found, "top1", *(100 * metrics.accuracy_score(labels, t) for t in top))
    check(found, "top5", *(100 * metrics.top_k_accuracy_score(labels, x, k=5) for x in (a, b)))
    check(found, "balanced_accuracy", *(100 * metrics.balanced_accuracy_score(labels, t) for t in top))
    for t, which in zip(top, ("baseline", "model"), strict=True):
        np.testing.assert_array_equal(found["confusion"][which], metrics.confusion_matrix(labels, t))
        recalls = metrics.recall_score(labels, t, average=None)
        np.testing.assert_allclose([one["recall"][which] for one in found["classes"]], 100 * recalls)
    right = [t == labels for t in top]
    alone = [int((right[0] & ~right[1]).sum()), int((right[1] & ~right[0]).sum())]
    assert found["metrics"]["top1"]["p"] == pytest.approx(stats.binomtest(alone[0], sum(alone)).pvalue, rel=1e-9)
    kl = special.rel_entr(*(special.softmax(x.astype(np.float64), axis=1) for x in (a, b))).sum(1)
    output = found["outputs"]["y"]
    assert output["agreement"] == pytest.approx(100 * (top[0] == top[1]).mean())
    names = {"kl_median": 0.5, "kl_p90": 0.9, "kl_p99": 0.99, "kl_p999": 0.999, "kl_largest": 1}
    np.testing.assert_allclose([output[name] for name in names], np.quantile(kl, list(names.values())), rtol=1e-6)
    assert output["kl_mean"] == pytest.approx(kl.mean(), rel=1e-6)
    error = (a - b).astype(np.float64)
    assert output["sqnr_db"] == pytest.approx(10 * np.log10((a.astype(np.float64) ** 2).sum() / (error**2).sum()), rel=1e-6)
    assert output["max_abs_error"] == pytest.approx(np.abs(error).max(), rel=1e-6)
    lost = [worst["sample"] for worst in found["worst"]]
    assert len(lost) == 10 and all(right[0][i] and not right[1][i] for i in lost)
    assert list(kl[lost]) == sorted(kl[lost], reverse=True)


def test_ignored_classes_and_those_that_no_label_has(evaluate):
    labels, a, b = drawn_classes(5)
    labels[labels == 4] = -100
    found = evaluate(a, b, labels)
    kept = labels >= 0
    check(found, "top1", *(100 * metrics.accuracy_score(labels[kept], x.argmax(1)[kept]) for x in (a, b)))
    counted = [np.mean([(x.argmax(1)[labels == c] == c).mean() for c in range(7) if c != 4]) for x in (a, b)]
    check(found, "balanced_accuracy", *(100 * np.array(counted)))
    assert [one["class"] for one in found["classes"]] == [0, 1, 2, 3, 5, 6]


def test_distributions_are_compared_as_they_are(evaluate):
    _, a, b = drawn_classes(7)
    p, q = (special.softmax(x, axis=1).astype(np.float32) for x in (a, b))
    q[0] = np.eye(7)[2]
    found = evaluate(p, q)["outputs"]["y"]
    wide = [np.maximum(x.astype(np.float64) / x.astype(np.float64).sum(1, keepdims=True), least)
            for x, least in ((p, 0), (q, np.finfo(np.float32).tiny))]  # fmt: skip
    assert found["kl_of"] == "distributions"
    assert found["kl_mean"] == pytest.approx(special.rel_entr(*wide).sum(1).mean(), rel=1e-6)


@pytest.mark.parametrize("outputs", [1, 3, 65])
def test_numbers_are_scored_as_scikit_learn_scores_them(evaluate, outputs):
    rng = np.random.default_rng(outputs)
    y = (rng.standard_normal((200, outputs)) * 3 + 100).astype(np.float32)
    a, b = ((y + rng.standard_normal(y.shape) * s).astype(np.float32) for s in (0.5, 0.7))
    found = evaluate(a, b, y[:, 0] if outputs == 1 else y)
    assert found["task"] == "regress"
    check(found, "rmse", *(np.sqrt(metrics.mean_squared_error(y, x)) for x in (a, b)), rtol=1e-5)
    check(found, "mae", *(metrics.mean_absolute_error(y, x) for x in (a, b)), rtol=1e-5)
    wide = y.astype(np.float64)
    assert ("r2" in found["metrics"]) == (outputs <= 64)
    if outputs <= 64:
        check(found, "r2", *(metrics.r2_score(wide, x.astype(np.float64)) for x in (a, b)))
    assert found["metrics"]["rmse"]["p"] < 0.001


def test_pixels_are_scored_as_scikit_learn_scores_them(evaluate):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 5, (30, 6, 9))
    a = rng.standard_normal((30, 5, 6, 9)).astype(np.float32)
    np.put_along_axis(a, labels[:, None], np.take_along_axis(a, labels[:, None], 1) + 1.5, 1)
    b = (a + rng.standard_normal(a.shape)).astype(np.float32)
    labels[rng.random(labels.shape) < 0.1] = 255
    found = evaluate(a, b, labels.astype(np.uint8))
    assert found["task"] == "segment"
    kept = labels != 255
    pairs = [(labels[kept], x.argmax(1)[kept]) for x in (a, b)]
    check(found, "mean_iou", *(100 * metrics.jaccard_score(*pair, average="macro") for pair in pairs))
    check(found, "pixel_accuracy", *(100 * metrics.accuracy_score(*pair) for pair in pairs))
    np.testing.assert_allclose([one["iou"]["model"] for one in found["classes"]],
                               100 * metrics.jaccard_score(*pairs[1], average=None))  # fmt: skip
    rows = [special.softmax(x.astype(np.float64), axis=1) for x in (a, b)]
    assert found["outputs"]["y"]["kl_mean"] == pytest.approx(special.rel_entr(*rows).sum(1).mean(), rel=1e-6)


def test_maps_of_one_number_a_pixel_have_a_threshold(evaluate):
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 2, (20, 8, 8))
    a = np.clip(labels + 0.4 * rng.standard_normal(labels.shape), 0, 1).astype(np.float32)[:, None]
    b = np.clip(a + 0.3 * rng.standard_normal(a.shape), 0, 1).astype(np.float32)
    found = evaluate(a, b, labels, "--task", "segment", "--threshold", "0.4")
    check(found, "mean_iou", *(100 * metrics.jaccard_score(labels.ravel(), x.ravel() > 0.4, average="macro") for x in (a, b)))


def ssim(a, b, peak):
    """scikit-image's structural_similarity with gaussian_weights=True, sigma=1.5, use_sample_covariance=False."""
    a, b = a.astype(np.float64), b.astype(np.float64)

    def mean(x):
        return ndimage.gaussian_filter(x, 1.5, truncate=3.5)[5:-5, 5:-5]

    ua, ub = mean(a), mean(b)
    va, vb, vab = mean(a * a) - ua * ua, mean(b * b) - ub * ub, mean(a * b) - ua * ub
    c1, c2 = (0.01 * peak) ** 2, (0.03 * peak) ** 2
    return ((2 * ua * ub + c1) * (2 * vab + c2) / ((ua * ua + ub * ub + c1) * (va + vb + c2))).mean()


@pytest.mark.parametrize("shape, peak", [((3, 20, 17), 1), ((14, 15, 3), 1), ((1, 11, 30), 255)])
def test_pictures_are_scored_by_definition(evaluate, shape, peak):
    rng = np.random.default_rng(peak)
    y = ndimage.gaussian_filter(rng.random((12, *shape)), (0, 1, 1, 1)) * peak
    y = y.astype(np.uint8 if peak == 255 else np.float32)
    a, b = ((y + s * peak * rng.standard_normal(y.shape)).astype(np.float32) for s in (0.02, 0.03))
    found = evaluate(a, b, y)
    assert found["task"] == "image"
    error = [((x.astype(np.float64) - y) ** 2).reshape(12, -1).mean(1) for x in (a, b)]
    check(found, "psnr", *((10 * np.log10(peak**2 / e)).mean() for e in error), rtol=1e-9)
    planes = (lambda x: np.moveaxis(x, -1, 0)) if shape[-1] == 3 else (lambda x: x)
    expected = [np.mean([ssim(p, q, peak) for s, t in zip(y, x, strict=True) for p, q in zip(planes(s), planes(t), strict=True)])
                for x in (a, b)]  # fmt: skip
    check(found, "ssim", *expected, rtol=1e-9)


def test_pictures_are_scored_as_scikit_image_scores_them(evaluate):
    measures = pytest.importorskip("skimage.metrics")
    rng = np.random.default_rng(8)
    y = ndimage.gaussian_filter(rng.random((9, 3, 25, 18)), (0, 0, 1, 1)).astype(np.float32)
    a, b = ((y + s * rng.standard_normal(y.shape)).astype(np.float32) for s in (0.01, 0.05))
    found = evaluate(a, b, y)
    wide = [x.astype(np.float64) for x in (y, a, b)]
    check(found, "psnr", *(np.mean([measures.peak_signal_noise_ratio(p, q, data_range=1) for p, q in zip(wide[0], x, strict=True)]) for x in wide[1:]))
    how = {"data_range": 1, "channel_axis": 0, "gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
    check(found, "ssim", *(np.mean([measures.structural_similarity(p, q, **how) for p, q in zip(wide[0], x, strict=True)]) for x in wide[1:]))


def test_texts_are_scored_as_jiwer_scores_them(evaluate, tmp_path):
    jiwer = pytest.importorskip("jiwer")
    rng = np.random.default_rng(6)
    symbols = [*"abcdé字", " "]
    (tmp_path / "alphabet.txt").write_text("".join(f"{s}\n" for s in symbols), encoding="utf-8")
    paths = rng.integers(0, 8, (50, 20))
    a = np.eye(8, dtype=np.float32)[paths] * 3 + rng.standard_normal((50, 20, 8)).astype(np.float32)
    b = a + rng.standard_normal(a.shape).astype(np.float32)
    labels = [" ".join("".join(rng.choice(list("abcdé字"), 3)) for _ in range(3)) for _ in range(50)]
    found = evaluate(a, b, labels, "--alphabet", tmp_path / "alphabet.txt")
    read = [["".join(["", *symbols][c] for i, c in enumerate(p) if c and (i == 0 or p[i - 1] != c)) for p in x.argmax(2)] for x in (a, b)]
    check(found, "cer", *(100 * jiwer.cer(labels, texts) for texts in read))
    check(found, "wer", *(100 * jiwer.wer(labels, texts) for texts in read))


def edits(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        new = [i + 1]
        for j, y in enumerate(b):
            new.append(min(row[j] + (x != y), row[j + 1] + 1, new[j] + 1))
        row = new
    return row[-1]


@pytest.mark.parametrize("blank", [0, 5])
def test_texts_are_scored_by_edits(evaluate, tmp_path, blank):
    rng = np.random.default_rng(4)
    symbols = ["a", "b", "é", "字", " "]
    (tmp_path / "alphabet.txt").write_text("".join(f"{s}\n" for s in symbols[:4] + ([" "] if blank else [])), encoding="utf-8")
    classes = symbols.copy()
    classes.insert(blank, "")
    paths = rng.integers(0, 6, (60, 14))
    a = np.eye(6, dtype=np.float32)[paths] * 3 + rng.standard_normal((60, 14, 6)).astype(np.float32)
    b = a + rng.standard_normal(a.shape).astype(np.float32)

    def text_of(path):
        kept = [c for i, c in enumerate(path) if c != blank and (i == 0 or path[i - 1] != c)]
        return "".join(classes[c] for c in kept)

    labels = [text_of(path) or "a" for path in paths]
    found = evaluate(a, b, labels, "--alphabet", tmp_path / "alphabet.txt", "--blank", str(blank))
    texts = [[text_of(path) for path in x.argmax(2)] for x in (a, b)]

    def rate(split, found_texts):
        pairs = [(split(label), split(text)) for label, text in zip(labels, found_texts, strict=True)]
        return 100 * sum(edits(*pair) for pair in pairs) / sum(len(label) for label, _ in pairs)

    check(found, "cer", *(rate(lambda s: list(s.strip()), t) for t in texts))
    check(found, "wer", *(rate(str.split, t) for t in texts))
    assert all(worst["model"] == texts[1][worst["sample"]] for worst in found["worst"])


def test_failing_conditions_are_exit_code_3(evaluate):
    labels, a, b = drawn_classes(11)
    drop = 100 * ((a.argmax(1) == labels).mean() - (b.argmax(1) == labels).mean())
    found = evaluate(a, b, labels, "--fail-if", f"top1_drop > {drop + 0.1}", "--fail-if", "kl_mean >= 1e9")
    assert [one["holds"] for one in found["conditions"]] == [False, False]
    found = evaluate(a, b, labels, "--fail-if", f"top1_drop>{drop - 0.1}", "--fail-if", "kl_mean >= 1e9", status=3)
    assert [one["holds"] for one in found["conditions"]] == [True, False]
    assert found["conditions"][0]["value"] == pytest.approx(drop)
    shown = evaluate(a, b, labels, "--fail-if", "sqnr_db < 1000", status=3, json_flag=False)
    assert "fails: sqnr_db < 1000" in shown.stdout
    # Where less is better, a drop is what was added.
    y = np.zeros(len(a), np.float32)
    evaluate(a[:, :1], b[:, :1], y, "--fail-if", "rmse_drop > 0", status=3 if np.square(b[:, 0]).mean() > np.square(a[:, 0]).mean() else 0)


@pytest.mark.parametrize("flags, words", [
    (["--fail-if", "top1_dorp > 1"], ["top1_drop"]),
    (["--fail-if", "top1 1"], ["NUMBER"]),
    (["--fail-if", "top1 > x"], ["'x'"]),
    (["--fail-if", "rmse_drop > 1"], ["rmse_drop", "top1_drop"]),
    (["--task", "ctc"], ["array", "text"]),
    (["--task", "lm"], ["text"]),
    (["--output", "z"], ["--output: ", "'z'", "'y'"]),
    (["--peak", "2"], ["--peak", "image", "classify"]),
    (["--alphabet", "a.txt"], ["--alphabet", "ctc", "classify"]),
])  # fmt: skip
def test_wrong_requests_name_what_is_wrong(evaluate, flags, words):
    labels, a, b = drawn_classes(13)
    done = evaluate(a, b, labels, *flags, status=2)
    assert done.stdout == "" and all(word in done.stderr for word in words), done.stderr


@pytest.mark.parametrize("labels, status, words", [
    (np.zeros(399, np.int64), 2, ["399", "400"]),
    (np.full(400, 7), 1, ["sample 0", "label is 7", "6"]),
    (np.zeros((400, 2, 2), np.int64), 2, ["[2, 2]", "[7]", "--task"]),
    (np.zeros((400, 3), np.float32), 2, ["[3]", "[7]"]),
])  # fmt: skip
def test_labels_that_do_not_fit_are_refused(evaluate, labels, status, words):
    _, a, b = drawn_classes(17)
    done = evaluate(a, b, labels, status=status)
    assert all(word in done.stderr for word in words), done.stderr


def test_several_models_folders_and_the_same_digits(crumb, evaluate, tmp_path):
    labels, a, b = drawn_classes(19)
    whole = evaluate(a, b, labels, "--threads", "1")
    assert whole == evaluate(a, b, labels, "--threads", "3")
    for name, array in (("fa", a), ("fb", b), ("fy", labels)):
        (tmp_path / name).mkdir()
        for i, part in enumerate(np.array_split(array, [3, 150])):
            np.save(tmp_path / name / f"{i}.npy", part)
    done = crumb("eval", tmp_path / "b.onnx", tmp_path / "a.onnx", "--baseline", tmp_path / "a.onnx",
                 "--data", f"a={tmp_path / 'fa'}", "--data", f"b={tmp_path / 'fb'}", "--labels", tmp_path / "fy", "--json")  # fmt: skip
    models = json.loads(done.stdout)["models"]
    assert models[0] == {"model": str(tmp_path / "b.onnx"), **{key: whole[key] for key in models[0] if key != "model"}}
    assert models[1]["metrics"]["top1"]["difference"] == 0 and models[1]["metrics"]["top1"]["p"] == 1
    assert models[1]["outputs"]["y"]["sqnr_db"] is None and models[1]["worst"] == []


def test_other_names_are_matched_by_position_and_said(crumb, tmp_path):
    """Outputs c and d of one network are e and f of the other, which has them in that order."""
    x = np.random.default_rng(31).standard_normal((20, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    paths = []
    for names in ("cd", "ef"):
        value = [h.make_tensor_value_info(name, T.FLOAT, ["N", 4]) for name in ("x", *names)]
        nodes = [h.make_node("Relu", ["x"], [names[0]]), h.make_node("Neg", ["x"], [names[1]])]
        graph = h.make_graph(nodes, "g", value[:1], value[1:])
        paths.append(tmp_path / f"{names}.onnx")
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8)
        paths[-1].write_bytes(model.SerializeToString())
    done = crumb("eval", paths[1], "--baseline", paths[0], "--data", tmp_path / "x.npy", "--json")
    assert "matched by position" in done.stderr
    outputs = json.loads(done.stdout)["outputs"]
    assert set(outputs) == {"c", "d"} and all(one["sqnr_db"] is None for one in outputs.values())
    same = crumb("eval", paths[0], "--baseline", paths[0], "--data", tmp_path / "x.npy")
    assert "position" not in same.stderr


def test_values_that_are_not_finite_are_counted(evaluate):
    _, a, b = drawn_classes(23)
    b[3, 2], b[4, 1] = np.nan, np.inf
    found = evaluate(a, b)
    output = found["outputs"]["y"]
    assert (output["not_finite"], output["not_finite_baseline"]) == (2, 0)
    assert {worst["sample"] for worst in found["worst"][:2]} == {3, 4}


def test_ctrl_c_prints_what_there_is(crumb_bin, tmp_path):
    rng = np.random.default_rng(29)
    a = rng.standard_normal((20000, 64)).astype(np.float32)
    np.save(tmp_path / "x.npy", a)
    np.save(tmp_path / "y.npy", rng.integers(0, 64, 20000))
    model = answer(tmp_path / "m.onnx", "a", [64], repeats=40)
    command = [crumb_bin, "eval", model, "--baseline", model, "--data", f"a={tmp_path / 'x.npy'}", "--data",
               f"b={tmp_path / 'x.npy'}", "--labels", tmp_path / "y.npy", "--json"]  # fmt: skip
    for delay in (0.15, 0.3, 0.6):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        if process.returncode == 130 and out:
            found = json.loads(out)
            assert found["interrupted"] and 0 < found["samples"] < 20000
            assert found["metrics"]["top1"]["difference"] == 0
            return
        assert process.returncode in (0, 130, -signal.SIGINT), err
    pytest.skip("the run was too quick to be interrupted")
