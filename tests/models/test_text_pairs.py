"""crumb embed --pairs, and heads that score texts, on drawn encoders against sentence-transformers: equal within 1e-4."""

import json
import random

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")

import tiny_encoders  # noqa: E402
import torch  # noqa: E402
from sentence_transformers import CrossEncoder  # noqa: E402
from tiny_encoders import LINES, SCORERS  # noqa: E402

TOLERANCE = 1e-4
PROMPTS = {"query": "Instruct: find it\nQuery:", "fox": "fox "}
TEXTS = [line.replace("\t", " ") for line in LINES]


def drawn_pairs(rng, count=24):
    """Long texts with short, long and empty ones, first and second."""
    pairs = [[rng.choice(TEXTS), rng.choice(TEXTS)] for _ in range(count)]
    longest = "the lazy dog " * 40
    return [*pairs, ["", ""], [longest, ""], ["", longest], [longest, longest], [longest, "a b c d"], ["a", "b"]]


def run(crumb, model, folder, pairs, *options):
    text = folder / "pairs.tsv"
    text.write_bytes("".join(f"{first}\t{second}\n" for first, second in pairs).encode())
    crumb("embed", model, "--pairs", "--text", text, "-o", folder / "vectors.npy", *options)
    return np.load(folder / "vectors.npy")


def check(found, expected, pairs):
    expected = np.asarray(expected, np.float32).reshape(len(pairs), -1)
    assert found.dtype == np.float32 and found.shape == expected.shape
    far = np.abs(found - expected).max(axis=1)
    worst = int(far.argmax())
    assert far[worst] < TOLERANCE, f"pair {worst} ({pairs[worst]!r}) differs by {far[worst]}"


@pytest.mark.parametrize("family", [*tiny_encoders.FAMILIES, "bert"])
def test_pairs_are_those_of_sentence_transformers(crumb, tmp_path, family):
    for seed in range(2):
        rng = random.Random(f"pairs {family} {seed}")
        folder, pairs = tmp_path / str(seed), drawn_pairs(rng)
        oracle = tiny_encoders.write(
            family, folder, seed, pooling=rng.choice(["mean", "cls", "lasttoken"]), include_prompt=rng.random() < 0.5,
            prompts=PROMPTS, default_prompt=rng.choice([None, "query"]), length=rng.choice([None, 8, 11]),
        )  # fmt: skip
        check(run(crumb, folder, tmp_path, pairs), oracle.encode(pairs, batch_size=5), pairs)
        check(run(crumb, folder, tmp_path, pairs, "--prompt", "the "), oracle.encode(pairs, prompt="the "), pairs)


@pytest.mark.parametrize("family", SCORERS)
def test_scores_are_those_of_a_cross_encoder(crumb, tmp_path, family):
    for seed in range(2):
        rng = random.Random(f"scores {family} {seed}")
        folder, pairs = tmp_path / str(seed), drawn_pairs(rng)
        oracle = tiny_encoders.write_scorer(
            family, folder, seed, labels=rng.choice([1, 1, 3]), as_model=rng.random() < 0.5, length=rng.choice([None, 12]),
            activation=rng.choice([None, torch.nn.Identity(), torch.nn.Sigmoid(), torch.nn.Tanh(), torch.nn.ReLU()]),
        )  # fmt: skip
        check(run(crumb, folder, tmp_path, pairs), oracle.predict(pairs, batch_size=5), pairs)


@pytest.mark.parametrize("family", SCORERS)
def test_a_packed_file_scores_as_what_it_stands_for(crumb, tmp_path, family):
    folder, packed, back = tmp_path / "model", tmp_path / "model.crumb", tmp_path / "back"
    pairs = drawn_pairs(random.Random(family))
    tiny_encoders.write_scorer(family, folder, 7, labels=1, activation=torch.nn.Identity())
    crumb("quantize", folder, "-o", packed, "--weights", "int4:channel", "--embeddings", "int8:channel")
    crumb("dequantize", packed, "-o", back)
    scores = run(crumb, packed, tmp_path, pairs)
    check(scores, CrossEncoder(str(back), device="cpu").predict(pairs), pairs)
    assert np.abs(scores - run(crumb, folder, tmp_path, pairs)).max() > TOLERANCE, "nothing was rounded"


