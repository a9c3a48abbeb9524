"""`crumb passes fold-norms` of decoders: the same logits from transformers, gains that are ones, matrices that took them to the
bit, and norms that stay, by family."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")
tiny = pytest.importorskip("tiny_decoders")
from safetensors.torch import load_file, save_file  # noqa: E402

BOUND = 1e-4  # of logits, whose standard deviation is about 4
BEFORE = ["input_layernorm"]
AFTER = {"gemma2", "gemma3_text", "olmo2"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(name) -> folder and Reference of a tiny decoder."""
    known = {}

    def make(name):
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            known[name] = folder, tiny.make(name, folder)
        return known[name]

    return make


def stays(config):
    """The norms that cannot fold: those behind a sum or a rotation, and the last where its matrix is the embedding's."""
    found = set()
    family, layers = config["model_type"], range(config["num_hidden_layers"])
    if family in AFTER:
        found |= {f"model.layers.{i}.{norm}" for i in layers for norm in ("post_attention_layernorm", "post_feedforward_layernorm")}
    if family in ("qwen3", "gemma3_text", "olmo2"):
        found |= {f"model.layers.{i}.self_attn.{part}_norm" for i in layers for part in "qk"}
    if config.get("tie_word_embeddings", family in ("gemma2", "gemma3_text", "smollm3")):
        found.add("model.norm")
    return found


def fold(crumb, folder, target, *flags):
    """The report of the pass: norms that folded, with their matrices, and those that stay, with the reason."""
    report = json.loads(crumb("passes", folder, "-o", target, "fold-norms", "--json", *flags).stdout)["passes"][0]
    return {row["node"]: row["into"] for row in report["folded"]}, {row["node"]: row["reason"] for row in report["stays"]}


def largest(a, b):
    return float(np.abs(a - b).max())


def logits(folder, ids):
    return tiny.prefill(tiny.load(folder), ids)


@pytest.mark.parametrize("name", tiny.CONFIGS)
def test_the_network_stays_and_the_gains_go(crumb, made, tmp_path, name):
    folder, expected = made(name)
    config = json.loads((folder / "config.json").read_text())
    folded, left = fold(crumb, folder, tmp_path / "out")
    assert set(left) == stays(config)
    before, after = (load_file(where / "model.safetensors") for where in (folder, tmp_path / "out"))
    assert {key for key in before if "norm" in key} == {f"{norm}.weight" for norm in [*folded, *left]}
    base = 1 if name.startswith("gemma") else 0
    wanted = dict(before)
    for norm, matrices in folded.items():
        gain = (before[f"{norm}.weight"] + base).double()
        wanted[f"{norm}.weight"] = torch.full_like(gain, 1 - base).float()
        for matrix in matrices:
            wanted[matrix] = (before[matrix].double() * gain).float()
    assert set(after) == set(wanted)
    for key, values in wanted.items():
        assert torch.equal(after[key], values), key
    for file in ("config.json", "tokenizer.json"):
        assert (tmp_path / "out" / file).read_bytes() == (folder / file).read_bytes()
    said, meant = (json.loads((where / "tokenizer_config.json").read_text()) for where in (tmp_path / "out", folder))
    assert said == {**meant, "model_input_names": said["model_input_names"]}  # what the model takes, for transformers
    assert largest(logits(tmp_path / "out", expected.ids), expected.prefill) <= BOUND


def test_reasons_name_what_is_in_the_way(crumb, made, tmp_path):
    folder, _ = made("gemma3")
    _, left = fold(crumb, folder, tmp_path / "out")
    assert left["model.norm"] == "its matrix 'model.embed_tokens.weight' is taken by Gather, too"
    assert left["model.layers.0.self_attn.q_norm"].startswith("its output is taken by Reshape")  # of heads, and a rotation
    assert left["model.layers.3.post_feedforward_layernorm"].startswith("its output is taken by Add")
    text = crumb("passes", "fold-norms", folder, "-o", tmp_path / "out").stdout
    assert "  12 of 37 norms folded, into 30 matrices\n" in text
    assert "  stays: model.norm: its matrix 'model.embed_tokens.weight' is taken by Gather, too\n" in text
    assert "  stays: model.layers.0.post_attention_layernorm and 11 others: its output is taken by Add," in text


