"""A decoder's graph, executed by `crumb run`: what it takes and gives, as arrays."""

import json

import numpy as np


class DecoderRun:
    """`model`: whatever file or folder `crumb run` takes; `folder` has the config.json that says what its cache is."""

    def __init__(self, crumb, model, folder, work, engine="runtime"):
        self.crumb, self.model, self.work, self.engine = crumb, model, work, engine
        config = json.loads((folder / "config.json").read_text())
        depth = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        heads, layers = config["num_key_value_heads"], config["num_hidden_layers"]
        heads = heads if isinstance(heads, list) else [heads] * layers
        self.cache = [(f"{n}.{part}", heads[n], depth) for n in range(layers) for part in ("key", "value")]
        work.mkdir(exist_ok=True)

    def inputs(self, ids, mask=None, positions=None, past=None):
        before = 0 if past is None else next(iter(past.values())).shape[2]
        given = {
            "input_ids": ids,
            "attention_mask": np.ones((ids.shape[0], before + ids.shape[1]), np.int64) if mask is None else mask,
            "position_ids": before + np.tile(np.arange(ids.shape[1]), (ids.shape[0], 1)) if positions is None else positions,
        }
        for name, heads, depth in self.cache:
            empty = np.zeros((ids.shape[0], heads, 0, depth), np.float32)
            given[f"past_key_values.{name}"] = empty if past is None else past[name]
        return given

    def __call__(self, *given, flags=(), **named):
        """Logits and present."""
        fed = []
        for name, values in self.inputs(*given, **named).items():
            np.save(self.work / f"{name}.npy", values)
            fed += ["--input", f"{name}={self.work / name}.npy"]
        out = self.work / "out"
        self.crumb("run", self.model, *fed, "--output-dir", out, "--engine", self.engine, *flags)
        return np.load(out / "logits.npy"), {name: np.load(out / f"present.{name}.npy") for name, _, _ in self.cache}
