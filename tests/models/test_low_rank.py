"""The stage low_rank of `crumb quantize`, on decoders and encoders: codes and adapter together are nearer to the matrices than codes
alone, by numpy's own singular values; both engines and others' tools compute with them; `crumb recover --init kept` goes on."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.numpy")
in_torch = pytest.importorskip("safetensors.torch")
pytest.importorskip("tokenizers")
from llama_files import LENGTH, divergence, make_llama, quantize  # noqa: E402


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_llama(tmp_path_factory.mktemp("low_rank"))


def matrices(crumb, packed, out):
    crumb("dequantize", packed, "-o", out)
    return safetensors.load_file(out)


@pytest.mark.parametrize("how", ["low_rank", "low_rank:rank=4:iterations=3"])
def test_what_is_lost_is_what_the_report_says(crumb, made, tmp_path, how):
    report = quantize(crumb, made, tmp_path / "x.crumb", "--stages", how)
    (stage,) = report["stages"]
    assert stage["stage"] == how and len(stage["layers"]) == 3 * 7 + 1
    crumb("export", tmp_path / "x.crumb", "--to", "adapter", "-o", tmp_path / "lora")
    adapter = in_torch.load_file(tmp_path / "lora/adapter_model.safetensors")  # bfloat16
    codes, floats = matrices(crumb, tmp_path / "x.crumb", tmp_path / "x.safetensors"), safetensors.load_file(made / "model/model.safetensors")
    rank = 4 if "rank=4" in how else 16
    for layer in stage["layers"]:
        module = layer["layer"].removesuffix(".weight")
        stem = f"base_model.model.{module}"
        up, down = (adapter[f"{stem}.lora_{part}.weight"].double().numpy() for part in "BA")
        meant, kept = floats[layer["layer"]].astype(np.float64), codes[layer["layer"]].astype(np.float64)
        kept = kept if kept.shape == meant.shape else kept.T
        assert up.shape[1] == min(rank, *meant.shape)
        lost = np.sum((meant - up @ down - kept) ** 2) / np.sum(meant**2)
        assert lost == pytest.approx(layer["after"], rel=1e-3) and layer["after"] < layer["before"]
        if "iterations" not in how:  # the matrix' own first directions
            values = np.linalg.svd(meant, compute_uv=False)
            rest = np.sum(np.linalg.svd(meant - up @ down, compute_uv=False) ** 2)
            # bfloat16 rounds each factor by 2^-9 of a number at most.
            assert rest <= 1.01 * np.sum(values[up.shape[1] :] ** 2) + 2**-14 * np.sum(values**2)


def test_it_helps_and_turns_help_more(crumb, made, tmp_path):
    plain, once, turns = (tmp_path / f"{name}.crumb" for name in ("plain", "once", "turns"))
    quantize(crumb, made, plain)
    one = quantize(crumb, made, once, "--stages", "low_rank:rank=8")["stages"][0]["layers"]
    many = quantize(crumb, made, turns, "--stages", "low_rank:rank=8:iterations=6")["stages"][0]["layers"]
    assert sum(layer["after"] for layer in many) < sum(layer["after"] for layer in one)
    assert all(a["after"] <= b["after"] * (1 + 1e-9) for a, b in zip(many, one, strict=True))
    assert divergence(crumb, turns, made) < 0.8 * divergence(crumb, plain, made)
    again = tmp_path / "again.crumb"
    quantize(crumb, made, again, "--stages", "low_rank:rank=8:iterations=6", "--threads", 1)
    assert again.read_bytes() == turns.read_bytes()


def test_in_floats_the_network_is_the_same(crumb, made, tmp_path, engine):
    """Nothing but what bfloat16 cannot say, which the matrices make good: kept weights beside an adapter."""
    quantize(crumb, made, tmp_path / "x.crumb", "--stages", "low_rank:rank=8", weights="int8:channel")
    assert divergence(crumb, tmp_path / "x.crumb", made) < 2e-3
    assert divergence(crumb, tmp_path / "x.crumb", made, "--without-adapters") > 0.1


def test_recover_goes_on_with_it(crumb, made, tmp_path, engine):
    base = tmp_path / "base.crumb"
    quantize(crumb, made, base, "--stages", "low_rank:rank=6")
    how = ["--baseline", made / "model", "--data", made / "train.txt", "--valid", made / "valid.txt", "--length", LENGTH, "--threads", 1,
           "--products", "f32", "--rate", 3e-3, "--init", "kept", "--json"]  # fmt: skip
    report = json.loads(crumb("recover", base, *how, "--steps", 40, "-o", tmp_path / "out").stdout)
    assert report["adapter"]["name"] == "low_rank" and report["adapter"]["rank"] == 6
    assert divergence(crumb, tmp_path / "out/model.crumb", made) < 0.8 * divergence(crumb, base, made)
    # Without a step it is the file that it was.
    crumb("recover", base, *how, "--steps", 0, "-o", tmp_path / "none")
    assert divergence(crumb, tmp_path / "none/model.crumb", made) == divergence(crumb, base, made)
    codes, kept = (matrices(crumb, file, tmp_path / f"{i}.safetensors") for i, file in enumerate((base, tmp_path / "out/model.crumb")))
    for name in codes:
        if not name.endswith(("lora_A", "lora_B", "lora_scale")):
            assert np.array_equal(codes[name], kept[name]), name
    for flag, value in (("--rank", 4), ("--targets", "*q_proj")):
        assert f"{flag} is for a fresh adapter" in crumb("recover", base, *how, flag, value, "-o", tmp_path / "no", status=2).stderr
    quantize(crumb, made, tmp_path / "plain.crumb")
    said = crumb("recover", tmp_path / "plain.crumb", *how, "-o", tmp_path / "no", status=2).stderr
    assert "has no adapter that could go on" in said and not (tmp_path / "no").exists()


def test_who_cannot_do_it_says_so(crumb, made, tmp_path):
    out = tmp_path / "x.crumb"
    assert "finds no linear layer" in crumb("quantize", made / "model", "-o", out, "--weights", "keep", "--stages", "low_rank", status=1).stderr
    for stage, why in [("low_rank:rank=0", "expected rank to be a whole number"), ("low_rank:ranks=2", "has no option"),
                       ("block_wise", "for training"), ("lowrank", "did you mean 'low_rank'")]:  # fmt: skip
        assert why in crumb("quantize", made / "model", "-o", out, "--weights", "int4", "--stages", stage, status=2).stderr
    np.save(tmp_path / "w.npy", np.ones((8, 8), np.float32))
    said = crumb("quantize", tmp_path / "w.npy", "-o", out, "--weights", "int4", "--stages", "low_rank", status=2).stderr
    assert "low_rank" in said and not out.exists()
