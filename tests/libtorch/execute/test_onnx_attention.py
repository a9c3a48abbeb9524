"""Attention and its kin against the standard's reference: masks, caches, groups of heads, outputs on the way."""

import itertools

import numpy as np
from layer_oracle import check_near
from node_cases import Cases, node_model, run_reference


def normal(rng, *shape, dtype=np.float32):
    return rng.normal(size=shape).astype(dtype)


def test_attention(tmp_path):
    rng = np.random.default_rng(1)
    cases = Cases(tmp_path)
    kinds = itertools.product(
        ["none", "float", "bool", "short"], [0, 1], [(4, 4), (4, 2), (3, 1)], [0, 3], [3, 4], [23, 24]
    )
    for trial, (mask, causal, (heads, kv), past, rank, opset) in enumerate(kinds):
        steps, keys, size, v_size = 4, 4 if causal else 5, 6, 5
        q = normal(rng, 2, heads, steps, size)
        k, v = normal(rng, 2, kv, keys, size), normal(rng, 2, kv, keys, v_size)
        cache = [normal(rng, 2, kv, past, size), normal(rng, 2, kv, past, v_size)] if past else [None, None]
        total = past + keys
        bias = None
        if mask == "bool":
            bias = rng.random((2, 1, steps, total)) > 0.3
            bias[..., 0] = True
        elif mask != "none":
            shape = [(steps, total), (1, heads, steps, total), (2, 1, steps, total)][trial % 3]
            bias = normal(rng, *shape)[..., : total - (mask == "short")]
        more = {"is_causal": causal}
        if rank == 3:
            q, k, v = (t.transpose(0, 2, 1, 3).reshape(2, t.shape[2], -1).copy() for t in (q, k, v))
            more |= {"q_num_heads": heads, "kv_num_heads": kv}
        if trial % 5 == 0:
            more["softcap"] = 1.5
        if trial % 4 == 0:
            more["scale"] = 0.3
        more["qk_matmul_output_mode"] = [0 if "softcap" not in more else 1, 1, 2, 3][trial % 4]
        inputs = [q, k, v, bias, *cache]
        while inputs[-1] is None:
            inputs.pop()
        model = node_model("Attention", inputs, opset=opset, outputs=4, **more)
        # The reference multiplies a bool mask with infinity where is_causal is set: it gets the mask to be added.
        added = [np.where(t, 0, -np.inf).astype(np.float32) if t is bias and mask == "bool" else t for t in inputs]
        expected = run_reference(node_model("Attention", added, opset=opset, outputs=4, **more), added)
        cases.add(model, inputs, expected, f"{mask}_{causal}_{heads}_{kv}_{past}_{rank}_{opset}")
    check_near(cases, 5e-6)


def test_attention_of_padded_caches(tmp_path):
    rng = np.random.default_rng(2)
    cases = Cases(tmp_path)
    for causal, lengths in itertools.product([0, 1], [[6, 1, 3], [4, 4, 4]]):
        q, k, v = normal(rng, 3, 2, 2, 4), normal(rng, 3, 2, 6, 4), normal(rng, 3, 2, 6, 4)
        for mask in (normal(rng, 3, 1, 2, 6), normal(rng, 3, 2, 2, 6)):
            inputs = [q, k, v, mask, None, None, np.array(lengths, np.int64)]
            model = node_model("Attention", inputs, opset=24, is_causal=causal)
            cases.add(model, inputs, run_reference(model, inputs))
    check_near(cases, 5e-6)


def test_scores_before_the_cap(tmp_path):
    """qk_matmul_output_mode 0 gives the plain product, whatever is done to it afterwards."""
    rng = np.random.default_rng(3)
    cases = Cases(tmp_path)
    q, k, v = normal(rng, 1, 2, 3, 4), normal(rng, 1, 2, 5, 4), normal(rng, 1, 2, 5, 4)
    scores = q @ k.transpose(0, 1, 3, 2) / 2
    capped = np.tanh(scores / 0.7) * 0.7
    likely = np.exp(capped) / np.exp(capped).sum(-1, keepdims=True)
    model = node_model("Attention", [q, k, v], opset=23, outputs=4, softcap=0.7)
    cases.add(model, [q, k, v], [likely @ v, k, v, scores])
    check_near(cases, 5e-6)


def test_rotary_embedding(tmp_path):
    rng = np.random.default_rng(4)
    cases = Cases(tmp_path)
    for rank, interleaved, turned, ids in itertools.product([3, 4], [0, 1], [0, 4], [False, True]):
        x = normal(rng, 2, 3, 5, 8) if rank == 4 else normal(rng, 2, 5, 24)
        half = (turned or 8) // 2
        caches = [normal(rng, *((9, half) if ids else (2, 5, half))) for _ in range(2)]
        inputs = [x, *caches] + ([rng.integers(0, 9, size=(2, 5))] if ids else [])
        more = {"interleaved": interleaved, "rotary_embedding_dim": turned} | ({"num_heads": 3} if rank == 3 else {})
        model = node_model("RotaryEmbedding", inputs, opset=23, **more)
        cases.add(model, inputs, run_reference(model, inputs))
    check_near(cases, 2e-6)


def test_linear_attention(tmp_path):
    rng = np.random.default_rng(5)
    cases = Cases(tmp_path)
    for rule, past, heads, wide in itertools.product(
        ["linear", "gated", "delta", "gated_delta"], [False, True], [2, 4], [False, True]
    ):
        q, k, v = normal(rng, 2, 3, heads * 4), normal(rng, 2, 3, 8) * 0.5, normal(rng, 2, 3, 6)
        decay = -np.abs(normal(rng, 2, 3, 8 if wide else 2)) if "gated" in rule else None
        beta = rng.random((2, 3, 1 if wide else 2)).astype(np.float32) if "delta" in rule else None
        inputs = [q, k, v, normal(rng, 2, 2, 4, 3) if past else None, decay, beta]
        while inputs[-1] is None:
            inputs.pop()
        more = {"update_rule": rule, "q_num_heads": heads, "kv_num_heads": 2, "scale": 0.7 if past else 0.0}
        model = node_model("LinearAttention", inputs, opset=27, outputs=2, **more)
        cases.add(model, inputs, run_reference(model, inputs), rule)
    check_near(cases, 5e-6)


def test_causal_convolution(tmp_path):
    rng = np.random.default_rng(6)
    cases = Cases(tmp_path)
    for kernel, steps, past, bias in itertools.product([1, 2, 4], [1, 3, 6], [False, True], [False, True]):
        inputs = [normal(rng, 2, 3, steps), normal(rng, 3, 1, kernel), normal(rng, 3) if bias else None]
        inputs.append(normal(rng, 2, 3, kernel - 1) if past else None)
        while inputs[-1] is None:
            inputs.pop()
        model = node_model("CausalConvWithState", inputs, opset=27, outputs=2, activation="silu" if past else "none")
        cases.add(model, inputs, run_reference(model, inputs))
    check_near(cases, 2e-6)
