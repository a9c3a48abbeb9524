"""The language model in checkpoints of models that read images, too: its logits of a text are transformers' of the whole,
as it is, packed and exported; what is left out is said."""

import json
import shutil

import numpy as np
import pytest
from decoder_runs import DecoderRun

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")
tiny = pytest.importorskip("tiny_decoders")
parts = pytest.importorskip("text_parts")
BOUND = 1e-4  # of logits, whose standard deviation is about 4


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(kind) -> folder, token ids and logits of a tiny model."""
    known = {}

    def make(kind):
        if kind not in known:
            folder = tmp_path_factory.mktemp(kind)
            known[kind] = folder, *parts.make(kind, folder)
        return known[kind]

    return make


def text_of(crumb, folder, target):
    """The language model alone, in floats, as a folder."""
    packed = target.with_suffix(".crumb")
    crumb("quantize", folder, "-o", packed, "--weights", "int8:channel", "--exclude", "*")
    crumb("export", packed, "-o", target, "--to", "hf")
    return target


def largest(a, b):
    return float(np.abs(a - b).max())


@pytest.mark.parametrize("kind", parts.KINDS)
def test_a_texts_logits_are_those_of_the_whole_model(crumb, made, tmp_path, kind):
    folder, ids, logits = made(kind)
    assert logits.std() >= 3
    alone = text_of(crumb, folder, tmp_path / "alone")
    assert json.loads((alone / "config.json").read_text())["architectures"] == [parts.CLASSES[kind]]
    assert largest(tiny.prefill(tiny.load(alone), ids), logits) <= BOUND
    assert largest(DecoderRun(crumb, folder, alone, tmp_path / "run")(ids[None])[0][0], logits) <= BOUND


@pytest.mark.parametrize("kind", parts.KINDS)
def test_a_folder_is_exported_as_it_is(crumb, made, tmp_path, kind):
    """To the tensors and configuration of the packed file's folder, which transformers loads."""
    from safetensors.numpy import load_file

    folder, ids, logits = made(kind)
    crumb("export", folder, "-o", tmp_path / "straight", "--to", "hf")
    assert largest(tiny.prefill(tiny.load(tmp_path / "straight"), ids), logits) <= BOUND
    alone = text_of(crumb, folder, tmp_path / "alone")
    assert (tmp_path / "straight" / "config.json").read_bytes() == (alone / "config.json").read_bytes()
    found, meant = (load_file(path / "model.safetensors") for path in (tmp_path / "straight", alone))
    assert found.keys() == meant.keys()
    assert all(np.array_equal(found[name], meant[name]) for name in found)


@pytest.mark.parametrize("place", parts.PLACES)
@pytest.mark.parametrize("kind", parts.KINDS)
def test_where_the_language_model_lies_makes_no_difference(crumb, made, tmp_path, kind, place):
    folder, ids, logits = made(kind)
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    parts.move(other, place)
    packed = [tmp_path / "as_it_is.crumb", tmp_path / "moved.crumb"]
    for source, target in zip((folder, other), packed, strict=True):
        crumb("quantize", source, "-o", target, "--weights", "int8:channel")
    assert packed[0].read_bytes() == packed[1].read_bytes()


@pytest.mark.parametrize("kind", ["qwen2_vl", "qwen2_5_vl"])
def test_the_texts_keys_may_lie_beside_the_others(crumb, made, tmp_path, kind):
    folder, ids, logits = made(kind)
    flat = tmp_path / "flat"
    shutil.copytree(folder, flat)
    parts.flatten(flat)
    alone = text_of(crumb, flat, tmp_path / "alone")
    assert not {key for key in json.loads((alone / "config.json").read_text()) if "vision" in key or "image" in key}
    assert largest(tiny.prefill(tiny.load(alone), ids), logits) <= BOUND
    assert largest(DecoderRun(crumb, flat, alone, tmp_path / "run")(ids[None])[0][0], logits) <= BOUND


@pytest.mark.parametrize("kind", parts.KINDS)
def test_what_is_left_out_is_said(crumb, made, tmp_path, kind):
    folder = made(kind)[0]
    names = set(pytest.importorskip("safetensors.torch").load_file(folder / "model.safetensors"))
    tower = "visual" if "qwen" in kind else "vision_tower"
    count = sum(tower in name.split(".")[:2] for name in names)
    assert count > 1
    text = tmp_path / "text.txt"
    text.write_text("then there " * 20)
    weights = ("--weights", "int8:channel")
    commands = [("inspect", folder), ("quantize", folder, "-o", tmp_path / "a.crumb", *weights),
        ("quantize", folder, "-o", tmp_path / "d.crumb", *weights, "--data", text, "--tokens", "16"),
        ("passes", folder, "-o", tmp_path / "b", "fold-norms")]  # fmt: skip
    commands += [("generate", folder, "--prompt", "then", "--tokens", "1"),
        ("perplexity", folder, "--text", text, "--context", "16", "--tokens", "16"),
        ("export", folder, "-o", tmp_path / "e", "--to", "hf")]  # fmt: skip
    if kind in ("mistral3", "qwen2_vl", "qwen3_vl"):  # what llama.cpp has words for
        commands.append(("export", folder, "-o", tmp_path / "c.gguf", "--to", "gguf"))
    for command in commands:
        said = crumb(*command).stderr
        assert said.count(f"{tower}': {count} tensors beside the language model") == 1, command
        assert "left out 'preprocessor_config.json'" in said


@pytest.mark.parametrize("kind", parts.KINDS)
def test_what_a_configuration_leaves_out_is_what_transformers_means(crumb, tmp_path, kind):
    """The configuration of the text alone, of one that says nothing."""
    from safetensors.torch import save_file
    from transformers import AutoConfig

    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": kind, "text_config": {}}))
    save_file({"model.language_model.embed_tokens.weight": tiny.torch.ones(2, 2)}, folder / "model.safetensors")
    crumb("quantize", folder, "-o", tmp_path / "x.crumb", "--weights", "int8:channel")
    crumb("dequantize", tmp_path / "x.crumb", "-o", tmp_path / "x")
    found = AutoConfig.from_pretrained(tmp_path / "x").to_dict()
    meant = AutoConfig.for_model(kind, text_config={}).get_text_config().to_dict()
    own = {"_name_or_path", "model_type", "architectures", "transformers_version", "dtype", "tie_word_embeddings",
        "bos_token_id", "eos_token_id", "pad_token_id"}  # fmt: skip
    assert {key: found[key] for key in meant.keys() - own} == {key: meant[key] for key in meant.keys() - own}
    assert found["tie_word_embeddings"] == (kind in ("gemma3", "mistral3"))


def test_a_text_of_another_kind_is_refused_by_name(crumb, made, tmp_path):
    folder = tmp_path / "other"
    shutil.copytree(made("mistral3")[0], folder)
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["model_type"] = "ministral3"
    (folder / "config.json").write_text(json.dumps(config))
    said = crumb("export", folder, "-o", tmp_path / "x.onnx", "--to", "float", status=1).stderr
    assert "mistral3" in said and "ministral3" in said
