"""crumb eval on real networks in floats, eight and four bits: figures against libraries on what the models give, and against the
verbs that measure texts and sentences."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

metrics = pytest.importorskip("sklearn.metrics")
stats = pytest.importorskip("scipy.stats")
ROOT = Path(__file__).resolve().parents[2]


def evaluated(crumb, *arguments):
    return json.loads(crumb("eval", *arguments, "--json").stdout)


@pytest.fixture(scope="module")
def digits(crumb, tmp_path_factory):
    """The digits' network in floats, 8 and 4 bits, with x.npy and y.npy."""
    sys.path.append(str(ROOT / "tests/docs"))
    import test_shown_commands as pages

    folder = tmp_path_factory.mktemp("digits")
    pages.make_network(crumb, folder)
    crumb("quantize", folder / "net.onnx", "-o", folder / "w8a8.onnx", "--to", "qcdq", "--scheme", "W8A8", "--data", folder / "x.npy")
    crumb("quantize", folder / "net.onnx", "-o", folder / "w4a4.crumb", "--weights", "int4:channel", "--activations", "uint4:tensor",
          "--data", folder / "x.npy")  # fmt: skip
    return folder


@pytest.mark.parametrize("model", ["w8a8.onnx", "w4a4.crumb"])
def test_digits_are_scored_as_scikit_learn_scores_what_run_gives(crumb, digits, model):
    data = ["--data", digits / "x.npy"]
    found = evaluated(crumb, digits / model, "--baseline", digits / "net.onnx", *data, "--labels", digits / "y.npy")
    labels, outputs = np.load(digits / "y.npy"), []
    for name in ("net.onnx", model):
        crumb("run", digits / name, "--input", digits / "x.npy", "--output", digits / "out.npy")
        outputs.append(np.load(digits / "out.npy"))
    for which, output in zip(("baseline", "model"), outputs, strict=True):
        top = output.argmax(1)
        assert found["metrics"]["top1"][which] == pytest.approx(100 * metrics.accuracy_score(labels, top))
        assert found["metrics"]["balanced_accuracy"][which] == pytest.approx(100 * metrics.balanced_accuracy_score(labels, top))
    [figures] = found["outputs"].values()
    a, b = (output.astype(np.float64) for output in outputs)
    cosine = (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))
    assert figures["cosine"] == pytest.approx(cosine.mean(), rel=1e-9)
    assert figures["sqnr_db"] == pytest.approx(10 * np.log10((a * a).sum() / ((a - b) ** 2).sum()), rel=1e-6)
    assert figures["agreement"] == pytest.approx(100 * (a.argmax(1) == b.argmax(1)).mean())


@pytest.mark.parametrize("model", ["w8a8.onnx", "w4a4.crumb"])
def test_libtorchs_engine_is_within_rounding(crumb, digits, engine, model):
    """Where a value lies between two codes, rounding decides: few of the 200 images are affected, and little."""
    how = [digits / model, "--baseline", digits / "net.onnx", "--data", digits / "x.npy", "--labels", digits / "y.npy"]
    exact, near = evaluated(crumb, *how, "--engine", "runtime"), evaluated(crumb, *how, "--engine", "libtorch")
    for name, metric in exact["metrics"].items():
        assert near["metrics"][name]["baseline"] == pytest.approx(metric["baseline"], abs=1e-9), name
        assert near["metrics"][name]["model"] == pytest.approx(metric["model"], abs=1), name
    [a], [b] = exact["outputs"].values(), near["outputs"].values()
    assert b["sqnr_db"] == pytest.approx(a["sqnr_db"], abs=0.1) and b["kl_mean"] == pytest.approx(a["kl_mean"], rel=0.05)


