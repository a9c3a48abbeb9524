"""`crumb recover --baseline` and `crumb train lm --start` take files of one network: another one is refused before anything is
trained, with what differs first."""

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
tiny = pytest.importorskip("tiny_decoders")
pytestmark = pytest.mark.usefixtures("engine")

# A decoder that differs from llama3 by one thing, and what is said of it and of llama3.
OTHERS = {
    "hidden": ({"hidden_size": 64}, "its constant 'lm_head.weight' has shape [64, 280], there [48, 280]"),
    "inner": ({"intermediate_size": 96}, "its constant 'model.layers.0.mlp.down_proj.weight' has shape [96, 48], there [80, 48]"),
    "layers": ({"num_hidden_layers": 4}, "it has other inputs: 'past_key_values.3.key', there none"),
    "heads": ({"num_key_value_heads": 2}, "its input 'past_key_values.0.key' has shape [batch, 2, past, 16], there [batch, 4, past, 16]"),
    "vocabulary": ({"vocab_size": 300}, "its output 'logits' has shape [batch, sequence, 300], there [batch, sequence, 280]"),
}
HOW = ["--weights", "int4:channel", "--embeddings", "keep"]
STEP = ["--steps", 1, "--length", 24, "--batch", 2, "--threads", 1]


@pytest.fixture(scope="module")
def work(tmp_path_factory, crumb):
    folder = tmp_path_factory.mktemp("same_network")
    tiny.make("llama3", folder / "model")
    tiny.write_texts(folder)
    crumb("quantize", folder / "model", "-o", folder / "base.crumb", *HOW)
    crumb("quantize", folder / "model", "-o", folder / "split.crumb", *HOW, "--stages", "split")
    return folder


@pytest.fixture(scope="module")
def others(work):
    for name, (config, _) in OTHERS.items():
        tiny.CONFIGS[name], tiny.VARIANTS[name] = {**tiny.CONFIGS["llama3"], **config}, []
        tiny.make(name, work / name)
        del tiny.CONFIGS[name], tiny.VARIANTS[name]
    return OTHERS


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("init", ["zero", "svd"])
def test_another_baseline(crumb, work, others, tmp_path, name, init):
    said = crumb("recover", work / "base.crumb", "--baseline", work / name, "--init", init, "--data", work / "train.txt", *STEP,
                 "-o", tmp_path / "out", status=2).stderr  # fmt: skip
    assert f"--baseline '{work / name}' is another network than '{work / 'base.crumb'}': {others[name][1]}" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", OTHERS)
def test_another_start(crumb, work, others, tmp_path, name):
    crumb("quantize", work / name, "-o", tmp_path / "start.crumb", *HOW)
    said = crumb("train", "lm", "--model", work / "model", "--start", tmp_path / "start.crumb", "--data", work / "train.txt", *HOW, *STEP,
                 "-o", tmp_path / "out", status=2).stderr  # fmt: skip
    assert f"--start '{tmp_path / 'start.crumb'}' is another network than --model '{work / 'model'}': {others[name][1]}" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("base", ["base", "split"])
def test_the_network_itself_and_what_stages_made_of_it(crumb, work, tmp_path, base):
    """Where channels were doubled, constants have other shapes, and the function is the same."""
    crumb("recover", work / f"{base}.crumb", "--baseline", work / "model", "--data", work / "train.txt", *STEP, "-o", tmp_path / "recovered")
    crumb("train", "lm", "--model", work / "model", "--start", work / f"{base}.crumb", "--data", work / "train.txt", *HOW, *STEP,
          "-o", tmp_path / "trained")  # fmt: skip
    for folder in ("recovered", "trained"):
        assert json.loads((tmp_path / folder / "report.json").read_text())["steps"] == 1
