"""The stages gptq, gpfq and qronos of `crumb quantize`: the codes are those of their papers as numpy has them; decoders, sentence encoders and convolutional
networks come out nearer to their floats than rounded ones; what it cannot do is said."""

import json

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
safetensors = pytest.importorskip("safetensors.numpy")
PLAIN = "gptq:order=off:scales=off:sweeps=0:float_inputs=off"


def scales_of(w, group, most):
    """absmax, in float16 as groups keep them, of rows [out, in]."""
    scales = np.abs(w).reshape(len(w), -1, group).max(-1) / np.float32(most)
    return np.repeat(scales.astype(np.float16).astype(np.float64), group, axis=1)


def gptq(w, x, scales, most, damping=0.01, order=None):
    """Frantar et al. 2022, algorithm 1, a column at a time, in double. w [out, in], x [samples, in]. The codes, and what they were
    rounded from."""
    w = w.astype(np.float64).copy()
    h = x.astype(np.float64).T @ x.astype(np.float64)
    h += damping * np.mean(np.diag(h)) * np.eye(len(h))
    order = np.arange(len(h)) if order is None else order
    u = np.linalg.cholesky(np.linalg.inv(h[np.ix_(order, order)])).T
    codes, targets = np.zeros_like(w), np.zeros_like(w)
    for k, column in enumerate(order):
        s = scales[:, column]
        targets[:, column] = w[:, column] / s
        codes[:, column] = np.clip(np.rint(targets[:, column]), -most, most)
        error = (w[:, column] - codes[:, column] * s) / u[k, k]
        w[:, order[k + 1 :]] -= error[:, None] * u[k, k + 1 :]
    return codes, targets


def gpfq(w, y, x, scales, most, order):
    """Lybrand & Saab 2021: q_t brings u = y w - x q nearest to 0 after t columns. w [out, in], y of the float network, x of the quantized
    one [samples, in]."""
    u = np.zeros((len(w), len(x)))
    codes, targets = np.zeros_like(w), np.zeros_like(w)
    for k in order:
        u += np.outer(w[:, k], y[:, k])
        targets[:, k] = u @ x[:, k] / (x[:, k] @ x[:, k]) / scales[:, k]
        codes[:, k] = np.clip(np.rint(targets[:, k]), -most, most)
        u -= np.outer(codes[:, k] * scales[:, k], x[:, k])
    return codes, targets


def qronos(w, y, x, scales, most, order, damping=0.01):
    """Zhang et al. 2025, algorithm 1, in their second form: the first column beside the others as they are, the others solved for, then
    GPTQ's steps."""
    h, g = x.T @ x, y.T @ x
    share = damping * np.mean(np.diag(h)) * np.eye(len(h))
    h, g = (h + share)[np.ix_(order, order)], (g + share)[np.ix_(order, order)]
    w, s = w[:, order], scales[:, order]
    codes, targets = np.zeros_like(w), np.zeros_like(w)
    targets[:, 0] = (w @ g[:, 0] - w[:, 1:] @ h[1:, 0]) / h[0, 0] / s[:, 0]
    codes[:, 0] = np.clip(np.rint(targets[:, 0]), -most, most)
    rest = (w @ g[:, 1:] - np.outer(codes[:, 0] * s[:, 0], h[0, 1:])) @ np.linalg.inv(h[1:, 1:])
    u = np.linalg.cholesky(np.linalg.inv(h[1:, 1:])).T
    for k in range(rest.shape[1]):
        targets[:, k + 1] = rest[:, k] / s[:, k + 1]
        codes[:, k + 1] = np.clip(np.rint(targets[:, k + 1]), -most, most)
        rest[:, k + 1 :] -= np.outer((rest[:, k] - codes[:, k + 1] * s[:, k + 1]) / u[k, k], u[k, k + 1 :])
    back = np.argsort(order)
    return codes[:, back], targets[:, back]


