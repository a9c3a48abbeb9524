"""A small decoder with past and present, written with ONNX's own helpers: what a session's cache is for.

    python tests/runtime/c/decoder_model.py decoder.onnx
    crumb quantize decoder.onnx -o tests/runtime/c/decoder.crumb --weights int8:channel   # as it lies beside this
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h

WORDS, WIDTH, HEADS, KV_HEADS, DEPTH, LAYERS, PLACES = 40, 32, 4, 2, 8, 2, 64


def decoder():
    rng = np.random.default_rng(3)
    nodes, constants = [], []

    def constant(name, array):
        constants.append(onnx.numpy_helper.from_array(array, name))
        return name

    def weight(name, *shape):
        return constant(name, (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32))

    def node(op, inputs, outputs, **attributes):
        outputs = [outputs] if isinstance(outputs, str) else outputs
        nodes.append(h.make_node(op, inputs, outputs, name=f"n_{outputs[0]}", **attributes))
        return outputs[0]

    angles = np.arange(PLACES)[:, None] / 100.0 ** (np.arange(DEPTH // 2) * 2 / DEPTH)
    constant("cos", np.cos(angles).astype(np.float32))
    constant("sin", np.sin(angles).astype(np.float32))
    ids = h.make_tensor_value_info("ids", T.INT64, ["batch", "sequence"])
    positions = h.make_tensor_value_info("positions", T.INT64, ["batch", "sequence"])
    mask = h.make_tensor_value_info("mask", T.FLOAT, ["batch", 1, "sequence", "total"])
    inputs, outputs = [ids, positions, mask], [h.make_tensor_value_info("logits", T.FLOAT, ["batch", "sequence", WORDS])]
    x = node("Gather", [weight("table", WORDS, WIDTH), "ids"], "x0")
    for n in range(LAYERS):
        past, present = ([f"{kind}.{n}.{part}" for part in ("key", "value")] for kind in ("past_key_values", "present"))
        inputs += [h.make_tensor_value_info(name, T.FLOAT, ["batch", KV_HEADS, "past", DEPTH]) for name in past]
        outputs += [h.make_tensor_value_info(name, T.FLOAT, ["batch", KV_HEADS, "total", DEPTH]) for name in present]
        normal = node("RMSNormalization", [x, constant(f"norm{n}", np.ones(WIDTH, np.float32))], f"normal{n}")
        q, k, v = (node("MatMul", [normal, weight(f"w{part}{n}", WIDTH, heads * DEPTH)], f"{part}{n}")
                   for part, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)))  # fmt: skip
        q = node("RotaryEmbedding", [q, "cos", "sin", "positions"], f"turned_q{n}", num_heads=HEADS)
        k = node("RotaryEmbedding", [k, "cos", "sin", "positions"], f"turned_k{n}", num_heads=KV_HEADS)
        seen = node("Attention", [q, k, v, "mask", *past], [f"seen{n}", *present], q_num_heads=HEADS, kv_num_heads=KV_HEADS)
        out = node("MatMul", [seen, weight(f"wo{n}", WIDTH, WIDTH)], f"out{n}")
        x = node("Add", [x, out], f"x{n + 1}")
    node("MatMul", [x, weight("head", WIDTH, WORDS)], "logits")
    graph = h.make_graph(nodes, "decoder", inputs, outputs, constants)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 23)], ir_version=11)


if __name__ == "__main__":
    onnx.save(decoder(), sys.argv[1])
