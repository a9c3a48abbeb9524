"""How `crumb quantize` rounds where nobody says how: with samples weights take gptq where a layer loses less by it, which numpy finds, too; samples of
convolutions take little memory; stages that make the network worse are undone. And what of weights stayed floats, or refused a scheme."""

import json

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
safetensors = pytest.importorskip("safetensors.numpy")
helper, T = onnx.helper, onnx.TensorProto
MB = 1_000_000


def save(path, nodes, x, y, opset=17, **constants):
    graph = helper.make_graph(
        [helper.make_node(op, list(inputs), list(outs), **attributes) for op, inputs, outs, attributes in nodes], "g",
        [helper.make_tensor_value_info("x", T.FLOAT, x)], [helper.make_tensor_value_info("y", T.FLOAT, y)],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)


def quantize(crumb, folder, *flags, name="q.crumb", data=True):
    given = ["--data", folder / "x.npy"] if data else []
    return json.loads(crumb("quantize", folder / "m.onnx", "-o", folder / name, "--json", *given, *flags).stdout)


def decoded(crumb, folder, name="q.crumb"):
    crumb("dequantize", folder / name, "-o", folder / "q.safetensors")
    return safetensors.load_file(folder / "q.safetensors")


def floats_of(path, x):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0].astype(np.float64)


def run(crumb, folder, name="q.crumb"):
    crumb("run", folder / name, "--input", folder / "x.npy", "--output-dir", folder / "out")
    return np.load(folder / "out/y.npy").astype(np.float64)


def share_lost(x, w, q):
    """Of the outputs x w^T, w [out, in]."""
    x, w, q = (a.astype(np.float64) for a in (x, w, q))
    return np.sum((x @ (q - w).T) ** 2) / np.sum((x @ w.T) ** 2)


def rounded(w, most):
    scales = (np.abs(w).max(1, keepdims=True) / np.float32(most)).astype(np.float32)
    return np.clip(np.rint(w / scales), -most, most) * scales


def gptq(w, x, most, damping):
    """Frantar et al. 2022, algorithm 1, a column at a time, those with the largest inputs first, by absmax scales."""
    scales = np.abs(w).max(1) / most
    w, h = w.astype(np.float64).copy(), x.astype(np.float64).T @ x.astype(np.float64)
    h += damping * np.mean(np.diag(h)) * np.eye(len(h))
    order = np.argsort(-np.diag(h), kind="stable")
    u = np.linalg.cholesky(np.linalg.inv(h[np.ix_(order, order)])).T
    made = np.zeros_like(w)
    for k, column in enumerate(order):
        made[:, column] = np.clip(np.rint(w[:, column] / scales), -most, most) * scales
        error = (w[:, column] - made[:, column]) / u[k, k]
        w[:, order[k + 1 :]] -= error[:, None] * u[k, k + 1 :]
    return made


def correlated(rng, samples, size, strength):
    return (rng.normal(size=(samples, size)) @ (np.eye(size) + strength * rng.normal(size=(size, size)))).astype(np.float32)


@pytest.mark.parametrize(("bits", "size", "outputs", "strength"), [(8, 24, 40, 0.5), (4, 48, 16, 0.3), (3, 32, 9, 0.8), (8, 64, 8, 0.1), (2, 16, 30, 0.4)])
def test_a_layer_takes_what_loses_less_as_numpy_finds(crumb, tmp_path, bits, size, outputs, strength):
    rng = np.random.default_rng(bits * size)
    most, samples = 2 ** (bits - 1) - 1, 40 * size
    w, x = rng.normal(size=(outputs, size)).astype(np.float32), correlated(rng, samples, size, strength)
    save(tmp_path / "m.onnx", [("MatMul", "xw", "y", {})], ["n", size], ["n", outputs], w=np.ascontiguousarray(w.T))
    np.save(tmp_path / "x.npy", x)
    report = quantize(crumb, tmp_path, "--weights", f"int{bits}:channel")
    (stage,) = report["stages"]
    (layer,) = stage["layers"]
    assert stage["stage"].startswith("gptq")
    (q,) = decoded(crumb, tmp_path).values()
    q = q if q.shape == w.shape else q.T
    by_rounding, by_codes = share_lost(x, w, rounded(w, most)), share_lost(x, w, q)
    by_gptq = share_lost(x, w, gptq(w, x, most, 1 / 40))
    # Sums of float32 products of up to 512 samples and of 64 columns: 1e-5 of H at most, of a loss that is a difference a few times that.
    assert layer["before"] == pytest.approx(by_rounding, rel=1e-3)
    assert layer["after"] == pytest.approx(by_codes, rel=1e-3)
    assert by_codes < by_rounding and by_codes < 1.02 * by_gptq
    assert stage["loss_after"] < stage["loss_before"]
    plain = quantize(crumb, tmp_path, "--weights", f"int{bits}:channel", "--method", "rounding", name="p.crumb")
    (p,) = decoded(crumb, tmp_path, "p.crumb").values()
    np.testing.assert_array_equal(p if p.shape == w.shape else p.T, rounded(w, most))
    assert plain["stages"] == []