def test_pairs_calibrate(crumb, tmp_path):
    folder, packed = tmp_path / "model", tmp_path / "model.crumb"
    tiny_encoders.write_scorer("bert", folder, 3, labels=1)
    pairs = [[first, second] for first, second in drawn_pairs(random.Random(3)) if first.strip() or second.strip()]
    pairs = [pair for pair in pairs if "[" not in "".join(pair)]
    text = tmp_path / "samples.tsv"
    text.write_bytes("".join(f"{first}\t{second}\n" for first, second in pairs).encode())
    types = {}
    for name, options in {"pairs": ["--pairs"], "lines": []}.items():
        crumb("quantize", folder, "-o", packed, "--weights", "int8:channel", "--activations", "uint8:tensor:zero=int",
              "--data", text, *options)  # fmt: skip
        types[name] = run(crumb, packed, tmp_path, pairs)
    exact = run(crumb, folder, tmp_path, pairs)
    lost = {name: np.abs(scores - exact).mean() for name, scores in types.items()}
    assert not np.array_equal(types["pairs"], types["lines"]), "the second text's tokens have types of their own"
    assert lost["pairs"] < 0.05, lost


def test_what_is_wrong_with_pairs_is_named(crumb, tmp_path):
    folder, text = tmp_path / "model", tmp_path / "pairs.tsv"
    tiny_encoders.write("bert", folder, 2)

    def said(content, *options, verb=("embed", folder, "-o", tmp_path / "v.npy", "--text", text)):
        text.write_text(content)
        return crumb(*verb, *options, status=None).stderr

    assert "line 2: found 0 tabs, expected two texts with one tab" in said("a\tb\nc\n", "--pairs")
    assert "line 1: found 2 tabs" in said("a\tb\tc\n", "--pairs")
    quantize = ("quantize", folder, "-o", tmp_path / "m.crumb", "--weights", "int8:channel")
    assert "line 1: found 0 tabs" in said("a\n", "--data", text, "--pairs", verb=quantize)
    assert "--data" in said("a\n", "--pairs", verb=quantize)
    array = tmp_path / "x.npy"
    np.save(array, np.zeros((2, 3), np.int64))
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        quantize += ("--data", f"{name}={array}")
    assert "--pairs is for lines of text" in said("", "--pairs", verb=quantize)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "model_max_length": 3}))
    (folder / "sentence_bert_config.json").unlink()
    assert "3 stand around every pair" in said("a\tb\n", "--pairs")


def test_heads_of_classes_are_named_where_they_are_not_read(crumb, tmp_path):
    folder = tmp_path / "model"
    tiny_encoders.write_scorer("bert", folder, 1, labels=1, as_model=True)
    text = tmp_path / "pairs.tsv"
    text.write_text("a\tb\n")

    def said(file, **values):
        before = (folder / file).read_text()
        (folder / file).write_text(json.dumps({**json.loads(before), **values}))
        stderr = crumb("embed", folder, "--pairs", "--text", text, "-o", tmp_path / "v.npy", status=1).stderr
        (folder / file).write_text(before)
        return stderr

    assert "torch.nn.modules.activation.Mish" in said(
        "config_sentence_transformers.json", activation_fn="torch.nn.modules.activation.Mish"
    )
    assert "id2label" in said("config.json", id2label=[])
    assert "expected a Transformer and a Pooling module first" in said("config.json", architectures=["BertModel"])
    (folder / "modules.json").unlink()
    decoder = said("config.json", model_type="qwen3", architectures=["Qwen3ForSequenceClassification"])
    assert "'Qwen3ForSequenceClassification'" in decoder and "a decoder with a head of classes" in decoder
