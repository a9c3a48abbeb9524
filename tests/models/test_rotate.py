"""The stage rotate on decoders of every family: the same logits, of all tokens and behind a cache, matrices that turned, norms
without gains; and files for other tools only where these compute the same network."""

import json
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")
tiny = pytest.importorskip("tiny_decoders")
from decoder_runs import DecoderRun  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

BOUND = 2e-4  # of logits, whose standard deviation is about 4: each weight is rounded twice
AFTER = {"gemma2", "gemma3_text", "olmo2"}  # norms behind attention and MLP: their gains stand in the stream


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(name) -> folder, its configuration and Reference of a tiny decoder."""
    known = {}

    def make(name):
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            reference = tiny.make(name, folder)
            known[name] = folder, json.loads((folder / "config.json").read_text()), reference
        return known[name]

    return make


def rotate(crumb, folder, target, stage="rotate", weights="keep"):
    said = crumb("quantize", folder, "-o", target, "--weights", weights, "--embeddings", "keep", "--stages", stage, "--json")
    return json.loads(said.stdout)["stages"][0]


def largest(a, b):
    return float(np.abs(a - b).max())


def is_tied(config):
    return config.get("tie_word_embeddings", config["model_type"] in ("gemma2", "gemma3_text", "smollm3"))


@pytest.mark.parametrize("stage", ["rotate", "rotate:online=16", "rotate:streams=off", "rotate:heads=off:seed=3"])
@pytest.mark.parametrize("name", tiny.CONFIGS)
def test_the_network_stays(crumb, made, tmp_path, name, stage):
    folder, config, expected = made(name)
    has_streams = config["model_type"] not in AFTER
    if not has_streams and "heads=off" in stage:
        result = crumb("quantize", folder, "-o", tmp_path / "r.crumb", "--weights", "keep", "--stages", stage, status=1)
        assert re.search("finds nothing to rotate: value .* (comes from|goes to) node", result.stderr)
        return
    report = rotate(crumb, folder, tmp_path / "r.crumb", stage)
    assert has_streams or "streams=off" in stage or any("which is not rotated" in note for note in report["notes"])
    run, ids, start = DecoderRun(crumb, tmp_path / "r.crumb", folder, tmp_path / "work"), expected.ids[None], int(expected.steps_from)
    assert largest(run(ids)[0][0], expected.prefill) <= BOUND
    rows, past = [], None
    for begin, end in ((0, start), (start, start + 1), (start + 1, tiny.LENGTH)):
        logits, past = run(ids[:, begin:end], past=past)
        rows.append(logits)
    assert largest(np.concatenate(rows, axis=1)[0, start:], expected.steps) <= BOUND


@pytest.mark.parametrize("name", tiny.CONFIGS)
def test_other_tools_get_what_they_can_compute(crumb, made, tmp_path, name):
    folder, config, expected = made(name)
    rotate(crumb, folder, tmp_path / "r.crumb")
    if is_tied(config) and config["model_type"] not in AFTER:
        for form, target in (("hf", "hf"), ("gguf", "x.gguf")):
            result = crumb("export", tmp_path / "r.crumb", "--to", form, "-o", tmp_path / target, status=1)
            assert "multiplies by 'model.norm.rotation.weight'" in result.stderr
            assert not (tmp_path / target).exists()
        return
    crumb("export", tmp_path / "r.crumb", "--to", "hf", "-o", tmp_path / "hf")
    before, after = load_file(folder / "model.safetensors"), load_file(tmp_path / "hf" / "model.safetensors")
    assert set(before) == set(after)
    turned = [key for key in before if not torch.equal(before[key], after[key]) and before[key].dim() == 2]
    assert any("o_proj" in key for key in turned)
    assert largest(tiny.prefill(tiny.load(tmp_path / "hf"), expected.ids), expected.prefill) <= BOUND


def test_products_as_it_runs_do_not_leave(crumb, made, tmp_path):
    folder, _, _ = made("llama")
    rotate(crumb, folder, tmp_path / "r.crumb", "rotate:online=4")  # 64 bytes, which no tensor of the file is
    for form, target in (("hf", "hf"), ("gguf", "x.gguf")):
        result = crumb("export", tmp_path / "r.crumb", "--to", form, "-o", tmp_path / target, status=1)
        assert "multiplies by 'rotation_of_blocks'" in result.stderr


def test_codes_are_of_what_turned_and_caches_stay_right(crumb, made, tmp_path):
    folder, _, expected = made("llama")
    rotate(crumb, folder, tmp_path / "r.crumb", "rotate", "int8:channel")
    logits = DecoderRun(crumb, tmp_path / "r.crumb", folder, tmp_path / "work")(expected.ids[None])[0][0]
    off = np.sqrt(np.mean((logits - expected.prefill) ** 2))
    assert 1e-4 < off < 0.2
    said = crumb("quantize", folder, "-o", tmp_path / "c.crumb", "--weights", "keep", "--kv-cache", "int8", "--stages", "rotate").stdout
    assert "rotate" in said
    cached = DecoderRun(crumb, tmp_path / "c.crumb", folder, tmp_path / "work2")(expected.ids[None])[0][0]
    assert np.sqrt(np.mean((cached - expected.prefill) ** 2)) < 0.2
