#!/usr/bin/env python3
"""Folders as AutoRound writes them, of codes drawn at random, and what its own layers compute of them.

    PYTHONPATH=(of the environment clients/loaders) python auto_round_folders.py FOLDER

FOLDER/FORMAT-BITS gets model.safetensors and config.json, FOLDER/FORMAT-BITS.values.safetensors the values. Scales are above
zero, since the layers give their weights as products with ones and zeros.
"""

import importlib
import json
import sys
import types
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

torch.set_num_threads(1)
FORMATS = {"auto_round:auto_gptq": range(2, 9), "auto_round": range(2, 9), "auto_round:auto_awq": [4]}


def import_layers():
    """auto_round's modules without the packages around them, which import what tests have no use for."""
    root = next(Path(path) for path in sys.path if (Path(path) / "auto_round").is_dir())
    for name in ("auto_round", "auto_round.utils", "auto_round.export", "auto_round.export.export_to_awq"):
        module = sys.modules[name] = types.ModuleType(name)
        module.__path__ = [str(root / name.replace(".", "/"))]
    sys.modules["auto_round.utils"].get_packing_device = lambda device=None: torch.device("cpu")
    sys.modules["auto_round.utils"].logger = None
    load = importlib.import_module
    return {"auto_round:auto_gptq": load("auto_round_extension.torch.qlinear_torch_zp").QuantLinear,
            "auto_round": load("auto_round_extension.torch.qlinear_torch").QuantLinear,
            "auto_round:auto_awq": load("auto_round.export.export_to_awq.utils").dequantize_gemm}  # fmt: skip


def words(generator, *shape):
    return torch.tensor(generator.integers(-(2**31), 2**31, shape), dtype=torch.int32)


def weights_of(layer, form, bits, group, parts):
    """[outputs, inputs], float16."""
    if form == "auto_round:auto_awq":
        return layer(parts["qweight"], parts["qzeros"], parts["scales"], bits, group).t()
    cols, rows = parts["scales"].shape[0] * group, parts["scales"].shape[1]
    made = layer(bits, group, cols, rows, bias=False)
    made.load_state_dict(parts)
    return made(torch.eye(cols)).t().half()


def main():
    folder, layers = Path(sys.argv[1]), import_layers()
    generator = np.random.default_rng(12)
    for form, widths in FORMATS.items():
        for bits in widths:
            tensors, values = {}, {}
            group = int(generator.choice([32, 64, 128]))
            for number in range(6):
                own = group if number % 3 else int(generator.choice([32, 64]))
                rows, groups = 32 * int(generator.integers(1, 4)), int(generator.integers(1, 4))
                cols = own * groups
                awq = form.endswith("awq")
                parts = {"qweight": words(generator, *((cols, rows // 8) if awq else (cols * bits // 32, rows))),
                         "qzeros": words(generator, groups, rows * bits // 32),
                         "scales": torch.tensor(generator.uniform(1e-4, 0.1, (groups, rows)), dtype=torch.float16)}  # fmt: skip
                name = f"layers.{number}.up_proj"
                tensors |= {f"{name}.{part}": tensor for part, tensor in parts.items()}
                values[f"{name}.weight"] = weights_of(layers[form], form, bits, own, parts)
            name = f"{form.replace(':', '_')}-{bits}"
            (folder / name).mkdir(parents=True)
            save_file(tensors, folder / name / "model.safetensors")
            save_file({key: tensor.float().contiguous() for key, tensor in values.items()}, folder / f"{name}.values.safetensors")
            quantization = {"quant_method": "auto-round", "bits": bits, "group_size": group, "sym": False, "data_type": "int",
                            "packing_format": form}  # fmt: skip
            (folder / name / "config.json").write_text(json.dumps({"quantization_config": quantization}))


if __name__ == "__main__":
    main()