def product(path, w):
    """y = x w, w [in, out]."""
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [helper.make_tensor_value_info("x", 1, ["n", w.shape[0]])], [helper.make_tensor_value_info("y", 1, ["n", w.shape[1]])],
        [onnx.numpy_helper.from_array(w, "w")])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def decoded(crumb, packed, out):
    crumb("dequantize", packed, "-o", out)
    return safetensors.load_file(out)


@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize(("bits", "group"), [(4, 16), (3, 8), (2, 16)])
def test_codes_are_those_of_numpy(crumb, tmp_path, bits, group, order):
    rng = np.random.default_rng(bits + order)
    for size, outputs in ((16, 5), (48, 33), (96, 20)):
        w = rng.normal(size=(size, outputs)).astype(np.float32)
        x = (rng.normal(size=(3 * size, size)) @ (np.eye(size) + 0.4 * rng.normal(size=(size, size)))).astype(np.float32)
        product(tmp_path / "m.onnx", w)
        np.save(tmp_path / "x.npy", x)
        stage = PLAIN.replace("order=off", "order=on") if order else PLAIN
        crumb("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.crumb", "--weights", f"int{bits}:group={group}", "--stages", stage,
              "--data", tmp_path / "x.npy")  # fmt: skip
        most = 2 ** (bits - 1) - 1
        scales = scales_of(w.T, group, most)
        columns = np.argsort(-np.sum(x.astype(np.float64) ** 2, axis=0), kind="stable") if order else None
        codes, targets = gptq(w.T, x, scales, most, order=columns)
        (found,) = decoded(crumb, tmp_path / "q.crumb", tmp_path / "q.safetensors").values()
        found = (found if found.shape == codes.shape else found.T) / scales
        check_alike(found, codes, targets, np.arange(size) if columns is None else columns)


def check_alike(found, codes, targets, columns):
    alike = 0
    for row in range(len(codes)):
        off = [k for k in columns if round(found[row, k]) != codes[row, k]]
        alike += not off
        if off:  # the first of them lay between two codes, as far as float32 can see; the others follow from it
            edge = abs(targets[row, off[0]] - np.floor(targets[row, off[0]]) - 0.5)
            assert edge < 1e-3, (row, off[0], targets[row, off[0]])
    assert alike >= 0.9 * len(codes)


@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize("stage", [gpfq, qronos])
def test_codes_behind_a_quantized_layer_are_those_of_numpy(crumb, tmp_path, stage, order):
    """The second of two layers: what it takes in is not what it takes in in floats."""
    rng = np.random.default_rng(11)
    first, second = (rng.normal(size=shape).astype(np.float32) for shape in ((24, 64), (64, 40)))
    x = (rng.normal(size=(300, 24)) @ (np.eye(24) + 0.3 * rng.normal(size=(24, 24)))).astype(np.float32)
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "first"], ["a"]), helper.make_node("Relu", ["a"], ["b"]), helper.make_node("MatMul", ["b", "second"], ["y"])],
        "g", [helper.make_tensor_value_info("x", 1, ["n", 24])], [helper.make_tensor_value_info("y", 1, ["n", 40])],
        [onnx.numpy_helper.from_array(first, "first"), onnx.numpy_helper.from_array(second, "second")])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", x)
    crumb("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.crumb", "--weights", "int3:group=8", "--data", tmp_path / "x.npy",
          "--stages", f"{stage.__name__}:scales=off:order={'on' if order else 'off'}")  # fmt: skip
    made = decoded(crumb, tmp_path / "q.crumb", tmp_path / "q.safetensors")
    inner, found = (made[name] if made[name].shape == w.shape else made[name].T for name, w in (("first", first), ("second", second)))
    floats, taken = (np.maximum(x.astype(np.float64) @ w, 0) for w in (first.astype(np.float64), inner.astype(np.float64)))
    columns = np.argsort(-np.sum(taken**2, axis=0), kind="stable") if order else np.arange(64)
    scales = scales_of(second.T, 8, 3)
    codes, targets = stage(second.T.astype(np.float64), floats, taken, scales, 3, columns)
    check_alike(found.T / scales, codes, targets, columns)


