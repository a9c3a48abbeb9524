"""`crumb train embed` of drawn encoders of every family: what training measured is what `crumb embed` gives from its file."""

import json

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
pytestmark = pytest.mark.usefixtures("engine")

import tiny_encoders  # noqa: E402
import torch  # noqa: E402


def vectors(crumb, model, lines, folder):
    crumb("embed", model, "--text", lines, "-o", folder / "vectors.npy")
    return np.load(folder / "vectors.npy")


@pytest.mark.parametrize("family", ["xlm-roberta", "mpnet", "qwen3", "modernbert"])
def test_a_trained_file_has_the_cosine_that_was_measured(crumb, tmp_path, family):
    model, lines, out = tmp_path / "model", tmp_path / "lines.txt", tmp_path / "out"
    tiny_encoders.write(family, model, 4, pooling=("mean", "lasttoken"), dense=[(8, torch.nn.Tanh(), True)],
                        include_prompt=False, prompts={"fox": "the fox "}, default_prompt="fox")  # fmt: skip
    lines.write_text("".join(line + "\n" for line in tiny_encoders.CORPUS))
    report = json.loads(crumb("train", "embed", "--model", model, "--data", lines, "--valid", lines, "-o", out, "--threads", 1,
                              "--products", "f32", "--batch", 6, "--steps", 30, "--rate", 3e-3, "--weights", "int3:channel",
                              "--json").stdout)  # fmt: skip
    ours, theirs = vectors(crumb, out / "model.crumb", lines, tmp_path), vectors(crumb, model, lines, tmp_path)
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    assert float(((ours * theirs).sum(1) / lengths).mean()) == pytest.approx(report["quantized"], abs=1e-5)
    assert report["quantized"] > report["rounded"]