def test_few_samples_do_not_spoil_what_others_bring(crumb, tmp_path):
    """Of 6 samples in 96 dimensions anything can be learned: unseen ones then lose more than by rounding, unless few count for little."""
    worse = {"usual": 0, "gptq": 0}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        w, all_x = rng.normal(size=(20, 96)).astype(np.float32), correlated(rng, 506, 96, 0.05)
        save(tmp_path / "m.onnx", [("MatMul", "xw", "y", {})], ["n", 96], ["n", 20], w=np.ascontiguousarray(w.T))
        np.save(tmp_path / "x.npy", all_x[:6])
        unseen = share_lost(all_x[6:], w, rounded(w, 7))
        for name, flags in (("usual", []), ("gptq", ["--method", "gptq"])):
            quantize(crumb, tmp_path, "--weights", "int4:channel", *flags)
            (q,) = decoded(crumb, tmp_path).values()
            worse[name] += share_lost(all_x[6:], w, q if q.shape == w.shape else q.T) / unseen / 5
    assert worse["usual"] < 1.05 and worse["gptq"] > 1.1, worse


def test_what_is_asked_for_is_done(crumb, tmp_path):
    rng = np.random.default_rng(8)
    save(tmp_path / "m.onnx", [("MatMul", "xw", "y", {})], ["n", 16], ["n", 8], w=rng.normal(size=(16, 8)).astype(np.float32))
    x = correlated(rng, 100, 16, 0.5)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "r.yaml").write_text("version: 1\nweights: int4:channel\nstages: [clip]\n")
    of = lambda *flags, **more: [s["stage"] for s in quantize(crumb, tmp_path, *flags, **more)["stages"]]  # noqa: E731
    assert of("--recipe", tmp_path / "r.yaml") == ["clip"]
    assert of("--weights", "int4:channel", "--stages", "clip") == ["clip"]
    assert of("--weights", "int4:channel", "--method", "rounding") == []
    assert of("--weights", "keep", "--set", "w=keep") == []
    assert of("--weights", "int4:channel", data=False) == []
    (tmp_path / "r.yaml").write_text("version: 1\nweights: int4:channel\n")
    assert len(of("--recipe", tmp_path / "r.yaml")) == 1
    said = crumb("quantize", tmp_path / "m.onnx", "-o", tmp_path / "n.crumb", "--weights", "int4:channel")
    assert "--data" in said.stderr and "gptq" in said.stderr
    x[3, 2] = np.inf  # rounding does not care
    np.save(tmp_path / "x.npy", x)
    (stage,) = quantize(crumb, tmp_path, "--weights", "int4:channel")["stages"]
    assert any("keeps rounding" in note for note in stage["notes"])