def test_sentences_are_scored_as_scipy_scores_what_embed_gives(crumb, short_minilm, tmp_path):
    lines = (ROOT / "examples/sentences.txt").read_text(encoding="utf-8").splitlines()[:70]
    scores = np.random.default_rng(1).integers(0, 6, 35)
    (tmp_path / "pairs.txt").write_text("".join(f"{a}\t{b}\n" for a, b in zip(lines[::2], lines[1::2], strict=True)), encoding="utf-8")
    (tmp_path / "scores.txt").write_text("".join(f"{score}\n" for score in scores))
    (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    crumb("quantize", short_minilm, "-o", tmp_path / "w4.crumb", "--scheme", "W4A16")
    models = [tmp_path / "w4.crumb", "--baseline", short_minilm]
    vectors = {}
    for which, model in (("baseline", short_minilm), ("model", tmp_path / "w4.crumb")):
        crumb("embed", model, "--text", tmp_path / "lines.txt", "-o", tmp_path / "v.npy")
        vectors[which] = np.load(tmp_path / "v.npy").astype(np.float64)
    found = evaluated(crumb, *models, "--data", tmp_path / "pairs.txt", "--labels", tmp_path / "scores.txt")
    for which, v in vectors.items():
        cosine = (v[::2] * v[1::2]).sum(1) / np.sqrt((v[::2] ** 2).sum(1) * (v[1::2] ** 2).sum(1))
        assert found["metrics"]["spearman"][which] == pytest.approx(stats.spearmanr(cosine, scores).statistic, rel=1e-9)
    bare = evaluated(crumb, *models, "--data", tmp_path / "lines.txt")
    a, b = vectors.values()
    cosine = (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))
    assert (bare["samples"], bare["metrics"]) == (70, {})
    assert bare["outputs"]["sentence_embedding"]["cosine"] == pytest.approx(cosine.mean(), rel=1e-9)
    assert bare["worst"][0]["sample"] == np.argmax(((a - b) ** 2).sum(1) / (a * a).sum(1))
    spoiled = "encoder.layer.0.intermediate.dense.weight"
    crumb("quantize", short_minilm, "-o", tmp_path / "one.crumb", "--weights", "int8", "--set", f"{spoiled}=int2:channel")
    layers = evaluated(crumb, tmp_path / "one.crumb", *models[1:], "--data", tmp_path / "pairs.txt", "--layers",
                       "--layer-samples", 8)  # fmt: skip
    assert layers["layers"][0]["constants"] == [spoiled]
    assert layers["advice"][0]["set"] == f"--set '{spoiled}=int8:channel'" and layers["advice"][0]["gain_db"] > 3
    done = crumb("eval", *models, "--data", tmp_path / "lines.txt", "--labels", tmp_path / "scores.txt", status=2)
    assert "tabulator" in done.stderr


def test_texts_are_scored_as_perplexity_scores_them(crumb, tmp_path):
    pytest.importorskip("torch"), pytest.importorskip("transformers")
    sys.path.append(str(ROOT / "tests/models"))
    import tiny_decoders as tiny

    tiny.make("llama3", tmp_path / "model")
    tiny.write_texts(tmp_path)
    crumb("quantize", tmp_path / "model", "-o", tmp_path / "w2.crumb", "--weights", "int2h:group=16")
    how = [tmp_path / "w2.crumb", "--baseline", tmp_path / "model", "--context", "32"]
    found = evaluated(crumb, *how, "--data", tmp_path / "valid.txt", "--fail-if", "perplexity_drop > 1e9")
    expected = json.loads(crumb("perplexity", *how, "--text", tmp_path / "valid.txt", "--json").stdout)
    metric = found["metrics"]["perplexity"]
    assert metric["model"] == pytest.approx(expected["perplexity"], rel=1e-12)
    assert metric["baseline"] == pytest.approx(expected["baseline_perplexity"], rel=1e-12)
    assert metric["interval"][0] <= metric["difference"] <= metric["interval"][1]
    figures = found["outputs"]["logits"]
    assert {name: figures[name] for name in figures if name.startswith("kl_") and name != "kl_of"} == {
        name: expected[name] for name in ("kl_mean", "kl_median", "kl_p90", "kl_p99", "kl_p999", "kl_largest")}  # fmt: skip
    assert figures["agreement"] == pytest.approx(100 * expected["same_top1"])
    assert found["samples"] == expected["windows"]  # of one piece each
    crumb("quantize", tmp_path / "model", "-o", tmp_path / "one.crumb", "--weights", "int8:group=16", "--activations", "int8:token",
          "--set", "*.1.mlp.down_proj.weight=int2h:group=16")  # fmt: skip
    layers = evaluated(crumb, tmp_path / "one.crumb", *how[1:], "--data", tmp_path / "valid.txt", "--layers")["layers"]
    assert layers[0]["constants"] == ["model.layers.1.mlp.down_proj.weight"] and layers[0]["input"] == "int8:token"
    assert layers[0]["alone_db"] < layers[1]["alone_db"] - 6 and all("accumulated_db" in layer for layer in layers)
    shown = crumb("eval", *how, "--data", tmp_path / "valid.txt").stdout
    assert re.match(r"\d+ pieces of at most 64 tokens, lm\n", shown)


