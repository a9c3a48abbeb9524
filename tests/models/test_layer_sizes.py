"""Decoders whose layers have sizes of their own (lists in config.json): against transformers, in floats and
packed, at once and in steps; and what is no such list, or no such file, is refused by its name."""

import json
import shutil

import numpy as np
import pytest
from decoder_runs import DecoderRun

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
tiny = pytest.importorskip("tiny_decoders")
BOUND = 1e-4  # of logits, whose standard deviation is about 4
LISTS = ["intermediate_size", "num_attention_heads", "num_key_value_heads"]
NAMES = ["llama", "llama_tied", "qwen3", "gemma2", "gemma3", "phi3", "smollm3", "olmo2"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(name) -> folder and transformers' model of a decoder whose layers differ."""
    known = {}

    def make(name):
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            known[name] = folder, tiny.make_unequal(name, folder, 7 + tiny.seed_of(name))
        return known[name]

    return make


def largest(a, b):
    return float(np.abs(a - b).max())


def check_steps(run, ids, logits):
    """At once what transformers has, and in steps the same bits."""
    whole = run(ids[None])[0]
    assert largest(whole[0], logits) <= BOUND
    rows, past = [], None
    for begin, end in ((0, 5), (5, 6), (6, 8), (8, len(ids))):
        found, past = run(ids[None, begin:end], past=past)
        rows.append(found)
    assert np.array_equal(np.concatenate(rows, axis=1), whole)


@pytest.mark.parametrize("name", NAMES)
def test_floats_are_those_of_transformers_layers(crumb, made, tmp_path, name):
    folder, model = made(name)
    ids = tiny.tokens(name)
    check_steps(DecoderRun(crumb, folder, folder, tmp_path), ids, tiny.prefill(model, ids))


def test_drawn_sizes_are_obeyed(crumb, tmp_path):
    for seed in range(6):
        folder = tmp_path / str(seed)
        model = tiny.make_unequal("llama", folder, 100 + seed)
        ids = tiny.tokens("llama")
        check_steps(DecoderRun(crumb, folder, folder, tmp_path / "run"), ids, tiny.prefill(model, ids))


@pytest.mark.parametrize("name", ["llama", "gemma2", "phi3"])
def test_packed_they_run_from_the_file_alone(crumb, made, tmp_path, name):
    folder, model = made(name)
    packed, back = tmp_path / "q.crumb", tmp_path / "back"
    crumb("quantize", folder, "-o", packed, "--weights", "int4:channel")
    crumb("dequantize", packed, "-o", back)
    values = tiny.load_file(back / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    decoded = tiny.unequal_model(name, {key: config[key] for key in (*LISTS, "head_dim")})
    if model.config.tie_word_embeddings:
        values["lm_head.weight"] = values["model.embed_tokens.weight"]
    decoded.load_state_dict(model.state_dict() | values)
    ids = tiny.tokens(name)
    logits = tiny.prefill(decoded, ids)
    assert largest(logits, tiny.prefill(model, ids)) > 0.1
    check_steps(DecoderRun(crumb, packed, folder, tmp_path / "run"), ids, logits)

    prompt = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).encode("Say: 7 + 5!").ids
    how = ["--prompt", "Say: 7 + 5!", "--tokens", 12, "--json"]
    answer = json.loads(crumb("generate", packed, *how).stdout)
    together = prompt + answer["ids"]
    rows = tiny.prefill(decoded, np.array(together))
    for place in range(len(prompt), len(together)):
        assert rows[place - 1][together[place]] >= rows[place - 1].max() - 2 * BOUND
    for flags in (["--kv-cache", "int8"], ["--fast"]):
        assert json.loads(crumb("generate", packed, *how, *flags).stdout)["ids"]


def test_both_engines_compute_the_same(crumb, engine, made, tmp_path):
    folder, model = made("llama")
    ids = tiny.tokens("llama")
    run = DecoderRun(crumb, folder, folder, tmp_path, "libtorch")
    assert largest(run(ids[None])[0][0], tiny.prefill(model, ids)) <= BOUND


@pytest.mark.parametrize("stage", ["gptq", "rotate", "equalize", "smooth", "low_rank"])
def test_stages_keep_the_network(crumb, made, tmp_path, stage):
    """At eight bits hardly anything is lost, whatever a stage does to layers of different sizes."""
    folder, model = made("llama")
    (tmp_path / "text.txt").write_text("as it is said by some of those who said it before " * 40)
    (tmp_path / "recipe.yaml").write_text(f"version: 1\nweights: int8:channel\nstages: [{stage}]\n")
    data = ["--data", tmp_path / "text.txt", "--tokens", 512]
    crumb("quantize", folder, "-o", tmp_path / "q.crumb", "--recipe", tmp_path / "recipe.yaml", *data)
    ids = tiny.tokens("llama")
    found = DecoderRun(crumb, tmp_path / "q.crumb", folder, tmp_path / "run")(ids[None])[0][0]
    expected = tiny.prefill(model, ids)
    assert np.square(found - expected).sum() < 0.01 * np.square(expected).sum()


def test_a_list_of_equal_sizes_is_the_number(crumb, made, tmp_path):
    folder = tmp_path / "plain"
    tiny.make("llama", folder)
    config = json.loads((folder / "config.json").read_text())
    shutil.copytree(folder, tmp_path / "lists")
    lists = {key: [config[key]] * 3 for key in LISTS}
    (tmp_path / "lists/config.json").write_text(json.dumps(config | lists))
    for one in ("plain", "lists"):
        crumb("export", tmp_path / one, "-o", tmp_path / f"{one}.onnx", "--to", "float")
    assert (tmp_path / "plain.onnx").read_bytes() == (tmp_path / "lists.onnx").read_bytes()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"intermediate_size": [80, 80]}, "is a list of 2, expected a number, or a list of num_hidden_layers"),
        ({"num_attention_heads": [4] * 4}, '"num_attention_heads" is a list of 4'),
        ({"num_key_value_heads": []}, '"num_key_value_heads" is a list of 0'),
        ({"intermediate_size": [80, 0, 80]}, '"intermediate_size" is a list of 3, and layer 1 has 0'),
        ({"intermediate_size": [80, 80, -1]}, "layer 2 has -1"),
        ({"intermediate_size": [80, 1.5, 80]}, "layer 1 has 1.5"),
        ({"intermediate_size": [2**31, 80, 80]}, "layer 0 has 2147483648"),
        ({"num_attention_heads": [4, "4", 4]}, 'layer 1 has "4"'),
        ({"num_attention_heads": [4, None, 4]}, "layer 1 has null"),
        ({"num_key_value_heads": [2, 3, 2]}, "layer 1: num_attention_heads 4 is no multiple of"),
        ({"num_attention_heads": [4, 2, 4]}, 'differs from layer to layer, so "head_dim" is needed'),
    ],
)
def test_impossible_lists_are_refused_by_their_key(crumb, tmp_path, changes, said):
    tiny.make("llama", tmp_path / "plain")
    other = tiny.edited(tmp_path / "plain", tiny.Variant("wrong", changes), tmp_path / "edited")
    result = crumb("export", other, "-o", tmp_path / "x.onnx", "--to", "float", status=1)
    assert said in result.stderr and next(iter(changes)) in result.stderr
    assert not (tmp_path / "x.onnx").exists()


