"""The stage gptq of `crumb quantize`: the codes are those of GPTQ as numpy has it; decoders, sentence encoders and convolutional
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
        columns = np.arange(size) if columns is None else columns
        alike = 0
        for row in range(outputs):
            off = [k for k in columns if round(found[row, k]) != codes[row, k]]
            alike += not off
            if off:  # the first of them lay between two codes, as far as float32 can see; the others follow from it
                edge = abs(targets[row, off[0]] - np.floor(targets[row, off[0]]) - 0.5)
                assert edge < 1e-3, (row, off[0], targets[row, off[0]])
        assert alike >= 0.9 * outputs


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
    for out, how in zip(short, (["--method", "gptq"], ["--stages", "gptq"]), strict=True):
        crumb("quantize", tmp_path / "m.onnx", "-o", out, "--weights", "int3:group=16", *how, "--data", tmp_path / "x.npy")
    assert short[0].read_bytes() == short[1].read_bytes()


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


def test_a_sentence_encoder_by_lines(crumb, minilm, tmp_path):
    lines = ["A cat sat on the mat.", "", "Rain is expected in the north tomorrow, and wind.", "How do I sort a list?"] * 12
    (tmp_path / "lines.txt").write_text("\n".join(f"{line} {i}" if line else "" for i, line in enumerate(lines)))
    (tmp_path / "others.txt").write_text("Wind from the west.\nThe list is sorted by name.\nTwo cats, and a mat of straw.\n")
    vectors = {}
    how = {"float": minilm}
    for name, flags in (("plain", []), ("gptq", ["--stages", "gptq:sweeps=2", "--data", tmp_path / "lines.txt", "--tokens", 600])):
        how[name] = tmp_path / f"{name}.crumb"
        crumb("quantize", minilm, "-o", how[name], "--weights", "int3:group=64", *flags)
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

    assert "needs samples that run through the network: --data" in refused("--stages", "gptq", status=2)
    assert "holds inf or NaN" in refused("--stages", "gptq", "--data", tmp_path / "x.npy")
    assert "on or off" in refused("--stages", "gptq:order=maybe", "--data", tmp_path / "x.npy", status=2)
    np.save(tmp_path / "x.npy", np.zeros((3, 8), np.float32))
    assert "no layer that becomes codes" in refused("--exclude", "w", "--stages", "gptq", "--data", tmp_path / "x.npy")
    assert not (tmp_path / "q.crumb").exists()
    crumb("quantize", tmp_path / "m.onnx", "-o", tmp_path / "plain.crumb", "--weights", "int4")
    said = crumb("quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.crumb", "--weights", "int4", "--stages", "gptq", "--data", tmp_path / "x.npy")
    assert "w: no sample reaches it, which keeps rounding" in said.stdout
    assert np.array_equal(*(decoded(crumb, tmp_path / f"{n}.crumb", tmp_path / "o.safetensors")["w"] for n in ("q", "plain")))
