"""A rule of a recipe reaches the same weights of a real model whether its tensors alone are quantized or its network is."""

import json
import random

import pytest

PATTERNS = {
    "minilm": ["*.attention", "encoder.layer.0", "encoder.layer.[345].output.dense", "*query*", "embeddings", "pooler",
               "re:.*\\.\\d\\.output", "embeddings.word_embeddings", "*.intermediate.dense.weight", "encoder"],
    "smollm2": ["*.mlp", "model.layers.7", "*.self_attn.[qk]_proj", "*proj*", "model.embed_tokens", "model",
                "re:model\\.layers\\.2\\d", "*down_proj.weight", "model.layers.1?"],
}  # fmt: skip
NETWORK_FLAGS = [["--activations", "int8:token"], ["--method", "gptq"], ["--kv-cache", "int8", "--stages", "rounding"]]


def specs(crumb, source, flags):
    """What becomes of each tensor, or the exit code where the rules are refused."""
    done = crumb("quantize", source, "--dry-run", "--json", "--weights", "int4:group=32", *flags, status=None)
    if done.returncode != 0:
        return done.returncode
    report = json.loads(done.stdout)
    return {row["name"]: row["spec"] for row in report.get("tensors") or report["weights"]}


@pytest.mark.parametrize("model", PATTERNS)
def test_rules_reach_the_same_with_and_without_a_network(crumb, request, model):
    source = request.getfixturevalue(model)
    draw = random.Random(49)
    for round_ in range(9):
        names = [*PATTERNS[model], "*.qury", "nothing"]
        flags = []
        for flag in draw.sample(["--include", "--exclude", "--set"], draw.randint(1, 2)):
            name = draw.choice(names)
            flags += [flag, f"{name}={draw.choice(['int3', 'int8:tensor', 'keep'])}" if flag == "--set" else name]
        of_network = NETWORK_FLAGS[round_ % (2 if model == "minilm" else 3)]
        alone, network = specs(crumb, source, flags), specs(crumb, source, flags + of_network)
        if isinstance(alone, int) or isinstance(network, int):
            assert alone == network == 2, flags
            continue
        stored = network.keys() & alone.keys()
        assert len(stored) > 100 and {name: network[name] for name in stored} == {name: alone[name] for name in stored}, flags
