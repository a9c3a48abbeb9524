"""Files that hold a network (trained, or calibrated) leave as what files of checkpoints leave as: folders and GGUF with every
tensor, in the axes that others have them in, to the same numbers; cache quantizers go along."""

import json
import random

import numpy as np
import pytest
from decoder_runs import DecoderRun

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
tiny = pytest.importorskip("tiny_decoders")
pytestmark = pytest.mark.usefixtures("engine")
LENGTH = 24
WORDS = "How quickly daft jumping zebras vex pack my box with five dozen liquor jugs".split()


def texts(work):
    for seed, name, count in ((0, "train.txt", 300), (1, "valid.txt", 60)):
        (work / name).write_text(" ".join(random.Random(seed).choices(WORDS, k=count)) + "\n")


def trained(crumb, work, name, *how):
    tiny.make(name, work / "model")
    texts(work)
    # A rate that moves all that learns by much more than the tolerances below.
    crumb("train", "lm", "--model", work / "model", "--data", work / "train.txt", "--steps", 6, "--warm-up", 1, "--rate", 0.02,
          "--length", LENGTH, "--batch", 2, "--threads", 1, "--products", "f32", "-o", work / "out", *how)  # fmt: skip
    return work / "out/model.crumb"


def perplexity(crumb, model, work):
    done = crumb("perplexity", model, "--text", work / "valid.txt", "--context", LENGTH, "--json")
    return json.loads(done.stdout)["perplexity"]


@pytest.mark.parametrize("name", ["llama3", "llama_tied", "gemma2", "phi3", "olmo2", "qwen3"])
@pytest.mark.parametrize("how", [
    ["--weights", "int2h:group=16", "--embeddings", "int8"],
    ["--weights", "int4:group=16", "--embeddings", "keep", "--exclude", "*layers.1.*"]])  # fmt: skip
def test_a_folder_in_floats(crumb, tmp_path, name, how):
    packed = trained(crumb, tmp_path, name, *how)
    crumb("export", packed, "--to", "hf", "-o", tmp_path / "floats")
    model = tiny.load(tmp_path / "floats")  # every tensor is there, in its shape
    assert perplexity(crumb, tmp_path / "floats", tmp_path) == pytest.approx(perplexity(crumb, packed, tmp_path), rel=5e-4)
    missing = set(dict(tiny.load(tmp_path / "model").named_parameters())) - set(dict(model.named_parameters()))
    assert not missing


@pytest.mark.parametrize("name", sorted(tiny.CONFIGS))
def test_what_trains_are_the_tensors_of_the_checkpoint(crumb, tmp_path, name):
    """Frequencies, scales of attention and whatever else the graph has of its own keep their bits: no configuration could say
    others."""
    packed = trained(crumb, tmp_path, name, "--weights", "keep", "--embeddings", "keep")
    crumb("export", tmp_path / "model", "--to", "float", "-o", tmp_path / "before.onnx")
    crumb("export", packed, "--to", "float", "-o", tmp_path / "after.onnx")
    before, after = (constants(tmp_path / f"{when}.onnx") for when in ("before", "after"))
    tensors = set(dict(tiny.load(tmp_path / "model").named_parameters()))
    own = {name for name in before if name not in tensors and not name.startswith("model.")}
    assert any("frequencies" in name for name in own)
    assert before.keys() == after.keys() and all(np.array_equal(before[name], after[name]) for name in own)
    moved = [name for name in tensors & before.keys() if not np.array_equal(before[name], after[name])]
    assert len(moved) > 0.9 * len(tensors & before.keys())


def constants(path):
    onnx = pytest.importorskip("onnx")
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}


@pytest.mark.parametrize("name", ["llama", "olmo2", "phi3_whole", "qwen3"])
def test_gguf(crumb, tmp_path, monkeypatch, name):
    monkeypatch.setitem(tiny.CONFIGS, "phi3_whole", {**tiny.CONFIGS["phi3"], "sliding_window": None})  # which llama.cpp computes
    monkeypatch.setitem(tiny.VARIANTS, "phi3_whole", [])
    packed = trained(crumb, tmp_path, name, "--weights", "keep", "--embeddings", "keep")
    crumb("export", packed, "--to", "gguf", "-o", tmp_path / "x.gguf")
    wanted = perplexity(crumb, packed, tmp_path)
    assert perplexity(crumb, tmp_path / "x.gguf", tmp_path) == pytest.approx(wanted, rel=5e-4)


