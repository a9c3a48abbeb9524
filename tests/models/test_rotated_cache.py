"""`kv_cache: ...:rotate`: what is kept are the float cache's heads times a Hadamard matrix, on their grid, and attention undoes
it; what sticks out of a head costs less then."""

import json

import numpy as np
import pytest
from decoder_runs import DecoderRun

pytest.importorskip("torch")
pytest.importorskip("transformers")
onnx = pytest.importorskip("onnx")
linalg = pytest.importorskip("scipy.linalg")
safetensors = pytest.importorskip("safetensors.numpy")
tiny = pytest.importorskip("tiny_decoders")
IDS = (np.arange(20)[None] * 37 + 5) % 256


def runs(crumb, folder, work, specs):
    """Logits and present of the network with each cache, by its spec."""
    made = {}
    for number, spec in enumerate(specs):
        packed = work / f"{number}.crumb"
        crumb("quantize", folder, "-o", packed, "--weights", "keep", "--embeddings", "keep", "--kv-cache", spec)
        made[spec] = DecoderRun(crumb, packed, folder, work / str(number))(IDS)
    return made


def rotated(heads):
    """The last axis, piece by piece of the largest power of two that divides it."""
    size = heads.shape[-1]
    piece = size & -size
    pieces = heads.astype(np.float64).reshape(*heads.shape[:-1], size // piece, piece)
    return (pieces @ linalg.hadamard(piece) / piece**0.5).reshape(heads.shape)


# Heads of 12, 20 and 16 numbers
@pytest.mark.parametrize("name", ["llama", "mistral", "qwen3", "gemma2", "phi3_long", "olmo2"])
def test_what_is_kept_is_rotated_and_what_comes_out_is_not(crumb, tmp_path, name):
    folder = tmp_path / "made"
    tiny.make(name, folder)
    found = runs(crumb, folder, tmp_path, ["keep", "int8", "int8:rotate"])
    logits, plain = found["keep"]
    kept = found["int8:rotate"][1]
    for part in ("0.key", "0.value"):  # the first layer's follow from the same floats
        wanted = rotated(plain[part])
        step = np.abs(wanted).max(-1, keepdims=True) / 127
        assert np.abs(kept[part] - wanted).max() > 0
        assert (np.abs(kept[part] - wanted) / step).max() < 0.5 + 1e-3
        assert np.abs(kept[part] - plain[part]).max() > 20 * step.max(), "it is not rotated"
    error = {spec: np.abs(found[spec][0] - logits).max() for spec in ("int8", "int8:rotate")}
    assert 0 < error["int8:rotate"] < 4 * error["int8"], error
    assert error["int8"] < 0.2 * logits.std()


def test_what_sticks_out_of_a_head_costs_less(crumb, tmp_path):
    """Two numbers of each head that are large in keys and small in queries, as published models have them."""
    folder = tmp_path / "made"
    tiny.make("llama3", folder)
    tensors = safetensors.load_file(folder / "model.safetensors")
    for name, values in tensors.items():
        factor = {"q_proj": 1 / 24, "k_proj": 24}.get(name.split(".")[-2])
        if factor:
            heads = values.reshape(-1, 16, values.shape[-1]).copy()
            heads[:, [3, 11]] *= factor  # which rotary embedding turns into each other
            tensors[name] = heads.reshape(values.shape)
    safetensors.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    found = runs(crumb, folder, tmp_path, ["keep", "int4", "int4:rotate"])
    error = {spec: np.square(found[spec][0] - found["keep"][0]).mean() for spec in ("int4", "int4:rotate")}
    assert error["int4:rotate"] < 0.5 * error["int4"], error


def test_the_prompt_in_steps_has_the_bits_of_the_whole(crumb, tmp_path):
    folder, packed = tmp_path / "made", tmp_path / "q.crumb"
    tiny.make("mistral", folder)
    crumb("quantize", folder, "-o", packed, "--weights", "int4:group=8", "--kv-cache", "int4:rotate")
    run = DecoderRun(crumb, packed, folder, tmp_path / "run")
    whole, past, steps = run(IDS)[0], None, []
    for at in range(IDS.shape[1]):
        logits, past = run(IDS[:, at : at + 1], past=past)
        steps.append(logits)
    assert np.array_equal(whole, np.concatenate(steps, axis=1))


@pytest.mark.parametrize("heads_apart", [True, False])
def test_heads_of_an_odd_size_are_refused(crumb, tmp_path, heads_apart):
    size, places = 5, "places"
    shape = ["batch", 2, places, size] if heads_apart else ["batch", places, 2 * size]
    kept = [["batch", 2, "past", size], ["batch", 2, "all", size]]
    floats = onnx.TensorProto.FLOAT
    inputs = [onnx.helper.make_tensor_value_info(n, floats, shape) for n in "qkv"]
    inputs += [onnx.helper.make_tensor_value_info(n, floats, kept[0]) for n in ("past_key", "past_value")]
    outputs = [onnx.helper.make_tensor_value_info("y", floats, shape)]
    outputs += [onnx.helper.make_tensor_value_info(n, floats, kept[1]) for n in ("key", "value")]
    heads = {} if heads_apart else {"q_num_heads": 2, "kv_num_heads": 2}
    node = onnx.helper.make_node("Attention", ["q", "k", "v", "", "past_key", "past_value"], ["y", "key", "value"], **heads)
    graph = onnx.helper.make_graph([node], "attention", inputs, outputs)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 24)]), tmp_path / "a.onnx")
    made = ["quantize", tmp_path / "a.onnx", "-o", tmp_path / "a.crumb", "--weights", "keep", "--kv-cache"]
    assert "heads of 5 cannot be rotated" in crumb(*made, "int8:rotate", status=2).stderr
    crumb(*made, "int8")
    assert json.loads(crumb("inspect", tmp_path / "a.crumb", "--json").stdout)


def test_only_caches_are_rotated(crumb, tmp_path, minilm):
    for flags in (["--weights", "int8:rotate"], ["--weights", "int8", "--activations", "int8:token:rotate"]):
        refused = crumb("quantize", minilm, "-o", tmp_path / "q.crumb", *flags, status=2)
        assert "'rotate' is for caches of keys and values" in refused.stderr
