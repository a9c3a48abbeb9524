"""Prints the golden vectors of encoder_test.cpp: a tiny BERT with weights from a formula, run by transformers.

Run it with the Python environment of scripts/setup. Weight i of the t-th tensor, in order of names, is
0.4 * sin(0.37 * i + t), plus 1 for the weights of layer norms.
"""

import numpy as np
import torch
from transformers import BertConfig, BertModel

IDS = [2, 5, 9, 1, 7, 3]


def tiny(activation: str) -> BertModel:
    config = BertConfig(
        vocab_size=12,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=10,
        type_vocab_size=2,
        hidden_act=activation,
        layer_norm_eps=1e-5,
    )
    model = BertModel(config, add_pooling_layer=False).eval()
    tensors = model.state_dict()
    names = sorted(name for name in tensors if name.endswith(("weight", "bias")))
    for t, name in enumerate(names):
        count = tensors[name].numel()
        values = 0.4 * np.sin(0.37 * np.arange(count) + t) + (1 if name.endswith("LayerNorm.weight") else 0)
        tensors[name] = torch.tensor(values.astype(np.float32)).reshape(tensors[name].shape)
    model.load_state_dict(tensors)
    return model


def show(name: str, values) -> None:
    print(name + ": {" + ", ".join(f"{v:.7g}F" for v in values.tolist()) + "}")


with torch.no_grad():
    for activation in ("gelu", "gelu_new", "relu"):
        states = tiny(activation)(input_ids=torch.tensor([IDS])).last_hidden_state[0]
        show(activation + " mean", states.mean(0))
        if activation == "gelu":
            show("cls", states[0])
            show("max", states.max(0).values)
            show("mean_sqrt_len", states.sum(0) / len(IDS) ** 0.5)
            weights = torch.arange(1, len(IDS) + 1, dtype=torch.float32)
            show("weightedmean", (states * weights[:, None]).sum(0) / weights.sum())
            show("lasttoken", states[-1])
            show("normalized mean", torch.nn.functional.normalize(states.mean(0), dim=0))
