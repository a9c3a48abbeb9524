"""Small models with adapters of the `peft` package, drawn."""

import json
import warnings

import numpy as np
import peft
import torch
import transformers

torch.set_num_threads(1)  # the more the slower, for matrices as small as these

# As keys of rank_pattern and alpha_pattern: names, ends of names, regular expressions.
PATTERNS = ["q", "attn.q", "layers.1.attn.q", "^layers.0.attn.q", "layers.[01].mlp.up", r".*\.mlp\..*", "up|down", r"layers\.\d\.attn\.(q|k)",
            "head", "absent", "q$", "(q|(k))", r"a\w+.k", "layers.0", "la.{4}.0.attn.k", "^head$", "^q"]  # fmt: skip


class Block(torch.nn.Module):
    def __init__(self, rng):
        super().__init__()
        size = lambda: int(rng.integers(1, 9))  # noqa: E731
        inner = size()
        self.attn = torch.nn.ModuleDict({"q": torch.nn.Linear(5, inner), "k": torch.nn.Linear(5, size(), bias=False)})
        self.mlp = torch.nn.ModuleDict({"up": torch.nn.Linear(5, inner), "down": torch.nn.Linear(inner, 5)})

    def forward(self, x):
        return x + self.mlp["down"](torch.relu(self.mlp["up"](x)) * self.attn["q"](x)) + self.attn["k"](x).sum(-1, True)


class Net(torch.nn.Module):
    """Linear layers of many sizes under names like a checkpoint's."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        rng = np.random.default_rng(seed)
        self.layers = torch.nn.ModuleList([Block(rng), Block(rng)])
        self.head = torch.nn.Linear(5, int(rng.integers(1, 9)))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def drawn_config(rng):
    """A LoraConfig of plain LoRA."""
    pick = lambda items: items[rng.integers(len(items))]  # noqa: E731
    number = lambda: pick([1, 2, 8, 16, 32, 0.5, 7.3, float(rng.uniform(-4, 20))])  # noqa: E731
    some = lambda draw: {PATTERNS[i]: draw() for i in rng.permutation(len(PATTERNS))[: rng.integers(0, 5)]}  # noqa: E731
    return peft.LoraConfig(
        r=int(rng.integers(1, 9)),
        lora_alpha=number(),
        use_rslora=bool(rng.integers(2)),
        rank_pattern=some(lambda: int(rng.integers(1, 9))),
        alpha_pattern=some(number),
        target_modules=pick([["q", "k"], ["attn.q", "layers.1.mlp.up", "head"], r".*\.(up|down)", "all-linear", ["q", "head"]]),
        lora_dropout=pick([0.0, 0.1]),
        init_lora_weights=False,
    )


def adapted(model, config):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # patterns that match nothing
        return peft.get_peft_model(model, config).eval()


def save(model, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(folder)
    return folder


def shuffle_patterns(rng, folder):
    """PEFT writes keys in their order; the first that matches counts, so another order is another adapter."""
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text())
    for key in ("rank_pattern", "alpha_pattern"):
        items = list(config[key].items())
        config[key] = dict(items[i] for i in rng.permutation(len(items)))
    path.write_text(json.dumps(config))


def updates(model):
    """{module: (scale, lora_A, lora_B)} as float32, by the layers that PEFT made."""
    found = {}
    for name, module in model.get_base_model().named_modules():
        if isinstance(module, peft.tuners.lora.LoraLayer):
            (adapter,) = module.lora_A
            matrices = (m[adapter].weight.detach().float().numpy() for m in (module.lora_A, module.lora_B))
            found[name] = (np.float32(module.scaling[adapter]), *matrices)
    return found


def tiny(kind, seed=0):
    """A decoder of transformers with random weights."""
    shape = dict(vocab_size=64, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, max_position_embeddings=64)  # fmt: skip
    torch.manual_seed(seed)
    if kind in ("gemma3_text", "qwen3"):
        shape["head_dim"] = 8
    config = transformers.AutoConfig.for_model(kind, **shape, pad_token_id=None, tie_word_embeddings=False)
    return transformers.AutoModelForCausalLM.from_config(config).eval()