def test_threads_change_no_code(crumb, tmp_path):
    rng = np.random.default_rng(9)
    nodes = [("Conv", "xw", "c", {"pads": [1] * 4}), ("Relu", "c", "r", {}), ("Conv", "rv", "y", {"group": 4})]
    weight = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    save(tmp_path / "m.onnx", nodes, ["n", 3, 40, 40], ["n", 8, 40, 40], w=weight(8, 3, 3, 3), v=weight(8, 2, 1, 1))
    np.save(tmp_path / "x.npy", rng.normal(size=(3, 3, 40, 40)).astype(np.float32))
    for threads in (1, 2, 3):
        quantize(crumb, tmp_path, "--weights", "int4:channel", "--threads", threads, name=f"{threads}.crumb")
    assert (tmp_path / "1.crumb").read_bytes() == (tmp_path / "2.crumb").read_bytes() == (tmp_path / "3.crumb").read_bytes()


def test_windows_of_large_images_take_little_memory(crumb, tmp_path):
    """Four images unfold to 4 * 144 * 384^2 numbers, 340 MB; in either network, as they are on the way, to 9.4 MB each."""
    rng = np.random.default_rng(10)
    nodes = [("Conv", "xw", "c", {"pads": [1] * 4}), ("Relu", "c", "r", {}), ("Conv", "rv", "d", {"pads": [1] * 4}), ("ReduceMean", "d", "y", {"axes": [2, 3]})]
    weight = lambda *shape: (0.1 * rng.normal(size=shape)).astype(np.float32)  # noqa: E731
    save(tmp_path / "m.onnx", nodes, ["n", 3, 384, 384], ["n", 16, 1, 1], w=weight(16, 3, 3, 3), v=weight(16, 16, 3, 3))
    np.save(tmp_path / "x.npy", rng.normal(size=(4, 3, 384, 384)).astype(np.float32))
    peak = {method: quantize(crumb, tmp_path, "--weights", "int8:channel", "--method", method, *more)["peak_rss_bytes"]
            for method, more in (("rounding", []), ("gptq", ["--memory", "32MB"]))}  # fmt: skip
    # Beyond what running takes: 32 MB on the way, two blocks of 17 MB, and values of three images twice in each network.
    assert peak["gptq"] - peak["rounding"] < 32 * MB + 2 * 17 * MB + 12 * 9.5 * MB, peak


def lopsided(path, rng):
    """Relu hides what is far below 0, and that is what most of the mean comes from: means come right by a bias that spoils the rest."""
    w, v = rng.normal(size=(24, 32)).astype(np.float32), rng.normal(size=(32, 6)).astype(np.float32)
    w[0] = -np.abs(w[0])  # what the first input brings is below 0 in all outputs
    save(path, [("Gemm", "xwb", "h", {}), ("Relu", "h", "r", {}), ("MatMul", "rv", "y", {})], ["n", 24], ["n", 6],
         w=w, b=rng.normal(size=32).astype(np.float32), v=v)  # fmt: skip
    x = rng.normal(size=(256, 24)).astype(np.float32)  # as many as stages are judged by: eight batches of 32
    x[:, 0] = np.where(rng.random(256) < 0.15, 300, 0)
    return x


def test_a_correction_of_what_relu_hides_is_undone(crumb, tmp_path):
    undone = 0
    for seed in range(4):
        x = lopsided(tmp_path / "m.onnx", np.random.default_rng(seed))
        np.save(tmp_path / "x.npy", x)
        meant = floats_of(tmp_path / "m.onnx", x)
        how = ["--weights", "int4:channel"]
        (stage,) = quantize(crumb, tmp_path, *how, "--stages", "bias_correction")["stages"]
        lost = np.sum((run(crumb, tmp_path) - meant) ** 2)
        quantize(crumb, tmp_path, *how, "--method", "rounding", name="p.crumb")
        before = np.sum((run(crumb, tmp_path, "p.crumb") - meant) ** 2)
        assert stage["loss_before"] == pytest.approx(before / np.sum(meant**2), rel=1e-3)
        assert lost <= before * (1 + 1e-6)
        assert stage["rolled_back"] == (stage["loss_after"] > stage["loss_before"])
        if stage["rolled_back"]:
            undone += 1
            assert "rolled back" in stage["notes"][0] and lost == pytest.approx(before, rel=1e-6)
    assert undone >= 2


