"""The stage outliers of `crumb quantize`, on decoders and encoders: it helps where bits are few, its file runs in both engines, in
onnxruntime and behind a cache, and goes to no tool that would leave the numbers out."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")
from decoder_runs import DecoderRun  # noqa: E402
from llama_files import LENGTH, divergence, make_llama, quantize  # noqa: E402

SHARE = 0.05
BOUND = 2e-4  # of logits of about 4, by float32 networks of three layers


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_llama(tmp_path_factory.mktemp("outliers"))


def samples(made):
    return ["--data", made / "train.txt", "--tokens", 512]


@pytest.mark.parametrize("behind", ["", ",gptq"])
def test_it_helps(crumb, made, tmp_path, behind):
    before = ["--stages", behind[1:]] if behind else []
    data = samples(made)
    quantize(crumb, made, tmp_path / "plain.crumb", *before, *(data if behind else []))
    report = quantize(crumb, made, tmp_path / "x.crumb", "--stages", f"outliers:share={SHARE}{behind}", *(data if behind else []))
    stage = report["stages"][0]
    assert all(layer["after"] < layer["before"] for layer in stage["layers"])
    assert divergence(crumb, tmp_path / "x.crumb", made) < 0.9 * divergence(crumb, tmp_path / "plain.crumb", made)


def test_file_onnx_and_cache_compute_the_same(crumb, made, tmp_path):
    model = tmp_path / "x.crumb"
    quantize(crumb, made, model, "--stages", f"outliers:share={SHARE}", weights="int3:group=16")
    crumb("export", model, "--to", "qcdq", "-o", tmp_path / "x.onnx")
    proto = onnx.load(tmp_path / "x.onnx")
    assert sum(node.op_type == "ScatterElements" for node in proto.graph.node) == 3 * 7 + 1
    run = DecoderRun(crumb, model, made / "model", tmp_path / "work")
    ids = np.random.default_rng(3).integers(0, 64, (1, 12))
    mine, _ = run(ids)
    plain = ort.SessionOptions()
    plain.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # else products round activations to bytes
    session = ort.InferenceSession(tmp_path / "x.onnx", plain, providers=["CPUExecutionProvider"])
    given = run.inputs(ids)
    theirs = session.run(["logits"], {node.name: given[node.name] for node in session.get_inputs()})[0]
    assert np.abs(mine - theirs).max() < BOUND
    _, present = run(ids[:, :7])
    behind, _ = run(ids[:, 7:], past=present)
    assert np.abs(mine[:, 7:] - behind).max() < BOUND
    of_onnx, _ = DecoderRun(crumb, tmp_path / "x.onnx", made / "model", tmp_path / "of_onnx")(ids)
    assert np.abs(mine - of_onnx).max() < BOUND
    in_torch, _ = DecoderRun(crumb, model, made / "model", tmp_path / "torch", engine="libtorch")(ids)
    assert np.abs(mine - in_torch).max() < BOUND


def test_other_tools_get_no_network_without_them(crumb, made, tmp_path):
    model = tmp_path / "x.crumb"
    quantize(crumb, made, model, "--stages", f"outliers:share={SHARE}", weights="int8:channel")
    for form, name in (("hf", "hf"), ("gguf", "x.gguf"), ("compressed-tensors", "ct")):
        said = crumb("export", model, "--to", form, "-o", tmp_path / name, status=1).stderr
        assert "outliers.numbers', which a network of its config.json has not" in said
        assert not (tmp_path / name).exists()


def test_cost_counts_what_is_multiplied(crumb, made, tmp_path):
    model = tmp_path / "x.crumb"
    quantize(crumb, made, model, "--stages", f"outliers:share={SHARE}", weights="int3:group=16")
    nodes = {node["name"]: node for node in json.loads(crumb("cost", model, "--json").stdout)["nodes"]}
    beside = [name for name in nodes if name.endswith(".outliers.product")]
    assert len(beside) == 3 * 7 + 1
    for name in beside:
        whole, few = nodes[name.removesuffix(".outliers.product")], nodes[name]
        count = round(SHARE * whole["weights"])
        assert few["weights"] == count and few["weight_bits"] == 32 * count
        assert few["macs"] == pytest.approx(whole["macs"] * count / whole["weights"])


def test_same_bytes_whatever_the_threads(crumb, made, tmp_path):
    flags = ["--stages", f"outliers:share={SHARE},gptq", *samples(made)]
    quantize(crumb, made, tmp_path / "one.crumb", *flags, "--threads", 1)
    quantize(crumb, made, tmp_path / "two.crumb", *flags, "--threads", 2)
    assert (tmp_path / "one.crumb").read_bytes() == (tmp_path / "two.crumb").read_bytes()


def test_training_and_recovery_go_on_beside_them(crumb, made, tmp_path):
    """What learns are weights and adapters; the numbers stay what they are."""
    how = ["--weights", "int2h:group=16", "--embeddings", "keep"]
    begin = f"outliers:share={SHARE},gptq"
    text = ["--data", made / "train.txt", "--valid", made / "valid.txt", "--length", LENGTH, "--threads", 1]
    crumb("train", "lm", "--model", made / "model", *how, *text, "--stages", f"{begin},end_to_end:steps=60:rate=0.0005", "-o", tmp_path / "out")
    start, trained = tmp_path / "out/start.crumb", tmp_path / "out/model.crumb"
    assert divergence(crumb, trained, made) < 0.9 * divergence(crumb, start, made)
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["quantized"] < report["rounded"]

    def numbers(file):
        crumb("export", file, "--to", "qonnx", "-o", tmp_path / "x.onnx")
        graph = onnx.load(tmp_path / "x.onnx").graph
        constants = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
        return [constants[node.input[2]] for node in graph.node if node.op_type == "ScatterElements"]

    first, then = numbers(start), numbers(trained)
    assert len(first) == 3 * 7 + 1 and all((a == b).all() for a, b in zip(first, then, strict=True))
    crumb("recover", start, "--baseline", made / "model", *text, "--steps", 30, "--rate", 3e-3, "-o", tmp_path / "recovered")
    assert divergence(crumb, tmp_path / "recovered/model.crumb", made) < 0.9 * divergence(crumb, start, made)


def test_what_it_cannot_do_is_said(crumb, made, tmp_path):
    out = tmp_path / "x.crumb"
    refused = crumb("quantize", made / "model", "-o", out, "--weights", "keep", "--stages", "outliers", status=1).stderr
    assert "finds no matrix of a linear layer" in refused
    assert "below 1" in crumb("quantize", made / "model", "-o", out, "--weights", "int4", "--stages", "outliers:share=2", status=2).stderr