def test_calibrated_networks_too(crumb, tmp_path):
    tiny.make("llama3", tmp_path / "model")
    texts(tmp_path)
    crumb("quantize", tmp_path / "model", "-o", tmp_path / "q.crumb", "--weights", "int8:channel", "--activations", "int8:token",
          "--data", tmp_path / "train.txt", "--tokens", 200)  # fmt: skip
    said = crumb("export", tmp_path / "q.crumb", "--to", "hf", "-o", tmp_path / "floats").stderr
    tiny.make("llama", tmp_path / "llama")
    crumb("quantize", tmp_path / "llama", "-o", tmp_path / "k.crumb", "--weights", "keep", "--embeddings", "keep", "--kv-cache", "int8",
          "--activations", "int8:token")  # fmt: skip
    for to, name, out in (("gguf", "k", "x.gguf"), ("compressed-tensors", "q", "ct")):
        done = crumb("export", tmp_path / f"{name}.crumb", "--to", to, "-o", tmp_path / out)
        assert done.stderr.count("activations or caches stay behind") == 1
    assert int(said.partition(" quantizers of activations")[0].rpartition(" ")[2]) >= 4 * 3 + 1  # of each layer, and of the head
    plain = perplexity(crumb, tmp_path / "model", tmp_path)
    assert perplexity(crumb, tmp_path / "floats", tmp_path) == pytest.approx(plain, rel=0.2)


def by_onnxruntime(crumb, packed, inputs):
    """Logits of the file's graph, as it stands."""
    onnxruntime = pytest.importorskip("onnxruntime")
    crumb("export", packed, "--to", "qcdq", "-o", packed.with_suffix(".onnx"))
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(packed.with_suffix(".onnx")), plain, providers=["CPUExecutionProvider"])
    return session.run(["logits"], inputs)[0]


@pytest.mark.parametrize("stages", ["low_rank:rank=4,gptq,end_to_end:steps=6:rate=0.01:learn_adapters=on", "outliers:share=0.05,gptq,end_to_end:steps=6:rate=0.01"])
def test_what_stands_beside_codes_is_one_for_others(crumb, tmp_path, stages):
    """onnxruntime computes from the graph what the file gives, with what learned along and what gptq reckoned with."""
    pytest.importorskip("onnxruntime")
    tiny.make("llama3", tmp_path / "model")
    texts(tmp_path)
    crumb("train", "lm", "--model", tmp_path / "model", "--data", tmp_path / "train.txt", "--weights", "int3:group=16", "--embeddings", "keep",
          "--stages", stages, "--length", LENGTH, "--batch", 2, "--threads", 1, "--products", "f32", "-o", tmp_path / "out")  # fmt: skip
    run = DecoderRun(crumb, tmp_path / "out/model.crumb", tmp_path / "model", tmp_path / "run")
    ids = np.random.default_rng(5).integers(0, 40, (1, LENGTH))
    logits = run(ids)[0]
    theirs = by_onnxruntime(crumb, tmp_path / "out/model.crumb", run.inputs(ids))
    assert np.abs(theirs - logits).max() < 2e-5 * np.abs(logits).max()