@pytest.mark.parametrize("seed", range(4))
def test_no_correction_leaves_more_lost_than_was(crumb, tmp_path, seed):
    rng = np.random.default_rng(100 + seed)
    x = lopsided(tmp_path / "m.onnx", rng)
    np.save(tmp_path / "x.npy", x)
    meant = floats_of(tmp_path / "m.onnx", x)
    before = [stage for stages in (["equalize", "split"], ["gptq:sweeps=1"])
              for stage in rng.permutation(stages) if rng.random() < 0.7] or ["gptq"]  # fmt: skip
    chosen = [*before, *rng.permutation(["bias_correction", "batch_norm"])]
    lost = {}
    for name, flags in (("plain", ["--stages", ",".join(before)]), ("stages", ["--stages", ",".join(chosen)])):
        report = quantize(crumb, tmp_path, "--weights", "int4:channel", *flags, name=f"{name}.crumb")
        lost[name] = np.sum((run(crumb, tmp_path, f"{name}.crumb") - meant) ** 2)
    kept = [stage for stage in report["stages"] if not stage["rolled_back"]]
    assert lost["stages"] <= lost["plain"] * (1 + 1e-6), (chosen, kept)


def test_constants_fold_without_samples(crumb, tmp_path):
    """An LSTM whose gates another framework keeps in another order."""
    rng = np.random.default_rng(12)
    size, hidden = 24, 32
    weight = lambda *shape: (0.3 * rng.normal(size=shape)).astype(np.float32)  # noqa: E731
    parts, nodes = {}, []
    for name, width in (("W", size), ("R", hidden)):
        parts[f"{name}0"] = weight(4 * hidden, width)
        for i, (a, b) in enumerate(((0, 1), (3, 4), (1, 3))):
            parts |= {f"{name}a{i}": np.array([a * hidden]), f"{name}b{i}": np.array([b * hidden])}
            nodes.append(("Slice", [f"{name}0", f"{name}a{i}", f"{name}b{i}", "zero"], [f"{name}s{i}"], {}))
        nodes.append(("Concat", [f"{name}s{i}" for i in range(3)], [f"{name}c"], {"axis": 0}))
        nodes.append(("Unsqueeze", [f"{name}c", "zero"], [name], {}))
    nodes += [("LSTM", ["x", "W", "R"], ["h", "", ""], {"hidden_size": hidden}), ("Squeeze", ["h", "one"], ["y"], {})]
    save(tmp_path / "m.onnx", nodes, [5, "n", size], [5, "n", hidden], zero=np.array([0]), one=np.array([1]), **parts)
    report = quantize(crumb, tmp_path, "--weights", "int8:channel", data=False)
    assert [line["shape"] for line in report["weights"] if line["spec"]] == [[1, 4 * hidden, hidden], [1, 4 * hidden, size]]  # R, W
    assert (tmp_path / "q.crumb").stat().st_size < (tmp_path / "m.onnx").stat().st_size / 2.5
    x = rng.normal(size=(5, 3, size)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    meant = floats_of(tmp_path / "m.onnx", x)
    assert np.sum((run(crumb, tmp_path) - meant) ** 2) < 1e-3 * np.sum(meant**2)


def test_scales_take_no_more_than_weights(crumb, tmp_path):
    rng = np.random.default_rng(13)
    weight = lambda *shape: rng.uniform(0.5, 1, shape).astype(np.float32)  # noqa: E731
    nodes = [("Conv", "xw", "a", {"group": 16}), ("Conv", "av", "b", {}), ("Conv", "bu", "y", {})]
    save(tmp_path / "m.onnx", nodes, ["n", 16, 4, 4], ["n", 1, 4, 4], w=weight(16, 1, 1, 1), v=weight(1, 16, 1, 1), u=weight(1, 1, 1, 1))
    report = quantize(crumb, tmp_path, "--weights", "int8:channel", data=False)
    lines = {line["name"]: line for line in report["weights"]}
    assert lines["w"]["spec"] == "int8:tensor" and lines["w"]["bits"] == 8 + 32 / 16
    assert lines["v"]["spec"] == "int8:channel" and lines["u"]["spec"] is None and lines["u"]["kept_because"]
    assert sum("scale" in note for note in report["notes"]) == 2
    x = rng.normal(size=(2, 16, 4, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    meant = floats_of(tmp_path / "m.onnx", x)
    assert np.sum((run(crumb, tmp_path) - meant) ** 2) < 1e-3 * np.sum(meant**2)


@pytest.mark.parametrize(("kernel", "channels"), [((3, 3), 3), ((1, 1), 200), ((5,), 32), ((2, 2, 2), 4), ((1, 1), 128)])
@pytest.mark.parametrize("to", ["crumb", "onnx"])
def test_a_scheme_takes_convolutions_that_its_groups_do_not_divide(crumb, tmp_path, kernel, channels, to):
    rng = np.random.default_rng(channels)
    columns = channels * int(np.prod(kernel))
    w = rng.normal(size=(8, channels, *kernel)).astype(np.float32)
    places = [6] * len(kernel)
    save(tmp_path / "m.onnx", [("Conv", "xw", "y", {})], ["n", channels, *places], ["n", 8, *(6 - k + 1 for k in kernel)], w=w)
    np.save(tmp_path / "x.npy", rng.normal(size=(3, channels, *places)).astype(np.float32))
    name = f"q.{to}"
    report = quantize(crumb, tmp_path, "--scheme", "W4A16", name=name, data=False)
    (line,) = report["weights"]
    fits = columns % 128 == 0
    assert line["spec"] == ("int4:group=128" if fits else "int4:group=128:pad=on")
    assert any("does not divide" in note and "'w'" in note for note in report["notes"]) != fits
    groups = -(-columns // 128)
    assert line["bits"] == pytest.approx(4 + 16 * groups / columns, abs=4 / columns)
    if to == "crumb":
        rows = w.reshape(8, -1)
        (q,) = decoded(crumb, tmp_path).values()
        for begin in range(0, columns, 128):
            part = rows[:, begin : begin + 128]
            scales = (np.abs(part).max(1, keepdims=True) / np.float32(7)).astype(np.float16).astype(np.float32)
            np.testing.assert_array_equal(q.reshape(8, -1)[:, begin : begin + 128], np.clip(np.rint(part / scales), -7, 7) * scales)
    if not fits:
        said = crumb("quantize", tmp_path / "m.onnx", "-o", tmp_path / "e.crumb", "--weights", "int4:group=128", status=None)
        assert said.returncode != 0 and "does not divide" in said.stderr


@pytest.mark.parametrize(("equation", "x", "w", "axis"), [
    ("ij,jk->ik", (3, 8), (8, 6), 1), ("bij,jhd->bihd", (2, 3, 8), (8, 2, 5), 2), ("oj,bj->bo", (7, 8), (7, 8), 0), ("bij,bjk->bik", (2, 3, 8), (2, 8, 4), 2),
    ("ij,jk", (3, 8), (8, 6), 1)])  # fmt: skip
def test_einsum_has_weights(crumb, tmp_path, equation, x, w, axis):
    rng = np.random.default_rng(14)
    weight = rng.normal(size=w).astype(np.float32)
    front = equation == "oj,bj->bo"
    if front:
        x = (4, 8)
    data = rng.normal(size=x).astype(np.float32)
    terms = (weight, data) if front else (data, weight)
    meant = np.einsum(equation, *terms)
    save(tmp_path / "m.onnx", [("Einsum", ["w", "x"] if front else ["x", "w"], ["y"], {"equation": equation})], list(x), list(meant.shape), w=weight)
    report = quantize(crumb, tmp_path, "--weights", "int8:channel", data=False)
    (line,) = report["weights"]
    assert line["spec"] and line["output_axis"] == axis
    (q,) = decoded(crumb, tmp_path).values()
    rows = np.moveaxis(weight, axis, 0)
    expected = rounded(rows.reshape(len(rows), -1), 127)
    found = q if q.shape == rows.shape else np.moveaxis(q, axis, 0)
    np.testing.assert_array_equal(found.reshape(len(rows), -1), expected)
    np.save(tmp_path / "x.npy", data)
    made = np.moveaxis(expected.reshape(rows.shape), 0, axis)
    np.testing.assert_allclose(run(crumb, tmp_path), np.einsum(equation, *((made, data) if front else (data, made))), rtol=1e-4, atol=1e-4)