@pytest.mark.parametrize("name", ["llama", "gemma2", "phi3", "qwen3"])
def test_the_graph_is_the_folder_s(crumb, made, tmp_path, name):
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    folder, expected = made(name)
    of_graph = fold(crumb, folder, tmp_path / "m.onnx")
    assert of_graph == fold(crumb, folder, tmp_path / "out")
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    model = onnx.load(tmp_path / "m.onnx")
    for constant in model.graph.initializer:
        if constant.name not in tensors:
            continue
        values, wanted = onnx.numpy_helper.to_array(constant), tensors[constant.name].numpy()
        turned = wanted.T if values.shape != wanted.shape or not np.array_equal(values, wanted) else wanted
        assert np.array_equal(values, turned), constant.name
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    config = json.loads((folder / "config.json").read_text())
    depth = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    places = np.arange(tiny.LENGTH)[None]
    given = {"input_ids": expected.ids[None], "attention_mask": np.ones_like(places), "position_ids": places}
    empty = np.zeros((1, config["num_key_value_heads"], 0, depth), np.float32)
    given |= {f"past_key_values.{i}.{part}": empty for i in range(config["num_hidden_layers"]) for part in ("key", "value")}
    assert largest(session.run(["logits"], given)[0][0], expected.prefill) <= BOUND


def cast(folder, target, dtype, gains=None):
    """The checkpoint in another type, its configuration too; `gains` for the norms of the first layer."""
    def change(tensors):
        for key in tensors:
            if gains is not None and key.startswith("model.layers.0.") and "layernorm" in key:
                tensors[key] = gains(tensors[key])
            tensors[key] = tensors[key].to(dtype)
    return tiny.edited(folder, tiny.Variant("cast", {"torch_dtype": str(dtype).removeprefix("torch.")}, change), target)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_types_widen_where_they_must(crumb, made, tmp_path, dtype):
    powers = lambda gain: torch.where(torch.arange(len(gain)) % 2 == 0, 2.0, 1.0)  # noqa: E731
    folder = cast(made("llama")[0], tmp_path / "half", dtype, powers)
    folded, left = fold(crumb, folder, tmp_path / "out")
    assert not left
    before, after = (load_file(where / "model.safetensors") for where in (folder, tmp_path / "out"))
    wide = {matrix for norm, matrices in folded.items() if not norm.startswith("model.layers.0.") for matrix in matrices}
    assert {key for key, values in after.items() if values.dtype == torch.float32} == wide
    assert all(values.dtype == (torch.float32 if key in wide else dtype) for key, values in after.items())
    config, made_config = (json.loads((where / "config.json").read_text()) for where in (folder, tmp_path / "out"))
    assert made_config == config | {"torch_dtype": "float32"}
    ids = made("llama")[1].ids
    assert largest(logits(tmp_path / "out", ids), logits(folder, ids)) <= BOUND


def test_what_fits_keeps_type_and_configuration(crumb, made, tmp_path):
    folder = tiny.edited(made("llama")[0], tiny.Variant("powers", {"torch_dtype": "bfloat16"}, lambda tensors: tensors.update(
        {key: (torch.exp2((values * 2).round()) if "norm" in key else values).bfloat16() for key, values in tensors.items()}
    )), tmp_path / "half")  # fmt: skip
    fold(crumb, folder, tmp_path / "out")
    after = load_file(tmp_path / "out" / "model.safetensors")
    assert {values.dtype for values in after.values()} == {torch.bfloat16}
    assert (tmp_path / "out" / "config.json").read_bytes() == (folder / "config.json").read_bytes()
    ids = made("llama")[1].ids
    assert largest(logits(tmp_path / "out", ids), logits(folder, ids)) <= BOUND


