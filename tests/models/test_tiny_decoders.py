"""The tiny decoders are what tiny_decoders.py says: sharp enough that each mistake shows, and the same every time."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")
spec = importlib.util.spec_from_file_location("tiny_decoders", Path(__file__).parent / "tiny_decoders.py")
tiny_decoders = sys.modules["tiny_decoders"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tiny_decoders)
NAMES = list(tiny_decoders.CONFIGS)


@pytest.fixture(scope="module", params=NAMES)
def decoder(request, tmp_path_factory):
    """(name, folder, Reference) of each tiny decoder."""
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, folder, tiny_decoders.make(request.param, folder)


def test_logits_spread(decoder):
    name, folder, reference = decoder
    assert reference.prefill.shape == (tiny_decoders.LENGTH, 280) and reference.prefill.dtype == np.float32
    assert np.isfinite(reference.prefill).all() and reference.prefill.std() >= 3
    assert np.median(reference.prefill.std(1)) >= 3
    for field in vars(reference):
        assert np.array_equal(np.load(folder / f"{field}.npy"), getattr(reference, field))


def test_the_same_every_time(decoder, tmp_path):
    name, folder, reference = decoder
    tiny_decoders.make(name, tmp_path)
    for file in folder.iterdir():
        if file.suffix != ".npy":
            assert file.read_bytes() == (tmp_path / file.name).read_bytes(), file.name
    assert np.abs(np.load(tmp_path / "prefill.npy") - reference.prefill).max() < 1e-5


def test_steps_and_padding_give_what_one_sequence_gives(decoder):
    name, folder, reference = decoder
    assert np.abs(reference.steps - reference.prefill[reference.steps_from :]).max() <= 1e-4
    apart = np.abs(reference.prefix - reference.prefill[: tiny_decoders.PREFIX]).max()
    assert apart > 1e-2 if name == "phi3_long" else apart <= 1e-4
    model = tiny_decoders.load(folder)
    for side in ("left", "right"):
        ids, mask, padded = (getattr(reference, f"{side}_{part}") for part in ("ids", "mask", "padded"))
        for row in range(2):
            there = mask[row] == 1
            alone = tiny_decoders.prefill(model, ids[row][there])
            assert np.abs(padded[row][there] - alone).max() <= 1e-4


def test_each_mistake_shows(decoder, tmp_path):
    name, folder, reference = decoder
    variants = tiny_decoders.VARIANTS[name]
    assert len({variant.name for variant in variants}) == len(variants) >= 5
    for variant in variants:
        model = tiny_decoders.load(tiny_decoders.edited(folder, variant, tmp_path / variant.name))
        apart = np.abs(tiny_decoders.prefill(model, reference.ids) - reference.prefill).max()
        assert apart > 1e-2 if variant.moves else apart < 1e-5, (variant.name, apart)


def test_todays_spelling_of_the_configuration_says_the_same(decoder, tmp_path):
    name, folder, reference = decoder
    target = tiny_decoders.edited(folder, tiny_decoders.Variant("as it is"), tmp_path)
    (target / "config.json").write_bytes((folder / "config_new.json").read_bytes())
    said = json.loads((target / "config.json").read_text())
    assert "rope_parameters" in said and "rope_theta" not in said
    assert np.abs(tiny_decoders.prefill(tiny_decoders.load(target), reference.ids) - reference.prefill).max() < 1e-5


def test_the_tokenizer_splits_and_joins(decoder):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(decoder[1])
    text = "There, then: ünï 42\n"
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids) == text and len(ids) < len(text.encode()) and max(ids) < 280
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (256, 257, 258)
