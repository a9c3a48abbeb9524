"""Checkpoints that others quantized are read as the values that their own libraries compute, bit for bit: thousands of drawn
layers; what is not read is refused by name."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("compressed_tensors")
import quantized_folders as drawn  # noqa: E402
from safetensors.torch import load_file  # noqa: E402


def check(crumb, folder, expected, *flags):
    out = folder.parent / f"{folder.name}.safetensors"
    crumb("dequantize", folder, "-o", out, *flags)
    found = load_file(out)
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        values = found[name]
        assert values.dtype == torch.float32 and values.shape == weight.shape, name
        ours, theirs = values.numpy(), weight.float().numpy()
        same = (ours.view(np.uint32) == theirs.view(np.uint32)) | (np.isnan(ours) & np.isnan(theirs))
        assert same.all(), f"{name}: {(~same).sum()} of {same.size}, {ours[~same][0]} for {theirs[~same][0]}"
    return found


@pytest.mark.parametrize("style", drawn.DRAWN)
def test_compressed_tensors_computes_the_same(crumb, tmp_path, style):
    check(crumb, tmp_path / "in", drawn.compressed_tensors_folder(tmp_path / "in", style, 250, seed=5))


@pytest.mark.parametrize("version", ["gptq", "gptq_v2"])
def test_gptqmodel_computes_the_same(crumb, tmp_path, version):
    check(crumb, tmp_path / "in", drawn.gptq_folder(tmp_path / "in", version, 300, seed=6))


def test_autoawq_computes_the_same(crumb, tmp_path):
    check(crumb, tmp_path / "in", drawn.awq_folder(tmp_path / "in", 300, seed=7))


# --- A model as a checkpoint ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    """A tiny decoder in floats whose sides are multiples of 64, and its reference."""
    sys.path.append(str(Path(__file__).parents[2] / "models"))
    tiny = pytest.importorskip("tiny_decoders")
    tiny.CONFIGS["aligned"] = {**tiny.LLAMA, "hidden_size": 64, "intermediate_size": 96, "head_dim": 16,
                               "num_key_value_heads": 4}  # fmt: skip
    tiny.VARIANTS["aligned"] = []
    folder = tmp_path_factory.mktemp("decoder")
    tiny.make("aligned", folder)
    return folder


def awq_decoder(source, folder):
    """The decoder's linear layers with AWQ's codes, drawn, and its other tensors."""
    library = drawn.autoawq()
    rng = np.random.default_rng(3)
    tensors, expected = {}, {}
    for name, tensor in load_file(source / "model.safetensors").items():
        expected[name] = tensors[name] = tensor
        if not name.endswith("proj.weight"):
            continue
        rows, cols = tensor.shape
        state = {"qweight": torch.tensor(rng.integers(-(2**31), 2**31, (cols, rows // 8)), dtype=torch.int32),
                 "qzeros": torch.full((cols // 32, rows // 8), 0x77777777, dtype=torch.int32),
                 "scales": torch.tensor(rng.uniform(0.01, 0.02, (cols // 32, rows)), dtype=torch.float16)}  # fmt: skip
        del tensors[name]
        tensors |= {f"{name.removesuffix('weight')}{part}": t for part, t in state.items()}
        expected[name] = library.dequantize_gemm(*state.values(), 4, 32).t().contiguous()
    config = json.loads((source / "config.json").read_text())
    quantization = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True}
    drawn.write(folder, tensors, quantization, **config)
    return expected


def test_a_quantized_decoder_is_a_checkpoint_like_any_other(crumb, decoder, tmp_path):
    expected = awq_decoder(decoder, tmp_path / "awq")
    check(crumb, tmp_path / "awq", expected)
    crumb("dequantize", tmp_path / "awq", "-o", tmp_path / "floats")
    config = json.loads((tmp_path / "floats" / "config.json").read_text())
    assert "quantization_config" not in config and config["model_type"] == "llama"
    packed = [tmp_path / f"{name}.crumb" for name in ("awq", "floats")]
    for path in packed:
        done = crumb("quantize", path.with_suffix(""), "-o", path, "--weights", "int4:group=32", "--json")
        said = json.loads(done.stdout)
        assert ("AWQ (gemm, 4 bits, groups of 32)" in said.get("dequantized", "")) == (path.stem == "awq")
    rows = json.loads(crumb("compare", *packed, "--json").stdout)["tensors"]
    assert len(rows) == len(expected) and all(row["max_abs_error"] == 0 for row in rows)
    done = crumb("inspect", tmp_path / "awq")
    assert "read as what AWQ (gemm, 4 bits, groups of 32) computes of 21 quantized matrices, in F16" in done.stderr
    assert "already quantized" not in done.stdout and "uint4:group=32" in done.stdout
    for name in ("awq", "floats"):
        crumb("export", tmp_path / name, "-o", tmp_path / f"{name}.onnx", "--to", "float")
    assert (tmp_path / "awq.onnx").read_bytes() == (tmp_path / "floats.onnx").read_bytes()


def test_shards_of_a_quantized_model(crumb, tmp_path):
    """Codes in one file, their scales in another."""
    expected = drawn.gptq_folder(tmp_path / "one", "gptq_v2", 20, seed=9)
    tensors = load_file(tmp_path / "one" / "model.safetensors")
    quantization = json.loads((tmp_path / "one" / "config.json").read_text())["quantization_config"]
    drawn.write(tmp_path / "in", {}, quantization)
    (tmp_path / "in" / "model.safetensors").unlink()
    files = {name: f"model-0000{1 + name.endswith('scales')}-of-00002.safetensors" for name in tensors}
    for file in set(files.values()):
        drawn.save_file({n: t for n, t in tensors.items() if files[n] == file}, tmp_path / "in" / file)
    index = {"metadata": {}, "weight_map": files}
    (tmp_path / "in" / "model.safetensors.index.json").write_text(json.dumps(index))
    check(crumb, tmp_path / "in", expected)


def test_the_configuration_of_older_gptq_tools_is_a_file_of_its_own(crumb, tmp_path):
    expected = drawn.gptq_folder(tmp_path / "in", "gptq", 5, seed=10)
    config = json.loads((tmp_path / "in" / "config.json").read_text())
    (tmp_path / "in" / "config.json").write_text("{}")
    (tmp_path / "in" / "quantize_config.json").write_text(
        json.dumps({k: v for k, v in config["quantization_config"].items() if k not in ("quant_method", "checkpoint_format")}))
    check(crumb, tmp_path / "in", expected)


def test_the_layout_before_017_is_known_by_its_shape_or_the_version(crumb, tmp_path):
    """Ten 3-bit codes in a word, as compressed-tensors packed before 0.17; its own reader has forgotten them."""
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 8, (5, 75))
    words = np.zeros((5, 8), np.uint32)
    for k in range(75):
        words[:, k // 10] |= (codes[:, k] << (3 * (k % 10))).astype(np.uint32)
    state = {"weight_packed": torch.tensor(words.view(np.int32)), "weight_scale": torch.ones(5, 1),
             "weight_shape": torch.tensor([5, 75])}  # fmt: skip
    scheme = {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 3, "strategy": "channel"}}}
    for version, old in [({}, True), ({"version": "0.14.0.1"}, True), ({"version": "0.17.0"}, False)]:
        quantization = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": scheme, **version}
        folder = drawn.write(tmp_path / f"v{len(version)}{old}", {f"a.{n}": t for n, t in state.items()}, quantization)
        # Of 75 codes both layouts take 8 words.
        crumb("dequantize", folder, "-o", tmp_path / "out.safetensors")
        found = load_file(tmp_path / "out.safetensors")["a.weight"].numpy()
        assert (found == codes - 4).all() == (old and bool(version)), version
    wide = np.zeros((5, 31), np.uint32)
    codes = rng.integers(0, 8, (5, 301))
    for k in range(301):
        wide[:, k // 10] |= (codes[:, k] << (3 * (k % 10))).astype(np.uint32)
    state |= {"weight_packed": torch.tensor(wide.view(np.int32)), "weight_shape": torch.tensor([5, 301])}
    quantization = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": scheme}
    folder = drawn.write(tmp_path / "shape", {f"a.{n}": t for n, t in state.items()}, quantization)
    crumb("dequantize", folder, "-o", tmp_path / "out.safetensors")
    assert (load_file(tmp_path / "out.safetensors")["a.weight"].numpy() == codes - 4).all()


# --- What is refused --------------------------------------------------------------------------------------------------

PACKED = {"a.weight_packed": torch.zeros(4, 4, dtype=torch.int32), "a.weight_scale": torch.ones(4, 1),
          "a.weight_shape": torch.tensor([4, 32])}  # fmt: skip
GPTQ = {"a.qweight": torch.zeros(4, 32, dtype=torch.int32), "a.qzeros": torch.zeros(1, 4, dtype=torch.int32),
        "a.scales": torch.ones(1, 32, dtype=torch.float16), "a.g_idx": torch.zeros(32, dtype=torch.int32)}  # fmt: skip
WEIGHTS = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "channel"}


def ct(format="pack-quantized", weights=WEIGHTS, **more):
    group = {"targets": ["Linear"], "weights": weights}
    return {"quant_method": "compressed-tensors", "format": format, "config_groups": {"group_0": group}, **more}


def gptq(**more):
    return {"quant_method": "gptq", "bits": 4, "group_size": 32, **more}


WORDS = torch.int32
REFUSED = {
    "method": (PACKED, {"quant_method": "hqq"}, ["quant_method 'hqq' is not read", "compressed-tensors, gptq, awq, auto-round, bitsandbytes and fp8"]),
    "no method": (PACKED, {}, ["no quant_method"]),
    "sparse": (PACKED, ct("marlin-24"), ["'marlin-24'", "pack-quantized"]),
    "dense": (PACKED, ct("dense"), ["'dense'"]),
    "transforms": (PACKED, ct(transform_config={"config_groups": {"u": {}}}), ["transform_config"]),
    "sparsity": (PACKED, ct(sparsity_config={"format": "sparse-24-bitmask"}), ["sparsity_config"]),
    "16 bits": (PACKED, ct(weights={**WEIGHTS, "num_bits": 16}), ["16 bits", "1 to 8"]),
    "token": (PACKED, ct(weights={**WEIGHTS, "strategy": "token"}), ["'token'"]),
    "shape": (PACKED | {"a.weight_shape": torch.tensor([4, 64])}, ct(), ["a.weight_packed", "[4, 4] I32", "[4, 64]"]),
    "negative shape": (PACKED | {"a.weight_shape": torch.tensor([4, -1])}, ct(), ["a.weight_packed"]),
    "no shape": ({k: v for k, v in PACKED.items() if "shape" not in k}, ct(), ["a.weight_shape", "missing"]),
    "scales": (PACKED | {"a.weight_scale": torch.ones(4, 2)}, ct(), ["a.weight_scale", "[4, 2]", "[4, 1]"]),
    "scale type": (PACKED | {"a.weight_scale": torch.ones(4, 1).double()}, ct(), ["a.weight_scale", "F64", "F16"]),
    "zeros": (PACKED, ct(weights={**WEIGHTS, "symmetric": False}), ["a.weight_zero_point", "missing"]),
    "no codes": ({"b.weight_scale": torch.ones(1)} | PACKED, ct(), ["b.weight_scale", "no codes"]),
    "gptq_p": (GPTQ, gptq(checkpoint_format="gptq_p"), ["'gptq_p'", "gptq_v2"]),
    "marlin": (GPTQ, gptq(checkpoint_format="marlin"), ["'marlin'"]),
    "5 bits": (GPTQ, gptq(bits=5), ["5 bits"]),
    "int64 words": (GPTQ, gptq(pack_dtype="int64"), ["'int64'"]),
    "zero words": (GPTQ | {"a.qzeros": torch.zeros(1, 5, dtype=WORDS)}, gptq(), ["a.qzeros", "[1, 5] I32"]),
    "index": (GPTQ | {"a.g_idx": torch.zeros(31, dtype=WORDS)}, gptq(), ["a.g_idx", "[31]", "[32]"]),
    "no scales": ({k: v for k, v in GPTQ.items() if "scales" not in k}, gptq(), ["a.scales", "missing"]),
    "gemv": (GPTQ, {"quant_method": "awq", "version": "gemv"}, ["'gemv'", "gemm"]),
    "awq of 8 bits": (GPTQ, {"quant_method": "awq", "bits": 8}, ["8 bits"]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_refused_by_name(crumb, tmp_path, name):
    tensors, quantization, words = REFUSED[name]
    folder = drawn.write(tmp_path / "in", tensors, quantization)
    for verb in (["quantize", folder, "-o", tmp_path / "x.crumb", "--weights", "int8"], ["dequantize", folder, "-o", tmp_path / "out"]):
        done = crumb(*verb, status=1)
        for word in ("config.json has quantization_config", *words):
            assert word in done.stderr, done.stderr
    assert "already quantized by another tool" in crumb("inspect", folder).stdout  # its tensors, as they are
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


def test_an_index_that_leaves_its_groups_is_an_error(crumb, tmp_path):
    for value in (1, -1):
        index = torch.zeros(32, dtype=WORDS)
        index[7] = value
        folder = drawn.write(tmp_path / "in", GPTQ | {"a.g_idx": index}, gptq())
        done = crumb("dequantize", folder, "-o", tmp_path / "out", status=1)
        assert all(word in done.stderr for word in ("'a.weight'", "column 7", f"group {value}")), done.stderr
        assert not (tmp_path / "out" / "model.safetensors").exists()


def test_quantizers_of_activations_and_caches_are_left_out_and_named(crumb, tmp_path):
    extra = {"a.input_scale": torch.ones(1), "a.input_zero_point": torch.zeros(1, dtype=torch.int8), "b.attn.k_scale": torch.ones(1)}
    folder = drawn.write(tmp_path / "in", PACKED | extra, ct(kv_cache_scheme={"num_bits": 8, "type": "float"}))
    done = crumb("dequantize", folder, "-o", tmp_path / "out")
    assert load_file(tmp_path / "out" / "model.safetensors").keys() == {"a.weight"}
    for name in extra:
        assert f"left out '{name}': of a quantizer of activations" in done.stderr
    skipped = json.loads(crumb("inspect", folder, "--json").stdout)["skipped"]
    assert {entry["name"] for entry in skipped} == set(extra)
