"""Blocks of every type against the `gguf` package, through `crumb quantize` with every tensor left as it is."""

import numpy as np
import pytest

gguf = pytest.importorskip("gguf")
safetensors_numpy = pytest.importorskip("safetensors.numpy")
TYPES = (
    "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4 NVFP4".split()
)


@pytest.mark.parametrize("name", TYPES)
def test_blocks_are_those_of_the_package(crumb, name, tmp_path):
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    data = np.random.default_rng(1).integers(0, 256, (8, 512 // elements * size), dtype=np.uint8)
    if name in ("F32", "F16"):
        data = data.view(np.dtype(name.lower().replace("f32", "f4").replace("f16", "f2")))
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "odd")
    writer.add_tensor("t.bias", data, raw_dtype=kind)  # a bias is kept
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with np.errstate(all="ignore"):
        want = gguf.quants.dequantize(data, kind)
    packed, out = tmp_path / "m.crumb", tmp_path / "m.safetensors"
    crumb("quantize", tmp_path / "m.gguf", "-o", packed, "--weights", "int8:channel")
    crumb("dequantize", packed, "-o", out)
    got = safetensors_numpy.load_file(out)["t.bias"]
    assert got.shape == want.shape
    same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    assert same.all()