@pytest.mark.parametrize("embeddings", ["int4:group=16", "int8:channel"])
def test_a_shared_table_by_gptq_is_one_for_others(crumb, tmp_path, embeddings):
    """transformers computes from the folder, and onnxruntime from the graph, what the file's own codes give."""
    pytest.importorskip("onnxruntime")
    read = pytest.importorskip("safetensors.numpy").load_file
    tiny.make("llama_tied", tmp_path / "model")
    texts(tmp_path)
    how = ["--weights", "int4:group=16", "--embeddings", embeddings]
    crumb("quantize", tmp_path / "model", "-o", tmp_path / "q.crumb", *how, "--method", "gptq", "--data", tmp_path / "train.txt")
    crumb("quantize", tmp_path / "model", "-o", tmp_path / "rounded.crumb", *how)
    for name in ("q", "rounded"):
        crumb("dequantize", tmp_path / f"{name}.crumb", "-o", tmp_path / f"{name}.safetensors")
    table, rounded = (read(tmp_path / f"{name}.safetensors")["model.embed_tokens.weight"] for name in ("q", "rounded"))
    assert (table != rounded).any()
    crumb("export", tmp_path / "q.crumb", "--to", "hf", "-o", tmp_path / "folder")
    model = tiny.load(tmp_path / "folder")
    assert np.array_equal(model.get_input_embeddings().weight.detach().numpy(), table)
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    run = DecoderRun(crumb, tmp_path / "q.crumb", tmp_path / "model", tmp_path / "run")
    ids = np.random.default_rng(3).integers(0, len(table), (1, LENGTH))
    logits = run(ids)[0]
    for theirs in (tiny.prefill(model, ids[0]), by_onnxruntime(crumb, tmp_path / "q.crumb", run.inputs(ids))[0]):
        assert np.abs(theirs - logits[0]).max() < 2e-5 * np.abs(logits).max()


def test_cache_quantizers_go_along(crumb, tmp_path):
    tiny.make("llama3", tmp_path / "model")
    texts(tmp_path)
    crumb("quantize", tmp_path / "model", "-o", tmp_path / "q.crumb", "--weights", "int4:group=16", "--kv-cache", "int4")
    crumb("export", tmp_path / "q.crumb", "--to", "packed", "-o", tmp_path / "again.crumb")
    crumb("quantize", tmp_path / "model", "-o", tmp_path / "plain.crumb", "--weights", "int4:group=16")
    with_it, again, without = (perplexity(crumb, tmp_path / f"{name}.crumb", tmp_path) for name in ("q", "again", "plain"))
    assert with_it == again != without
    crumb("export", tmp_path / "q.crumb", "--to", "qonnx", "-o", tmp_path / "q.onnx")
    onnx = pytest.importorskip("onnx")
    ops = [node.op_type for node in onnx.load(tmp_path / "q.onnx").graph.node]
    crumb("export", tmp_path / "plain.crumb", "--to", "qonnx", "-o", tmp_path / "plain.onnx")
    plain_ops = [node.op_type for node in onnx.load(tmp_path / "plain.onnx").graph.node]
    assert len(ops) > len(plain_ops)


def test_adapters_do_not_get_lost(crumb, tmp_path):
    packed = trained(crumb, tmp_path, "llama3", "--weights", "int4:group=16", "--layout", "tiles")
    crumb("recover", packed, "--baseline", tmp_path / "model", "--data", tmp_path / "train.txt", "-o", tmp_path / "rec", "--rank", 4,
          "--steps", 8, "--rate", 1e-2, "--length", LENGTH, "--threads", 1)  # fmt: skip
    for to, out in (("hf", "folder"), ("gguf", "x.gguf"), ("compressed-tensors", "folder")):
        said = crumb("export", tmp_path / "rec/model.crumb", "--to", to, "-o", tmp_path / out, status=2).stderr
        assert "crumb merge" in said and not (tmp_path / out).exists()
    crumb("merge", tmp_path / "rec/model.crumb", "-o", tmp_path / "merged")
    wanted = perplexity(crumb, tmp_path / "rec/model.crumb", tmp_path)
    assert perplexity(crumb, tmp_path / "merged", tmp_path) == pytest.approx(wanted, rel=1e-3)
    assert wanted != pytest.approx(perplexity(crumb, packed, tmp_path), rel=1e-3)
    crumb("merge", tmp_path / "rec/model.crumb", "--weights", "int8:channel", "-o", tmp_path / "eight.crumb")
    assert perplexity(crumb, tmp_path / "eight.crumb", tmp_path) == pytest.approx(wanted, rel=0.2)
    assert np.isfinite(wanted)
