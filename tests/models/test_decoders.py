"""Decoders as graphs: logits of both engines and of onnxruntime against transformers, at once, in steps, with padding and
past the window; and every edit of a checkpoint that tiny_decoders.py knows is computed as transformers computes it."""

import json

import numpy as np
import pytest
from decoder_runs import DecoderRun

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")
tiny = pytest.importorskip("tiny_decoders")
BOUND = 1e-4  # of logits, whose standard deviation is about 4
VARIANTS = [(name, variant) for name, variants in tiny.VARIANTS.items() for variant in variants]


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


def exported(crumb, folder, work, engine="runtime"):
    """The checkpoint's graph as an ONNX file, to be run."""
    crumb("export", folder, "-o", work / "graph.onnx", "--to", "float")
    return DecoderRun(crumb, work / "graph.onnx", folder, work, engine)


def largest(a, b):
    return float(np.abs(a - b).max())


@pytest.mark.parametrize("kind", ["runtime", "libtorch"])
@pytest.mark.parametrize("name", tiny.CONFIGS)
def test_logits_are_those_of_transformers(request, crumb, made, tmp_path, name, kind):
    if kind == "libtorch":
        request.getfixturevalue("engine")
    folder, expected = made(name)
    run = exported(crumb, folder, tmp_path, kind)
    assert largest(run(expected.ids[None])[0][0], expected.prefill) <= BOUND
    assert largest(run(expected.ids[None, : tiny.PREFIX])[0][0], expected.prefix) <= BOUND
    for side in ("left", "right"):
        ids, mask, positions, padded = (getattr(expected, f"{side}_{what}") for what in ("ids", "mask", "positions", "padded"))
        logits = run(ids, mask, positions)[0]
        assert np.isfinite(logits).all()
        assert largest(logits[mask == 1], padded[mask == 1]) <= BOUND


@pytest.mark.parametrize("name", tiny.CONFIGS)
def test_steps_have_the_bits_of_the_whole(crumb, made, tmp_path, name):
    folder, expected = made(name)
    run, ids, start = exported(crumb, folder, tmp_path), expected.ids[None], int(expected.steps_from)
    whole = run(ids)[0]
    rows, past = [], None
    for begin, end in ((0, start), (start, start + 2), (start + 2, start + 3), (start + 3, tiny.LENGTH)):
        logits, past = run(ids[:, begin:end], past=past)
        rows.append(logits)
    assert np.array_equal(np.concatenate(rows, axis=1), whole)
    assert largest(whole[0, start:], expected.steps) <= BOUND


@pytest.mark.parametrize("name", tiny.CONFIGS)
def test_what_is_exported_runs_in_onnxruntime(crumb, made, tmp_path, name):
    onnxruntime = pytest.importorskip("onnxruntime")
    folder, expected = made(name)
    run = exported(crumb, folder, tmp_path)
    session = onnxruntime.InferenceSession(str(run.model), providers=["CPUExecutionProvider"])
    assert largest(session.run(["logits"], run.inputs(expected.ids[None]))[0][0], expected.prefill) <= BOUND


@pytest.mark.parametrize(("name", "variant"), VARIANTS, ids=lambda part: getattr(part, "name", part))
def test_edits_are_computed_as_transformers_computes_them(crumb, made, tmp_path, name, variant):
    folder, original = made(name)
    other = tiny.edited(folder, variant, tmp_path / "edited")
    if "ministral" in variant.name:
        pytest.skip("transformers makes another architecture of it, which is not known here")
    logits = exported(crumb, other, tmp_path)(original.ids[None])[0][0]
    assert largest(logits, tiny.prefill(tiny.load(other), original.ids)) <= BOUND
    assert (largest(logits, original.prefill) > 1e-2) == variant.moves


def test_todays_spelling_of_the_configuration_says_the_same(crumb, made, tmp_path):
    for name in tiny.CONFIGS:
        folder, expected = made(name)
        other = tiny.edited(folder, tiny.Variant("as it is"), tmp_path / name)
        (other / "config.json").write_bytes((folder / "config_new.json").read_bytes())
        assert largest(exported(crumb, other, other.parent)(expected.ids[None])[0][0], expected.prefill) <= BOUND


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "falcon"}, "falcon"),
        ({"num_key_value_heads": 3}, "num_key_value_heads 3"),
        ({"vocab_size": 281}, "[281, 48]"),
        ({"hidden_act": "mish"}, '"hidden_act" is "mish"'),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "dynamic"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 2.0}}, "low_freq_factor"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0}}, "factor"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"head_dim": 7}, "7 elements"),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ({"is_causal": False}, "is_causal is false"),
        ({"rms_norm_eps": -1}, "rms_norm_eps"),
        ({"num_hidden_layers": 5}, "model.layers.3."),
    ],
)
def test_what_differs_is_refused_by_name(crumb, made, tmp_path, changes, said):
    other = tiny.edited(made("llama")[0], tiny.Variant("wrong", changes), tmp_path / "edited")
    result = crumb("export", other, "-o", tmp_path / "x.onnx", "--to", "float", status=1)
    assert said in result.stderr
    assert not (tmp_path / "x.onnx").exists()


def test_a_head_beside_tied_embeddings(crumb, made, tmp_path):
    """Of the same values it is the same network; of others, versions of transformers differ in which makes the logits."""
    folder, expected = made("llama_tied")
    files = pytest.importorskip("safetensors.numpy")
    tensors = files.load_file(folder / "model.safetensors")
    assert "lm_head.weight" not in tensors
    text = tmp_path / "text.txt"
    text.write_text("as it is said " * 20)
    for change in (0, 1e-3):
        other = tiny.edited(folder, tiny.Variant("as it is"), tmp_path / f"by{change}")
        head = tensors["model.embed_tokens.weight"].copy()
        head[-1, -1] += change
        files.save_file({**tensors, "lm_head.weight": head}, other / "model.safetensors", {"format": "pt"})
        tiny.write_tokenizer(other)
        if change == 0:
            assert largest(exported(crumb, other, tmp_path)(expected.ids[None])[0][0], expected.prefill) <= BOUND
            crumb("quantize", other, "-o", tmp_path / "q.crumb", "--weights", "int8:group=16")
            crumb("perplexity", tmp_path / "q.crumb", "--text", text, "--context", 32)
            continue
        for command in (("export", other, "-o", tmp_path / "x.onnx", "--to", "float"), ("perplexity", other, "--text", text),
                        ("quantize", other, "-o", tmp_path / "no.crumb", "--weights", "int8:group=16")):  # fmt: skip
            said = crumb(*command, status=1).stderr
            assert "'lm_head.weight' has other values than 'model.embed_tokens.weight'" in said and str(other) in said
        assert not (tmp_path / "no.crumb").exists()