@pytest.fixture(scope="module")
def decoders(crumb, tmp_path_factory):
    """One language model in every kind of file: model (a folder), m.gguf, w4.crumb, w8a8.crumb; with texts."""
    pytest.importorskip("torch"), pytest.importorskip("transformers")
    sys.path.append(str(ROOT / "tests/models"))
    import tiny_decoders as tiny

    folder = tmp_path_factory.mktemp("decoders")
    tiny.make("qwen3", folder / "model")
    tiny.write_texts(folder)
    crumb("export", folder / "model", "-o", folder / "m.gguf", "--to", "gguf")
    crumb("quantize", folder / "model", "-o", folder / "w4.crumb", "--weights", "int4:group=16")
    crumb("quantize", folder / "model", "-o", folder / "w8a8.crumb", "--scheme", "W8A8", "--method", "rounding", "--data", folder / "train.txt",
          "--tokens", "128")  # fmt: skip
    return folder


def test_language_models_of_every_kind_stand_side_by_side(crumb, decoders):
    models, how = ["m.gguf", "w8a8.crumb", "w4.crumb", "model"], ["--context", "32"]
    for baseline in ("model", "m.gguf"):
        for cache in ([], ["--kv-cache", "int4"]):
            done = crumb("eval", *models, "--baseline", baseline, "--data", "valid.txt", *how, *cache, "--json", cwd=decoders)
            said = crumb("perplexity", *models, "--baseline", baseline, "--text", "valid.txt", *how, *cache, "--json", cwd=decoders)
            for found, expected in zip(json.loads(done.stdout)["models"], json.loads(said.stdout)["models"], strict=True):
                assert found["model"] == expected["model"]
                assert found["metrics"]["perplexity"]["model"] == pytest.approx(expected["perplexity"], rel=1e-12)
                assert found["metrics"]["perplexity"]["baseline"] == pytest.approx(expected["baseline_perplexity"], rel=1e-12)
                assert found["outputs"]["logits"]["kl_mean"] == expected["kl_mean"]


@pytest.mark.parametrize("model, baseline, flags, status, words", [
    ("w4.crumb", "net.onnx", ["--data", "valid.txt"], 2, ["valid.txt", "net.onnx", ".npy"]),
    ("net.onnx", "model", ["--data", "valid.txt"], 1, ["net.onnx", "config.json"]),
    ("model", "model", ["--data", "valid.txt", "--task", "embed"], 1, ["'model'", "no sentence encoder"]),
    ("model", "model", ["--data", "x.npy"], 2, ["x.npy", "input_ids"]),
    ("model", "model", ["--data", "x.npy", "--task", "lm"], 2, ["text", "--data"]),
    ("model", "model", ["--data", "valid.txt", "--labels", "x.npy"], 2, ["--labels", "lm"]),
    ("model", "model", ["--data", "valid.txt", "--context", "100000"], 2, ["100000", "positions"]),
    ("model", "model", ["--data", "valid.txt", "--device", "cuda"], 2, ["--device cuda", "CPU"]),
    ("net.onnx", "net.onnx", ["--data", "x.npy", "--device", "cuda", "--engine", "runtime"], 2, ["--device", "libtorch"]),
    ("net.onnx", "net.onnx", ["--data", "x.npy", "--device", "teapot"], 2, ["net.onnx", "'teapot'", "'cpu'"]),
    ("net.onnx", "net.onnx", ["--data", "x.npy", "--kv-cache", "int8"], 2, ["--kv-cache", "lm"]),
    ("net.onnx", "model", ["--data", "x.npy"], 1, ["net.onnx", "'input_ids'", "as many"]),
])  # fmt: skip
def test_models_that_do_not_fit_are_refused(crumb, decoders, digits, engine, model, baseline, flags, status, words):
    for name in ("net.onnx", "x.npy"):
        if not (decoders / name).exists():
            (decoders / name).symlink_to(digits / name)
    done = crumb("eval", model, "--baseline", baseline, *flags, cwd=decoders, status=status)
    assert done.stdout == "" and all(word in done.stderr for word in words), done.stderr
