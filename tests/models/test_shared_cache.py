"""A decoder's ONNX file whose last layer attends over the first one's keys and values: both engines and onnxruntime compute the
same, its cache is kept once, and as codes where they are asked for, and steps have the bits of the whole."""

import numpy as np
import pytest
from decoder_runs import DecoderRun

pytest.importorskip("torch")
pytest.importorskip("transformers")
onnx = pytest.importorskip("onnx")
tiny = pytest.importorskip("tiny_decoders")
BOUND = 1e-4  # of logits, whose standard deviation is about 4
IDS = (np.arange(20)[None] * 37 + 5) % 256


def shared(crumb, folder, work, source=0):
    """The checkpoint's graph; its last layer has no keys and values of its own."""
    crumb("export", folder, "-o", work / "own.onnx", "--to", "float", "--opset", "24")
    model = onnx.load(work / "own.onnx")
    nodes = [node for node in model.graph.node if node.op_type == "Attention"]
    first, last = nodes[source], nodes[-1]
    gone = [*last.input[4:6], *last.output[1:3]]
    for place in (1, 2, 4, 5):
        last.input[place] = first.input[place]
    for values in (model.graph.input, model.graph.output):
        kept = [value for value in values if value.name not in gone]
        del values[:]
        values.extend(kept)
    last.output[1], last.output[2] = "unread_key", "unread_value"
    onnx.save(model, work / "shared.onnx")
    return work / "shared.onnx"


def run_of(crumb, model, folder, work, engine="runtime"):
    run = DecoderRun(crumb, model, folder, work, engine)
    run.cache = run.cache[:-2]
    return run


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma2", "olmo2"])
def test_all_engines_compute_the_same(request, crumb, tmp_path, name):
    request.getfixturevalue("engine")
    onnxruntime = pytest.importorskip("onnxruntime")
    tiny.make(name, tmp_path / "made")
    model = shared(crumb, tmp_path / "made", tmp_path)
    run = run_of(crumb, model, tmp_path / "made", tmp_path / "run")
    logits, present = run(IDS)
    own = DecoderRun(crumb, tmp_path / "own.onnx", tmp_path / "made", tmp_path / "own")(IDS)[0]
    assert np.abs(logits - own).max() > 0.1, "the last layer has its own keys and values all the same"
    found, kept = run_of(crumb, model, tmp_path / "made", tmp_path / "torch", "libtorch")(IDS)
    assert np.abs(found - logits).max() <= BOUND
    assert all(np.abs(kept[part] - present[part]).max() <= BOUND for part in present)
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    assert np.abs(session.run(["logits"], run.inputs(IDS))[0] - logits).max() <= BOUND


@pytest.mark.parametrize("cache", ["keep", "int8", "int4:rotate"])
def test_steps_have_the_bits_of_the_whole(crumb, tmp_path, cache):
    tiny.make("llama", tmp_path / "made")
    model, packed = shared(crumb, tmp_path / "made", tmp_path), tmp_path / "packed.crumb"
    crumb("quantize", model, "-o", packed, "--weights", "keep", "--embeddings", "keep", "--kv-cache", cache)
    run = run_of(crumb, packed, tmp_path / "made", tmp_path / "run")
    whole, past, steps = run(IDS)[0], None, []
    for at in range(IDS.shape[1]):
        logits, past = run(IDS[:, at : at + 1], past=past)
        steps.append(logits)
    assert np.array_equal(np.concatenate(steps, 1), whole)
    floats = run_of(crumb, model, tmp_path / "made", tmp_path / "floats")(IDS)[0]
    assert (np.abs(whole - floats).max() == 0) == (cache == "keep")
    assert np.abs(whole - floats).max() < {"keep": 1e-9, "int8": 0.2, "int4:rotate": 2}[cache] * floats.std()