def test_tensors_of_another_size_are_refused_by_name(crumb, tmp_path):
    tiny.make("llama", tmp_path / "plain")
    wrong = tiny.Variant("wrong", {"intermediate_size": [80, 81, 80]})
    other = tiny.edited(tmp_path / "plain", wrong, tmp_path / "edited")
    said = crumb("export", other, "-o", tmp_path / "x.onnx", "--to", "float", status=1).stderr
    assert "'model.layers.1.mlp.gate_proj.weight' has shape [80, 48]" in said and "[81, 48]" in said


def test_files_that_cannot_say_it_refuse_by_name(crumb, made, tmp_path):
    folder, _ = made("llama")
    crumb("quantize", folder, "-o", tmp_path / "q.crumb", "--weights", "int4:group=4:pad:scale=f16")
    crumb("quantize", folder, "-o", tmp_path / "c.crumb", "--weights", "int8:channel:scale=f32")
    for source in (folder, tmp_path / "q.crumb"):
        said = crumb("export", source, "-o", tmp_path / "x.gguf", "--to", "gguf", status=1).stderr
        assert "'intermediate_size' differs from layer to layer" in said and "llama.cpp" in said
    to = ["-o", tmp_path / "x", "--to", "compressed-tensors"]
    said = crumb("export", tmp_path / "c.crumb", *to, status=1).stderr
    assert "'intermediate_size' is a list" in said and "transformers" in said
    assert not (tmp_path / "x.gguf").exists() and not (tmp_path / "x").exists()


def test_costs_are_those_of_each_layer(crumb, made):
    folder, model = made("llama")
    shapes = ["--shape", "input_ids=1x9", "--shape", "attention_mask=1x9", "--shape", "position_ids=1x9"]
    nodes = json.loads(crumb("cost", folder, *shapes, "--json").stdout)["nodes"]
    costs = {node["name"]: node for node in nodes}
    for i, layer in enumerate(model.model.layers):
        own, depth = layer.self_attn.q_proj.out_features, layer.self_attn.head_dim
        assert costs[f"model.layers.{i}.mlp.down_proj"]["macs"] == 9 * layer.mlp.down_proj.in_features * 48
        assert costs[f"model.layers.{i}.self_attn.q_proj"]["macs"] == 9 * own * 48
        assert costs[f"model.layers.{i}.self_attn.k_proj"]["weights"] == layer.self_attn.k_proj.weight.numel()
        assert costs[f"model.layers.{i}.self_attn.attention"]["macs"] == own // depth * 9 * 9 * 2 * depth