def test_a_packed_file_becomes_a_float_folder(crumb, made, tmp_path):
    folder, expected = made("qwen2")
    crumb("quantize", folder, "-o", tmp_path / "m.crumb", "--weights", "int8")
    crumb("dequantize", tmp_path / "m.crumb", "-o", tmp_path / "float", "--shard", "1GB")
    folded, left = fold(crumb, tmp_path / "m.crumb", tmp_path / "out")
    assert set(left) == {"model.norm"} and len(folded) == 6
    assert largest(logits(tmp_path / "out", expected.ids), logits(tmp_path / "float", expected.ids)) <= BOUND


def test_what_comes_out_goes_in_again(crumb, made, tmp_path):
    folder, _ = made("llama")
    fold(crumb, folder, tmp_path / "out", "--shard", "20KB")
    assert (tmp_path / "out" / "model.safetensors.index.json").exists()
    folded, left = fold(crumb, tmp_path / "out", tmp_path / "again")
    assert not folded and set(left.values()) == {"its gain is ones"}
    rows = json.loads(crumb("compare", tmp_path / "out", tmp_path / "again", "--json").stdout)["tensors"]
    assert rows and all(row["exact_fraction"] == 1 for row in rows)
    crumb("quantize", tmp_path / "out", "-o", tmp_path / "m.crumb", "--weights", "int4:group=16")


def test_wrong_use(crumb, made, tmp_path):
    folder, _ = made("llama")
    assert "fold-norms alone" in crumb("passes", folder, "-o", tmp_path / "out", "fold-norms", "tidy", status=2).stderr
    assert "--shard" in crumb("passes", folder, "-o", tmp_path / "m.onnx", "fold-norms", "--shard", "1GB", status=2).stderr
    other = tiny.edited(folder, tiny.Variant("other", {"model_type": "falcon"}), tmp_path / "other")
    assert "falcon" in crumb("passes", other, "-o", tmp_path / "out", "fold-norms", status=1).stderr
    large = tiny.edited(folder, tiny.Variant("large", {}, lambda tensors: [tensors["model.norm.weight"].fill_(3e38),
                                                                           tensors["lm_head.weight"].fill_(2)]), tmp_path / "l")  # fmt: skip
    said = crumb("passes", large, "-o", tmp_path / "out", "fold-norms", status=1).stderr
    assert "'lm_head.weight' times the gain" in said
    assert not (tmp_path / "out").exists()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    assert "notes.txt" in crumb("passes", folder, "-o", mine, "fold-norms", status=1).stderr
    assert [file.name for file in mine.iterdir()] == ["notes.txt"]


@pytest.mark.slow
def test_a_published_model_leaves_its_grid(crumb, smollm2, tmp_path, repo):
    crumb("dequantize", smollm2, "-o", tmp_path / "float")
    folded, left = fold(crumb, smollm2, tmp_path / "out")
    assert len(folded) == 60 and sum(map(len, folded.values())) == 150 and set(left) == {"model.norm"}

    def levels(folder):
        rows = load_file(folder / "model.safetensors")["model.layers.3.mlp.up_proj.weight"].reshape(-1, 32)
        return np.array([len(row.unique()) for row in rows])

    assert levels(tmp_path / "float").max() <= 16 and levels(tmp_path / "out").min() > 16
    ids = np.load(repo / "tests/fixtures/smollm2_valid_ids.npy")[:256].astype(np.int64)
    before, after = (torch.from_numpy(logits(tmp_path / where, ids)).double().log_softmax(1) for where in ("float", "out"))
    assert float((before.exp() * (before - after)).sum(1).max()) < 1e-7
    assert torch.equal(before.argmax(1), after.argmax(1))