def test_outputs_lose_less(crumb, tmp_path):
    """The report's figures are those of the file, on the samples that it was made by."""
    rng = np.random.default_rng(7)
    w = rng.normal(size=(64, 40)).astype(np.float32)
    x = (rng.normal(size=(400, 64)) @ (np.eye(64) + 0.3 * rng.normal(size=(64, 64)))).astype(np.float32)
    product(tmp_path / "m.onnx", w)
    np.save(tmp_path / "x.npy", x)
    last = 1.0
    for stage in (PLAIN, "gptq:sweeps=0", "gptq", "gptq:sweeps=12"):
        said = crumb("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.crumb", "--weights", "int3:group=16", "--stages", stage,
                     "--data", tmp_path / "x.npy", "--json")  # fmt: skip
        (report,) = json.loads(said.stdout)["stages"]
        (line,) = report["layers"]
        (found,) = decoded(crumb, tmp_path / "q.crumb", tmp_path / "q.safetensors").values()
        found = found if found.shape == w.shape else found.T
        lost = np.sum((x @ (found - w)).astype(np.float64) ** 2) / np.sum((x @ w).astype(np.float64) ** 2)
        assert report["measure"] == "outputs" and line["after"] == pytest.approx(lost, rel=1e-3)
        assert line["after"] < min(line["before"], last)
        last = line["after"]
    again = tmp_path / "again.crumb"
    crumb("quantize", tmp_path / "m.onnx", "-o", again, "--weights", "int3:group=16", "--stages", stage, "--data", tmp_path / "x.npy", "--threads", 1)
    assert again.read_bytes() == (tmp_path / "q.crumb").read_bytes()
    short = [tmp_path / "short.crumb", tmp_path / "long.crumb"]
    for method in ("gptq", "gpfq", "qronos"):
        for out, how in zip(short, (["--method", method], ["--stages", method]), strict=True):
            crumb("quantize", tmp_path / "m.onnx", "-o", out, "--weights", "int3:group=16", *how, "--data", tmp_path / "x.npy")
        assert short[0].read_bytes() == short[1].read_bytes()


@pytest.mark.parametrize("method", ["gptq", "gpfq", "qronos"])
def test_magnitudes_shrink_first(crumb, tmp_path, method):
    """One large weight in each row: with magr the row's scale, which is that of the largest, becomes smaller."""
    rng = np.random.default_rng(5)
    w = rng.normal(size=(64, 20)).astype(np.float32)
    w[rng.integers(0, 64, 20), np.arange(20)] = 6
    x = (rng.normal(size=(300, 64)) @ (np.eye(64) + 0.5 * rng.normal(size=(64, 64)))).astype(np.float32)
    product(tmp_path / "m.onnx", w)
    np.save(tmp_path / "x.npy", x)
    most = {}
    for alpha in ("0", "0.05"):
        crumb("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.crumb", "--weights", "int4:channel", "--data", tmp_path / "x.npy",
              "--stages", f"{method}:magr={alpha}")  # fmt: skip
        (found,) = decoded(crumb, tmp_path / "q.crumb", tmp_path / "q.safetensors").values()
        most[alpha] = np.mean(np.abs(found if found.shape == w.shape else found.T).max(0))
        lost = np.sum((x @ (found if found.shape == w.shape else found.T) - x @ w) ** 2) / np.sum((x @ w) ** 2)
        assert lost < 0.1
    assert most["0.05"] < 0.95 * most["0"]


