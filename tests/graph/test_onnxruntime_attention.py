"""onnxruntime's attention and embeddings (domain com.microsoft): drawn nodes compute here what they compute there, on both engines."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx import numpy_helper  # noqa: E402
from onnxruntime_graphs import Drawn, compare_with_onnxruntime, feed, session  # noqa: E402

FILTER = -6.0  # large filters leave no digits of the scores in rows where every key is masked


def flip(d):
    return bool(d.size(0, 2))


def zeros_and_ones(d, *shape):
    return d.given((d.random.random(shape) < 0.6).astype(np.int32))


def mask(d, batch, queries, keys, with_starts=True):
    """One of the forms of mask_index."""
    form = d.random.choice(["none", "keys", "queries", "lengths", "starts", "dummy"])
    if form == "keys":
        return zeros_and_ones(d, batch, keys)
    if form == "queries":
        return zeros_and_ones(d, batch, queries, keys)
    if form == "lengths" or (form == "starts" and with_starts):
        ends = d.random.integers(0, keys + 1, size=batch)
        both = [ends, d.random.integers(0, keys + 1, size=batch)] if form == "starts" else [ends]
        return d.given(np.concatenate(both).astype(np.int32))
    if form == "dummy" and with_starts:
        return zeros_and_ones(d, batch, 1)
    return ""


class Merged:
    """What Attention and QAttention share."""

    def __init__(self, d, may_differ):
        self.batch, self.rows, self.heads, self.depth = d.size(1, 4), d.size(1, 6), d.size(1, 4), 4 * d.size(1, 3)
        self.inner = 4 * d.size(1, 5)
        self.width = self.heads * self.depth
        self.past = d.size(1, 5) if flip(d) else 0
        self.value_width = self.heads * 4 * d.size(1, 3) if may_differ and not self.past and flip(d) else self.width
        self.all = 2 * self.width + self.value_width
        self.attributes = {"num_heads": self.heads, "unidirectional": int(flip(d)), "mask_filter_value": FILTER}
        if self.value_width != self.width:
            self.attributes["qkv_hidden_sizes"] = [self.width, self.width, self.value_width]
        self.mask = mask(d, self.batch, self.rows, self.past + self.rows)
        self.kept = d.given(d.floats(2, self.batch, self.heads, self.past, self.depth)) if self.past else ""
        self.outputs = [f"y_{len(d.nodes)}", f"present_{len(d.nodes)}"] if self.past or flip(d) else 1
        if self.outputs != 1 and self.value_width != self.width:
            self.outputs = 1  # one array holds both


def attention(d):
    m = Merged(d, may_differ=True)
    score_bias = d.given(d.floats(m.batch, m.heads, m.rows, m.rows)) if not m.past and flip(d) else ""
    scale = {"scale": 0.4} if flip(d) else {}
    inputs = [d.given(d.floats(m.batch, m.rows, m.inner)), d.constant(d.floats(m.inner, m.all) * 0.3), d.constant(d.floats(m.all))]
    d.node("Attention", [*inputs, m.mask, m.kept, score_bias], m.outputs, **m.attributes, **scale)


def quantized_attention(d):
    m = Merged(d, may_differ=False)
    x, weight = d.given(d.codes((m.batch, m.rows, m.inner), np.uint8)), d.constant(d.codes((m.inner, m.all), np.int8))
    scales = [d.constant(np.float32(0.02)), d.constant((d.random.uniform(0.005, 0.01, size=m.all if flip(d) else 1)).astype(np.float32))]
    zeros = [d.zero(np.uint8), d.constant(np.zeros((), np.int8))] if flip(d) or m.past else []
    more = [*zeros, m.kept] if m.past else zeros
    d.node("QAttention", [x, weight, d.constant(d.floats(m.all)), *scales, m.mask, *more], m.outputs, **m.attributes)


def multi_head_attention(d):
    batch, rows, heads, depth = d.size(1, 4), d.size(1, 6), d.size(1, 4), 4 * d.size(1, 3)
    width, value_width = heads * depth, heads * 4 * d.size(1, 3)
    is_causal = flip(d)
    keys = rows if is_causal else d.size(1, 7)
    has_heads_first, past = d.random.random() < 0.25, 0
    if has_heads_first:
        more = [d.given(d.floats(batch, heads, keys, depth)), d.given(d.floats(batch, heads, keys, depth)), ""]
    else:
        if flip(d):
            past, value_width = d.size(1, 5), width
        more = [d.given(d.floats(batch, keys, width)), d.given(d.floats(batch, keys, value_width))]
        more.append(d.constant(d.floats(2 * width + value_width)) if flip(d) else "")
    total = past + keys
    more.append(mask(d, batch, rows, total, with_starts=False))
    more.append(d.given(d.floats(d.random.choice([1, batch]), d.random.choice([1, heads]), rows, total)) if flip(d) else "")
    if past:
        more += [d.given(d.floats(batch, heads, past, depth)), d.given(d.floats(batch, heads, past, depth))]
    outputs = [f"{name}_{len(d.nodes)}" for name in ("y", "keys", "values")] if past or (not has_heads_first and flip(d)) else 1
    d.node("MultiHeadAttention", [d.given(d.floats(batch, rows, width)), *more], outputs, num_heads=heads, unidirectional=int(is_causal),
           mask_filter_value=FILTER, **({"scale": 0.4} if flip(d) else {}))  # fmt: skip


def embedding_norm(d):
    batch, rows, width = d.size(1, 4), d.size(1, 6), 4 * d.size(1, 4)
    ids, kinds = (d.given(d.random.integers(0, count, size=(batch, rows)).astype(np.int32)) for count in (11, 2))
    has_kinds = flip(d)
    tables = [d.constant(d.floats(count, width)) for count in (11, 7, 2)]
    norm = [d.constant(d.floats(width)), d.constant(d.floats(width))]
    positions = d.given(d.random.integers(0, 7, size=(batch, rows)).astype(np.int32)) if flip(d) else ""
    seen = zeros_and_ones(d, batch, rows) if flip(d) else ""
    outputs = [f"{name}_{len(d.nodes)}" for name in ("y", "seen", "sum")][: d.size(2, 4)]
    inputs = [ids, kinds if has_kinds else "", *tables[:2], tables[2] if has_kinds else "", *norm, seen, positions]
    d.node("EmbedLayerNormalization", inputs, outputs, epsilon=1e-5)


def quantized_embedding_norm(d):
    batch, rows, width = d.size(1, 4), d.size(1, 6), 4 * d.size(1, 4)
    ids, kinds = (d.given(d.random.integers(0, count, size=(batch, rows)).astype(np.int32)) for count in (11, 2))
    has_kinds, kind = flip(d), d.kind()
    shapes = [(11, width), (7, width), (2, width), (width,), (width,)]
    codes = [d.constant(d.codes(shape, kind)) for shape in shapes]
    scales, zeros = [d.scale() for _ in shapes], [d.zero(kind) for _ in shapes]
    if not has_kinds:
        codes[2] = scales[2] = zeros[2] = ""
    seen = zeros_and_ones(d, batch, rows) if flip(d) else ""
    outputs = [f"y_{len(d.nodes)}", f"seen_{len(d.nodes)}"]
    d.node("QEmbedLayerNormalization", [ids, kinds if has_kinds else "", *codes, seen, *scales, *zeros], outputs, epsilon=1e-5)


def rotary_tables(d, rows, half):
    angles = d.floats(rows, half)
    return [d.constant(np.cos(angles)), d.constant(np.sin(angles))]


def rotary_embedding(d):
    batch, rows, heads, half = d.size(1, 4), d.size(1, 6), d.size(1, 4), 4 * d.size(1, 3)
    has_heads_first, is_partial = flip(d), flip(d)
    depth = 2 * half + (4 if is_partial else 0)
    x = d.floats(*((batch, heads, rows, depth) if has_heads_first else (batch, rows, heads * depth)))
    ids = d.random.integers(0, 9, size=(batch, rows)) if flip(d) else np.array([d.size(0, 4)])
    stated = {"num_heads": heads, "rotary_embedding_dim": 2 * half} if is_partial else {}
    if not is_partial and flip(d):
        stated = {"num_heads": heads}
    d.node("RotaryEmbedding", [d.given(x), d.given(ids.astype(np.int64)), *rotary_tables(d, 9, half)], interleaved=int(flip(d)), **stated)


def group_query_attention(d):
    """Prompts with padding behind them, and single tokens behind pasts of different lengths."""
    batch, kv_heads, depth = d.size(1, 4), d.size(1, 3), 16
    heads = kv_heads * d.size(1, 4)
    is_prompt = flip(d)
    rows, past = (d.size(2, 7), 0) if is_prompt else (1, d.size(2, 7))
    is_kept_in_place = not is_prompt and flip(d)  # the past has free places, and the present no more of them
    total = rows + past - (1 if is_kept_in_place else 0)
    lengths = d.random.integers(1, total + 1, size=batch)
    lengths[d.size(0, batch)] = total
    if flip(d):
        inputs = [d.given(d.floats(batch, rows, (heads + 2 * kv_heads) * depth)), "", ""]
    else:
        inputs = [d.given(d.floats(batch, rows, count * depth)) for count in (heads, kv_heads, kv_heads)]
    inputs += ["", ""] if is_prompt else [d.given(d.floats(batch, kv_heads, past, depth)) for _ in range(2)]
    inputs += [d.given((lengths - 1).astype(np.int32)), d.given(np.array(total, np.int32))]
    is_rotary = flip(d)
    inputs += rotary_tables(d, 16, depth // 2) if is_rotary else ["", ""]
    # onnxruntime counts the positions of prompts from the first one of the first sequence.
    positions = d.size(0, 9) + np.arange(rows) if is_prompt else d.random.integers(0, 16, size=(batch, rows))
    inputs.append(d.given(np.broadcast_to(positions, (batch, rows)).astype(np.int64)) if is_rotary and flip(d) else "")
    if flip(d):
        inputs.append(d.given(d.floats(d.random.choice([1, batch]), d.random.choice([1, heads]), rows, total)))
    attributes = {"do_rotary": int(is_rotary), "rotary_interleaved": int(is_rotary and flip(d)), "softcap": float(d.random.choice([0, 2]))}
    attributes["local_window_size"] = int(d.random.choice([-1, 2, 3]))
    outputs = [f"{name}_{len(d.nodes)}" for name in ("y", "keys", "values")]
    d.node("GroupQueryAttention", inputs, outputs, num_heads=heads, kv_num_heads=kv_heads, **attributes)
    tokens = np.arange(rows)[None] < lengths[:, None] if is_prompt else np.ones((batch, 1), bool)
    places = np.arange(max(total, past))[None] < lengths[:, None]
    d.counted |= {outputs[0]: tokens} | dict.fromkeys(outputs[1:], places)


DRAWS = [attention, quantized_attention, multi_head_attention, group_query_attention, rotary_embedding, embedding_norm, quantized_embedding_norm]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: draw.__name__)
def test_drawn_nodes_compute_as_onnxruntime_does(crumb, engine, tmp_path, draw, seed):
    drawn = Drawn(seed)
    for _ in range(12):
        draw(drawn)
    for name, op, made, values in compare_with_onnxruntime(crumb, tmp_path, drawn, "libtorch" if seed == 0 else "runtime"):
        if name in drawn.counted:  # which rows, or places of keys, hold what onnxruntime defines
            counted = drawn.counted[name]
            made, values = (array[counted] if array.ndim == 3 else array.swapaxes(1, 2)[counted] for array in (made, values))
        assert np.allclose(made, values, rtol=1e-4, atol=1e-5 * max(1, np.abs(values).max(initial=0))), (name, op)


def test_packed_queries_keys_and_values(crumb, tmp_path):
    """onnxruntime has no kernel on the processor for packed forms: it computes the same node with three inputs."""
    d = Drawn(3)
    batch, rows, heads, depth = 2, 3, 2, 4
    parts = [d.floats(batch, rows, heads, depth) for _ in range(3)]
    bias = d.constant(d.floats(3 * heads * depth))
    flat = [d.given(part.reshape(batch, rows, -1)) for part in parts]
    d.node("MultiHeadAttention", [*flat, bias], ["apart"], num_heads=heads)
    d.node("MultiHeadAttention", flat, ["apart without bias"], num_heads=heads)
    wanted = session(d.save(tmp_path / "apart.onnx")).run(d.outputs, d.feeds)
    packed = Drawn(3)
    bias = packed.constant(numpy_helper.to_array(d.constants[0]))
    packed.node("MultiHeadAttention", [packed.given(np.stack(parts, 3)), "", "", bias], ["all"], num_heads=heads)
    query, pair = packed.given(parts[0].reshape(batch, rows, -1)), packed.given(np.stack(parts[1:], 3))
    packed.node("MultiHeadAttention", [query, pair], ["two"], num_heads=heads)
    crumb("run", packed.save(tmp_path / "packed.onnx"), *feed(tmp_path, packed.feeds), "--output-dir", tmp_path, "--engine", "runtime")
    for name, values in zip(packed.outputs, wanted, strict=True):
        assert np.allclose(np.load(tmp_path / f"{name}.npy"), values, atol=1e-6), name


REFUSED = {
    "do_rotary": ("Attention", 3, {"do_rotary": 1}), "shared cache": ("Attention", 3, {"past_present_share_buffer": 1}),
    "sinks": ("GroupQueryAttention", 12, {"kv_num_heads": 1}), "smooth softmax": ("GroupQueryAttention", 7, {"kv_num_heads": 1, "smooth_softmax": 1}),
    "lengths in a cache": ("MultiHeadAttention", 9, {}), "scale": ("RotaryEmbedding", 4, {"scale": 2.0}),
    "causal and crossed": ("MultiHeadAttention", 3, {"unidirectional": 1}),
}  # fmt: skip


@pytest.mark.parametrize("form", REFUSED)
def test_a_form_that_is_not_understood_is_refused_by_name(crumb, tmp_path, form):
    op, inputs, attributes = REFUSED[form]
    d = Drawn(0)
    names = [d.given(d.floats(1, 2 + i, 4)) for i in range(inputs)]
    d.node(op, names, **{"num_heads": 1} | attributes)
    said = crumb("run", d.save(tmp_path / "net.onnx"), *feed(tmp_path, d.feeds), "--output", tmp_path / "y.npy", status=1).stderr
    assert "'n0'" in said and op in said


def quantized_lstm(d, by_gate, directions):
    """The node, and LSTM with the decoded weights."""
    steps, batch, terms, hidden = d.size(2, 6), d.size(1, 4), d.size(2, 6), d.size(2, 6)
    shapes = [(directions, terms, 4 * hidden), (directions, hidden, 4 * hidden)]
    codes = [d.codes(shape, np.int8) for shape in shapes]
    scales = [d.random.uniform(0.003, 0.006, (directions, 4 * hidden) if by_gate else directions).astype(np.float32) for _ in codes]
    zeros = [np.zeros(scale.shape, np.int8) for scale in scales]
    floats = [(c * s.reshape(directions, 1, -1)).transpose(0, 2, 1).astype(np.float32) for c, s in zip(codes, scales, strict=True)]
    x, bias = d.given(d.floats(steps, batch, terms)), d.constant(d.floats(directions, 8 * hidden))
    first = [d.given(d.floats(directions, batch, hidden)) for _ in range(2)]
    attributes = {"hidden_size": hidden, "direction": "bidirectional" if directions == 2 else "forward"}
    more = [d.constant(part) for pair in zip(scales, zeros, strict=True) for part in pair]
    d.node("DynamicQuantizeLSTM", [x, *map(d.constant, codes), bias, "", *first, "", *more], [f"{n}_{len(d.nodes)}" for n in ("y", "h", "c")], **attributes)
    d.node("LSTM", [x, *map(d.constant, floats), bias, "", *first], [f"{n}_{len(d.nodes)}" for n in ("y", "h", "c")], domain="", **attributes)


@pytest.mark.parametrize("seed", range(3))
def test_a_quantized_lstm(crumb, tmp_path, seed):
    """It is the LSTM of its weights, and as near to onnxruntime, which rounds inputs and states, as that is to itself."""
    d = Drawn(seed)
    for by_gate in (False, True):
        for directions in (1, 2):
            quantized_lstm(d, by_gate, directions)
    made, wanted = {}, {}
    for name, _, ours, theirs in compare_with_onnxruntime(crumb, tmp_path, d):
        made[name], wanted[name] = ours, theirs
    for node, plain in zip(d.nodes[::2], d.nodes[1::2], strict=True):
        for name, other in zip(node.output, plain.output, strict=True):
            assert np.allclose(made[name], wanted[other], atol=1e-5), name
            rounded = np.abs(wanted[name] - wanted[other]).max()
            assert np.abs(made[name] - wanted[name]).max() <= rounded + 1e-5 < 0.1, name
