"""Types of ggml that the gguf package does not know or does not decode yet, from their definitions.

Q2_0 (ggml-org/llama.cpp#24448: type 42, ggml-common.h and dequantize_row_q2_0): 64 weights in 18 bytes, float16 d first, then
16 bytes; weight j has the bits 2 (j mod 4) and the next of byte j div 4, and is (code - 1) * d. Q1_0 (type 41): 128 weights in
18 bytes, d, then a bit a weight from the lowest bit on, set for d and else -d.
"""

import gguf
import numpy as np

Q2_0 = 42


def register():
    """The package's list of types with Q2_0; it then reads and writes such tensors as bytes."""
    kinds = gguf.GGMLQuantizationType
    if Q2_0 in kinds._value2member_map_:
        return
    made = int.__new__(kinds, Q2_0)
    made._name_, made._value_ = "Q2_0", Q2_0
    kinds._member_map_["Q2_0"] = kinds._value2member_map_[Q2_0] = made
    gguf.GGML_QUANT_SIZES[made] = gguf.constants.GGML_QUANT_SIZES[made] = (64, 18)


def dequantize(data, kind):
    """What the package's dequantize gives, of these types too. `data`: bytes, a row of blocks each."""
    if kind.name not in ("Q1_0", "Q2_0"):
        return gguf.quants.dequantize(data, kind)
    blocks = np.ascontiguousarray(data).reshape(data.shape[0], -1, 18)
    scales = blocks[..., :2].copy().view(np.float16).astype(np.float32)
    bits = np.unpackbits(blocks[..., 2:], axis=-1, bitorder="little").astype(np.float32)
    levels = 2 * bits - 1 if kind.name == "Q1_0" else bits[..., 0::2] + 2 * bits[..., 1::2] - 1
    return (levels * scales).reshape(data.shape[0], -1)


register()