@pytest.mark.parametrize("weights", ["int3:group=16", "int2h:group=16", "e2m1:group=16", "mxfp4:pad", "palette3"])
def test_a_decoder_is_nearer_to_its_floats(crumb, tmp_path, weights):
    tiny = pytest.importorskip("tiny_decoders")
    tiny.make("llama3", tmp_path / "model")
    tiny.write_texts(tmp_path)
    found = {}
    for name, flags in (("plain", []), ("gptq", ["--stages", "gptq", "--data", tmp_path / "train.txt", "--tokens", 3000])):
        crumb("quantize", tmp_path / "model", "-o", tmp_path / f"{name}.crumb", "--weights", weights, "--embeddings", "keep", *flags)
        said = crumb("perplexity", tmp_path / f"{name}.crumb", "--text", tmp_path / "valid.txt", "--context", 24, "--baseline",
                     tmp_path / "model", "--json")  # fmt: skip
        found[name] = json.loads(said.stdout)["kl_mean"]
    assert found["gptq"] < 0.8 * found["plain"]


def test_a_sentence_encoder_by_lines(crumb, short_minilm, tmp_path):
    lines = ["A cat sat on the mat.", "", "Rain is expected in the north tomorrow, and wind.", "How do I sort a list?"] * 12
    (tmp_path / "lines.txt").write_text("\n".join(f"{line} {i}" if line else "" for i, line in enumerate(lines)))
    (tmp_path / "others.txt").write_text("Wind from the west.\nThe list is sorted by name.\nTwo cats, and a mat of straw.\n")
    vectors = {}
    how = {"float": short_minilm}
    for name, flags in (("plain", []), ("gptq", ["--stages", "gptq:sweeps=2", "--data", tmp_path / "lines.txt", "--tokens", 600])):
        how[name] = tmp_path / f"{name}.crumb"
        crumb("quantize", short_minilm, "-o", how[name], "--weights", "int3:group=64", *flags)
    for name, model in how.items():
        crumb("embed", model, "--text", tmp_path / "others.txt", "-o", tmp_path / "v.npy")
        rows = np.load(tmp_path / "v.npy").astype(np.float64)
        vectors[name] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosine = {name: np.mean(np.sum(vectors["float"] * vectors[name], axis=1)) for name in vectors}
    assert 1 - cosine["gptq"] < 0.7 * (1 - cosine["plain"])


def test_what_it_cannot_do_is_said(crumb, tmp_path):
    rng = np.random.default_rng(1)
    product(tmp_path / "m.onnx", rng.normal(size=(8, 4)).astype(np.float32))
    np.save(tmp_path / "x.npy", np.full((3, 8), np.nan, np.float32))

    def refused(*flags, status=1):
        return crumb("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.crumb", "--weights", "int4", *flags, status=status).stderr

    for stage in ("gptq", "gpfq", "qronos"):
        assert f"the stage {stage} needs samples that run through the network: --data" in refused("--stages", stage, status=2)
    assert "a number from 0 on" in refused("--stages", "gpfq:magr=-1", "--data", tmp_path / "x.npy", status=2)
    assert "gpfq" in refused("--method", "awful", "--data", tmp_path / "x.npy", status=2)
    assert "holds inf or NaN" in refused("--stages", "gptq", "--data", tmp_path / "x.npy")
    assert "on or off" in refused("--stages", "gptq:order=maybe", "--data", tmp_path / "x.npy", status=2)
    np.save(tmp_path / "x.npy", np.zeros((3, 8), np.float32))
    assert "no layer that becomes codes" in refused("--exclude", "w", "--stages", "gptq", "--data", tmp_path / "x.npy")
    assert not (tmp_path / "q.crumb").exists()
    crumb("quantize", tmp_path / "m.onnx", "-o", tmp_path / "plain.crumb", "--weights", "int4")
    said = crumb("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.crumb", "--weights", "int4", "--stages", "gptq", "--data", tmp_path / "x.npy")
    assert "w: no sample reaches it, which keeps rounding" in said.stdout
    assert np.array_equal(*(decoded(crumb, tmp_path / f"{n}.crumb", tmp_path / "o.safetensors")["w"] for n in ("q", "plain")))
