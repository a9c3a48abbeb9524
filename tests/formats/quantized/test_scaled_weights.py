"""Scales beside weights of eight bits, found by names and shapes: products are those of PyTorch and transformers, bit for bit;
whatever else looks as if it scaled a weight is refused by name, and no such tensor is ever left alone."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from safetensors.torch import load_file  # noqa: E402
from safetensors.torch import save_file as save_apart  # noqa: E402

FLOATS8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
NAMES = {"weight": ["weight_scale", "weight_scale_inv", "scale_weight", "qscale_weight"],
         "gate_up_proj": ["gate_up_proj_scale", "gate_up_proj_scale_inv"]}  # fmt: skip
ACTIVATIONS = ["input_scale", "scale_input", "output_scale", "k_scale", "qscale_act", "input_zero_point"]


def save_file(tensors, path):
    save_apart({name: tensor.clone().contiguous() for name, tensor in tensors.items()}, path)


def codes(rng, shape, dtype):
    """Every pattern of bits may be drawn, but for infinities and what is no number: networks have none."""
    values = torch.from_numpy(rng.integers(0, 256, shape, np.uint8)).view(dtype)
    return torch.where(torch.isfinite(values.float()), values.float(), torch.tensor(1.0)).to(dtype)


def scales(rng, shape, dtype):
    values = torch.as_tensor((rng.random(shape) * 0.9 + 0.1) * 2.0 ** rng.integers(-12, 3, shape))
    if dtype == torch.float8_e8m0fnu:
        values = values.log2().round().exp2()
    return values.to(torch.float32).to(dtype)


def spread(scale, shape, block):
    """The scale of every element."""
    if block:
        scale = scale.repeat_interleave(block[0], -2).repeat_interleave(block[1], -1)
        return scale[..., : shape[-2], : shape[-1]]
    while scale.dim() and scale.shape[-1] == 1:
        scale = scale.squeeze(-1)
    return scale.reshape(list(scale.shape) + [1] * (len(shape) - scale.dim())).expand(shape)


def draw(rng, configured=None):
    """(last part of the weight's name, that of the scale, codes, scales, the product)"""
    part = str(rng.choice(list(NAMES)))
    rank = int(rng.choice([2, 2, 2, 3, 4]))
    shape = [int(n) for n in rng.integers(1, 9, rank)]
    dtype = FLOATS8[rng.integers(len(FLOATS8))] if rng.random() < 0.9 else torch.float8_e4m3fn
    scale_type = [torch.float32, torch.float16, torch.bfloat16, torch.float8_e8m0fnu][rng.integers(4)]
    kind = str(rng.choice(["one", "leading", "usual", "even"]))
    block = None
    if kind == "one":
        scale_shape = [[], [1], [1] * rank][rng.integers(3)]
    elif kind == "leading":
        axes = int(rng.integers(1, rank))
        scale_shape = shape[:axes] + [1] * int(rng.integers(0, rank - axes + 1))
    elif kind == "usual" or configured:
        block = configured or [128, 128]
        rows = int(rng.integers(1, 3)) * block[0] if rank > 2 else int(rng.integers(1, 300))
        shape = [2] * (rank - 2) + [rows, int(rng.integers(2, 300))]
        scale_shape = shape[:-2] + [-(-shape[-2] // block[0]), -(-shape[-1] // block[1])]
    else:
        block = [int(n) for n in rng.integers(2, 7, 2)]
        scale_shape = [2] * (rank - 2) + [int(rng.integers(1, 5)), int(rng.integers(2, 5))]
        shape = scale_shape[:-2] + [scale_shape[-2] * block[0], scale_shape[-1] * block[1]]
    weight, scale = codes(rng, shape, dtype), scales(rng, scale_shape, scale_type)
    result = torch.bfloat16 if scale_type == torch.float8_e8m0fnu else scale_type
    product = (weight.float() * spread(scale.float(), shape, block)).to(result)
    return part, str(rng.choice(NAMES[part])), weight, scale, product


def same(found, expected):
    return found.shape == expected.shape and torch.equal(found.float().reshape(-1).view(torch.int32),
                                                         expected.float().reshape(-1).view(torch.int32))  # fmt: skip


def check(crumb, path, expected, out):
    done = crumb("dequantize", path, "-o", out)
    found = load_file(out)
    assert found.keys() == expected.keys(), sorted(found.keys() ^ expected.keys())[:5]
    for name, tensor in expected.items():
        assert same(found[name], tensor), name
    return done


@pytest.mark.parametrize("configured", [None, [128, 128], [64, 32]])
def test_products_are_those_of_the_shapes(crumb, tmp_path, configured):
    rng = np.random.default_rng(11)
    tensors, expected = {"norm.weight": torch.ones(8), "scaled_fp8": torch.zeros(2, dtype=torch.float8_e4m3fn)}, {}
    expected["norm.weight"] = tensors["norm.weight"]
    for i in range(200):
        part, name, weight, scale, product = draw(rng, configured)
        tensors[f"l.{i}.{part}"], tensors[f"l.{i}.{name}"], expected[f"l.{i}.{part}"] = weight, scale, product
        if i % 7 == 0:
            tensors[f"l.{i}.{ACTIVATIONS[i % len(ACTIVATIONS)]}"] = torch.ones(1)
        if i % 5 == 0:
            expected[f"l.{i}.bias"] = tensors[f"l.{i}.bias"] = torch.ones(3)
    folder = tmp_path / "in"
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    if configured:
        config = {"quantization_config": {"quant_method": "fp8", "weight_block_size": configured}}
        (folder / "config.json").write_text(json.dumps(config))
    done = check(crumb, folder, expected, tmp_path / "out.safetensors")
    assert "scales beside weights of 8 bits" in done.stderr and "left out 'l.0.input_scale'" in done.stderr
    if not configured:
        check(crumb, folder / "model.safetensors", expected, tmp_path / "file.safetensors")
        torch.save(tensors, tmp_path / "in.pt")
        check(crumb, tmp_path / "in.pt", expected, tmp_path / "pt.safetensors")


def test_transformers_computes_the_same(crumb, tmp_path):
    module = pytest.importorskip("transformers.integrations.finegrained_fp8")
    op = module.Fp8Dequantize(None)
    rng = np.random.default_rng(12)
    tensors, expected = {}, {}
    for i, (down, across, rows, cols) in enumerate([(2, 3, 128, 128), (1, 1, 40, 24), (4, 2, 3, 16), (3, 1, 2, 9)]):
        weight = codes(rng, [down * rows, across * cols], torch.float8_e4m3fn)
        scale = scales(rng, [down, across], [torch.float32, torch.bfloat16][i % 2])
        tensors |= {f"{i}.weight": weight, f"{i}.weight_scale_inv": scale}
        expected[f"{i}.weight"] = op._dequantize_one(weight, scale)
    save_file(tensors, tmp_path / "m.safetensors")
    check(crumb, tmp_path / "m.safetensors", expected, tmp_path / "out.safetensors")


def test_integers_by_tensor_and_channel(crumb, tmp_path):
    rng = np.random.default_rng(13)
    tensors, expected = {}, {}
    for i, shape in enumerate([[], [1], [5, 1], [5]]):
        weight = torch.from_numpy(rng.integers(-128, 128, (5, 7), np.int8))
        tensors |= {f"{i}.weight": weight, f"{i}.weight_scale": scales(rng, shape, torch.float32)}
        expected[f"{i}.weight"] = weight.float() * spread(tensors[f"{i}.weight_scale"], [5, 7], None)
    save_file(tensors, tmp_path / "m.safetensors")
    check(crumb, tmp_path / "m.safetensors", expected, tmp_path / "out.safetensors")


F8 = torch.ones(6, 8).to(torch.float8_e4m3fn)
ONE = torch.tensor(0.01)
REFUSED = {  # tensors beside "a.weight", and the one that is named
    "another name": ({"a.scale": ONE}, "a.scale"),
    "of any case": ({"a.Weight_Scale": ONE}, "a.Weight_Scale"),
    "a second one": ({"a.weight_scale": ONE, "a.weight_scale_2": ONE}, "a.weight_scale_2"),
    "two": ({"a.weight_scale": ONE, "a.weight_scale_inv": ONE}, "a.weight_scale_inv"),
    "zero points": ({"a.weight_scale": ONE, "a.weight_zero_point": torch.zeros(1)}, "a.weight_zero_point"),
    "of the input alone": ({"a.input_scale": ONE}, "a.input_scale"),
    "below": ({"a.weight.absmax": ONE}, "a.weight.absmax"),
    "a quantizer": ({"a.weight_quantizer._scale": ONE}, "a.weight_quantizer._scale"),
    "before the layer": ({"a.weight_scale": ONE, "a.input_quantizer._pre_quant_scale": ONE}, "a.input_quantizer._pre_quant_scale"),
    "smoothing": ({"a.weight_scale": ONE, "a.pre_quant_scale": ONE}, "a.pre_quant_scale"),
    "amax": ({"a.weight_amax": ONE}, "a.weight_amax"),
    "scales": ({"a.scales": torch.ones(6)}, "a.scales"),
    "quanto": ({"a.weight": torch.ones(3), "a.w._data": F8, "a.w._scale": ONE}, "a.w._scale"),
    "bitsandbytes": ({"a.weight": torch.zeros(6, 8, dtype=torch.int8), "a.SCB": torch.ones(6)}, "a.SCB"),
    "packed": ({"a.weight": torch.zeros(6, 4, dtype=torch.uint8), "a.weight_scale": torch.ones(6, 1)}, "a.weight_scale"),
    "nvfp4": ({"a.weight": torch.zeros(6, 4, dtype=torch.uint8), "a.weight_scale": F8[:, :1], "a.weight_scale_2": ONE}, "a.weight_scale"),
    "mxfp4": ({"a.weight": torch.ones(3), "e.down_blocks": torch.zeros(2, 6, 4, dtype=torch.uint8), "e.down_scales": torch.zeros(2, 6, dtype=torch.uint8)}, "e.down_scales"),
    "integers in blocks": ({"a.weight": torch.zeros(6, 8, dtype=torch.int8), "a.weight_scale": torch.ones(3, 2)}, "a.weight_scale"),
    "columns too many": ({"a.weight_scale": torch.ones(6, 3)}, "a.weight_scale"),
    "rows too many": ({"a.weight_scale": torch.ones(5)}, "a.weight_scale"),
    "every element": ({"a.weight_scale": torch.ones(6, 8, 1)}, "a.weight_scale"),
    "another type": ({"a.weight_scale": torch.ones(1, dtype=torch.float64)}, "a.weight_scale"),
    "the mark alone": ({"scaled_fp8": torch.zeros(2, dtype=torch.float8_e4m3fn)}, "scaled_fp8"),
}  # fmt: skip


@pytest.mark.parametrize("verb", ["quantize", "dequantize"])
def test_what_is_not_known_is_refused_by_name(crumb, tmp_path, verb):
    for what, (beside, name) in REFUSED.items():
        tensors = {"a.weight": F8, "norm.weight": torch.ones(3)} | beside
        save_file(tensors, tmp_path / "m.safetensors")
        out = ["-o", tmp_path / "x.crumb", "--weights", "int8"] if verb == "quantize" else ["-o", tmp_path / "x.safetensors"]
        done = crumb(verb, tmp_path / "m.safetensors", *out, status=1)
        assert f"'{name}'" in done.stderr, (what, done.stderr)
        assert "already quantized by another tool" in crumb("inspect", tmp_path / "m.safetensors").stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.safetensors"]


def test_networks_of_their_own_are_no_scales(crumb, tmp_path):
    """Floats of eight bits without scales, masks, and parameters that are called scales themselves."""
    tensors = {
        "logit_scale": torch.tensor(4.6), "text_projection": F8, "blocks.0.layer_scale": torch.ones(8), "blocks.0.proj": F8,
        "img.norm.query_norm.scale": torch.ones(8).to(torch.float8_e4m3fn), "attn.bias": torch.ones(1, 4, 4, dtype=torch.uint8),
        "attn.scale": torch.ones(1), "q.weight": torch.ones(4, 4), "q.weight_scale": torch.ones(1), "k.weight": F8, "up": F8,
        "gate_up_scale": torch.ones(1),
    }  # fmt: skip
    save_file(tensors, tmp_path / "m.safetensors")
    crumb("quantize", tmp_path / "m.safetensors", "-o", tmp_path / "x.crumb", "--weights", "keep", "--embeddings", "keep")
    crumb("dequantize", tmp_path / "x.crumb", "-o", tmp_path / "x.safetensors")
    found = load_file(tmp_path / "x.safetensors")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(found[name].float(), tensor.float()), name


@pytest.mark.parametrize("config", [{"quant_method": "fbgemm_fp8"}, {"quant_method": "modelopt", "quant_algo": "FP8"},
                                    {"quant_method": "fp8", "activation_scheme": "static"}])  # fmt: skip
def test_methods_that_say_no_more_than_that_there_are_scales(crumb, tmp_path, config):
    tensors = {"a.weight": F8, "a.weight_scale": torch.full((6, 1), 0.5), "a.input_scale": ONE}
    (tmp_path / "in").mkdir()
    save_file(tensors, tmp_path / "in/model.safetensors")
    (tmp_path / "in/config.json").write_text(json.dumps({"quantization_config": config}))
    check(crumb, tmp_path / "in", {"a.weight": F8.float() * 0.5}, tmp_path / "out.safetensors")
    (tmp_path / "in/config.json").write_text(
        json.dumps({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}})
    )
    assert "'NVFP4'" in crumb("dequantize", tmp_path / "in", "-o", tmp_path / "x", status=1).stderr


def modelopt_folder(folder, algorithm, tensors, **config):
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    said = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": algorithm, "exclude_modules": ["lm_head"]}}
    (folder / "hf_quant_config.json").write_text(json.dumps(said))
    return folder


def test_modelopts_own_file_says_that_weights_are_quantized(crumb, tmp_path):
    """Values are those of ModelOpt's FP8QTensor.dequantize in float32: code * scale."""
    rng = np.random.default_rng(21)
    tensors, expected = {"lm_head.weight": torch.ones(3, 4)}, {"lm_head.weight": torch.ones(3, 4)}
    for number, shape in enumerate([[1], [5], [5, 1]]):
        weight, scale = codes(rng, [5, 7], torch.float8_e4m3fn), scales(rng, shape, torch.float32)
        tensors |= {f"{number}.weight": weight, f"{number}.weight_scale": scale, f"{number}.input_scale": torch.ones(1)}
        expected[f"{number}.weight"] = weight.to(torch.float32) * scale.reshape(-1, 1)
    folder = modelopt_folder(tmp_path / "fp8", "FP8", tensors)
    check(crumb, folder, expected, tmp_path / "values.safetensors")
    said = crumb("quantize", folder, "-o", tmp_path / "x.crumb", "--weights", "int8:channel").stderr
    assert "left out '0.input_scale'" in said and "hf_quant_config" not in said


@pytest.mark.parametrize(
    ("algorithm", "tensors", "said"),
    [
        ("NVFP4", {"a.weight": torch.ones(4, 4)}, "hf_quant_config.json has the quant_algo 'NVFP4'"),
        ("FP8", {"a.weight": torch.ones(4, 4).to(torch.float8_e4m3fn)}, "no weights of 8 bits with scales"),
        (7, {"a.weight": torch.ones(4, 4)}, "quant_algo '7'"),
    ],
)
def test_what_modelopts_own_file_says_and_is_not_read(crumb, tmp_path, algorithm, tensors, said):
    folder = modelopt_folder(tmp_path / "in", algorithm, tensors)
    stderr = crumb("quantize", folder, "-o", tmp_path / "x.crumb", "--weights", "int8:channel", status=1).stderr
    assert said in stderr and "hf_quant_config.json" in stderr
    (folder / "hf_quant_config.json").write_text("[]")
    assert "quantization" in crumb("inspect", folder, status=1).stderr


def test_modelopts_own_file_of_a_model_in_floats_changes_nothing(crumb, tmp_path):
    folder = modelopt_folder(tmp_path / "in", None, {"a.weight": torch.ones(4, 4)})
    crumb("quantize", folder, "-o", tmp_path / "x.crumb", "--weights", "int8:channel")
