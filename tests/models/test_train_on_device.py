"""`--device`: training and what is executed on a device that is not the CPU (tests/support/far_device.cpp, an engine whose
device hpu has memory of its own) give what they give on the CPU."""

import json
import subprocess
import time

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
tiny = pytest.importorskip("tiny_decoders")
LENGTH = 24


@pytest.fixture(scope="module")
def far(crumb, crumb_bin, engine):
    """Runs crumb with the engine that has the device hpu."""
    path = crumb_bin.parent / "tests/libcrumb_engine_far_device.so"
    assert path.is_file(), f"{path} has not been built"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRUMB_ENGINE", str(path))
        yield crumb


@pytest.fixture(scope="module")
def made(tmp_path_factory, crumb):
    work = tmp_path_factory.mktemp("device")
    tiny.make("llama3", work / "model")
    tiny.write_texts(work)
    crumb("quantize", work / "model", "-o", work / "base.crumb", "--weights", "int2h:group=16", "--embeddings", "int4:group=16")
    return work


def on(far, made, out, device, verb, *flags, status=0):
    model = ["train", "lm", "--model", made / "model"] if verb == "train" else [
        "recover", made / "base.crumb", "--baseline", made / "model", "--rank", 8]  # fmt: skip
    return far(*model, "--data", made / "train.txt", "--valid", made / "valid.txt", "-o", out / device, "--length", LENGTH,
               "--threads", 1, "--products", "f32", "--steps", 4, "--json", "--device", device, *flags, status=status)  # fmt: skip


@pytest.mark.parametrize("flags", [
    ["train", "--weights", "int2h:group=16:search=lsq", "--embeddings", "int4:group=16"],
    ["train", "--weights", "ternary:group=16", "--kv-cache", "int4:rotate", "--recompute"],
    ["train", "--weights", "e2m1:group=16", "--activations", "int8:token", "--at-once", 2],
    ["train", "--weights", "mxfp4:pad", "--teacher", "none"],
    ["train", "--weights", "nf4:group=16", "--block-wise", 1, "--block-sequences", 8],
    ["recover"],
    ["recover", "--init", "whitened", "--type", "int8", "--recompute"],
    ["recover", "--loss", "mix", "--init", "svd"]])  # fmt: skip
def test_the_same_on_another_device(far, made, tmp_path, flags):
    found = {device: json.loads(on(far, made, tmp_path, device, *flags).stdout) for device in ("cpu", "hpu")}
    for name in ("float", "rounded", "quantized"):
        assert found["hpu"][name] == pytest.approx(found["cpu"][name], rel=1e-4), name
    logs = [[json.loads(line)["loss"] for line in (tmp_path / device / "log.jsonl").read_text().splitlines()] for device in found]
    assert len(logs[0]) == 4 and np.allclose(*logs, rtol=1e-4)


def test_predictions_that_were_kept(far, made, tmp_path):
    found = [json.loads(on(far, made, tmp_path, device, "train", "--weights", "int2h:group=16", "--teacher-logits",
                           tmp_path / f"{device}.safetensors").stdout)["quantized"] for device in ("cpu", "hpu")]  # fmt: skip
    assert found[1] == pytest.approx(found[0], rel=1e-4)


def test_a_run_goes_on_there(far, crumb_bin, made, tmp_path):
    """What is kept on the device comes back to it, and a run of another device is refused."""
    how = ["train", "lm", "--model", made / "model", "--data", made / "train.txt", "--weights", "int3:group=16", "--steps", 40, "--length",
           LENGTH, "--threads", 1, "--products", "f32", "--checkpoint-every", 2, "--block-wise", 1, "--block-sequences", 8, "--json"]  # fmt: skip
    far(*how, "-o", tmp_path / "whole", "--device", "hpu")
    state = tmp_path / "cut/checkpoint.state"
    process = subprocess.Popen(list(map(str, (crumb_bin, *how, "-o", tmp_path / "cut", "--device", "hpu"))), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)  # fmt: skip
    while not state.exists() and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait(timeout=120)
    assert state.exists() and not (tmp_path / "cut/model.crumb").exists()
    other = far(*how, "-o", tmp_path / "cut", "--device", "cpu", status=2)
    assert "its device is 'hpu', this one's 'cpu'" in other.stderr
    far(*how, "-o", tmp_path / "cut", "--device", "hpu")
    for file in ("model.crumb", "log.jsonl"):
        assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file


@pytest.mark.parametrize(("flags", "said"), [
    (["--device", "cuda:77"], "there is no device 'cuda:77' here"),
    (["--device", "nowhere"], "there is no device 'nowhere' here"),
    (["--device", "hpu", "--products", "bf16"], "products of bf16 are not for the device 'hpu': expected f32 or tf32"),
    (["--products", "tf32"], "products of tf32 are not for the device 'cpu': expected f32 or bf16")])  # fmt: skip
def test_what_is_not_there(far, made, tmp_path, flags, said):
    how = ["train", "lm", "--model", made / "model", "--data", made / "train.txt", "--weights", "int4", "--length", LENGTH, "--steps", 1]
    assert said in far(*how, "-o", tmp_path / "out", *flags, status=2).stderr


def test_graphs_run_there(far, tmp_path):
    """crumb run --device: a network of convolutions on both."""
    torch = pytest.importorskip("torch")
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                                  torch.nn.Flatten(), torch.nn.Linear(8 * 16, 10)).eval()  # fmt: skip
    x = torch.randn(4, 3, 8, 8)
    torch.jit.trace(network, x).save(tmp_path / "net.pt")
    np.save(tmp_path / "x.npy", x.numpy())
    found = []
    for device in ("cpu", "hpu"):
        far("run", tmp_path / "net.pt", "--input", tmp_path / "x.npy", "--engine", "libtorch", "--device", device,
            "--output", tmp_path / f"{device}.npy")  # fmt: skip
        found.append(np.load(tmp_path / f"{device}.npy"))
    assert np.allclose(*found, rtol=1e-5, atol=1e-6)
