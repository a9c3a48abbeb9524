"""crumb train --learned-bits: the budget holds in the files, widths are no worse than one for all, and what is refused."""

import json
import os
import re
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

SHORT = ["--network", "cnn", "--epochs", 8, "--float-epochs", 6]


@pytest.fixture(scope="module")
def data() -> Path:
    """The folder with data sets; skips where scripts/setup has not filled it."""
    cache = os.environ.get("CRUMB_CACHE") or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "crumb"
    folder = Path(os.environ.get("CRUMB_DATA") or Path(cache) / "data")
    if not (folder / "digits.csv.gz").is_file():
        pytest.skip("the digits are not there: scripts/setup")
    return folder


def report_of(crumb, folder, task, *flags):
    printed = crumb("train", "task", task, "-o", folder, "--json", *flags).stdout
    return json.loads(printed)


def quantized_tensors(crumb, folder):
    """Of the packed file: name -> (bits of the spec, bytes of the codes, elements)."""
    listed = json.loads(crumb("inspect", folder / "model.crumb", "--tensors-only", "--json").stdout)["tensors"]
    found = {}
    for tensor in listed:
        bits = re.match(r"u?int(\d+)", tensor["spec"] or "")
        if bits and len(tensor["shape"]) > 1:
            assert tensor["spec"].endswith(":channel")
            codes = tensor["bytes"] - 4 * tensor["shape"][0]  # less a float32 scale for each channel
            found[tensor["name"]] = (int(bits[1]), codes, int(np.prod(tensor["shape"])))
    return found


def total(tensors):
    return sum(size for _, size, _ in tensors.values()), sum(count for _, _, count in tensors.values())


@pytest.fixture(scope="module")
def uniform(crumb, engine, data, tmp_path_factory):
    """The CNN with three bits in its inner layers."""
    folder = tmp_path_factory.mktemp("bits") / "uniform"
    return folder, report_of(crumb, folder, "digits", *SHORT, "--weights", "int3")


@pytest.fixture(scope="module")
def learned(crumb, uniform, tmp_path_factory):
    """The same size with learned widths."""
    size, _ = total(quantized_tensors(crumb, uniform[0]))
    folder = tmp_path_factory.mktemp("bits") / "learned"
    return folder, report_of(crumb, folder, "digits", *SHORT, "--learned-bits", f"{size}B"), size


def test_the_budget_holds_in_the_packed_file(crumb, learned):
    folder, report, size = learned
    tensors = quantized_tensors(crumb, folder)
    assert set(tensors) == {"conv1.weight", "conv2.weight", "conv3.weight", "fc.weight"}
    bits = report["learned_bits"]
    assert bits["unit"] == "bytes" and bits["limit"] == size
    assert total(tensors)[0] == bits["used"] <= size
    assert {layer["name"]: layer["bits"] for layer in bits["layers"]} == {name: t[0] for name, t in tensors.items()}
    ends = [layer for layer in bits["layers"] if layer["name"] in ("conv1.weight", "fc.weight")]
    assert [(layer["bits"], layer["learned"]) for layer in ends] == [(8, None)] * 2
    assert all(2 <= layer["learned"] <= 8 for layer in bits["layers"] if layer not in ends)


def test_learned_widths_are_about_as_good_as_one_for_all(uniform, learned):
    assert learned[1]["quantized"] >= uniform[1]["quantized"] - 0.03
    assert learned[1]["quantized"] >= learned[1]["float"] - 0.03


def test_qonnx_has_the_same_widths_and_predictions(crumb, learned, data, tmp_path):
    wrapper = pytest.importorskip("qonnx.core.modelwrapper").ModelWrapper
    execute = pytest.importorskip("qonnx.core.onnx_exec").execute_onnx
    folder, report, _ = learned
    table = np.loadtxt(data / "digits.csv.gz", delimiter=",")
    held_out = np.arange(len(table)) % 5 == 4
    inputs, labels = table[held_out, :64].astype(np.float32).reshape(-1, 1, 8, 8), table[held_out, 64].astype(int)
    whole = tmp_path / "whole.onnx"
    shape = "input=" + "x".join(map(str, inputs.shape))
    crumb("export", folder / "model.crumb", "-o", whole, "--to", "qonnx", "--shape", shape)
    for file in (folder / "model.onnx", whole):
        model = wrapper(str(file))
        constants = {node.input[0]: node for node in model.graph.node if node.op_type in ("Quant", "IntQuant")}
        weights = [name for name in constants if getattr(model.get_initializer(name), "ndim", 0) > 1]
        widths = sorted(int(np.squeeze(model.get_initializer(constants[name].input[3]))) for name in weights)
        assert widths == sorted(layer["bits"] for layer in report["learned_bits"]["layers"])
    scores = execute(model, {model.graph.input[0].name: inputs})[model.graph.output[0].name]
    assert np.mean(scores.argmax(1) == labels) == pytest.approx(report["quantized"], abs=1e-9)


def test_bit_operations_are_those_of_crumb_cost(crumb, engine, tmp_path):
    flags = ["--epochs", 3, "--float-epochs", 1, "--learned-bits", "0.25Mbops"]
    report = report_of(crumb, tmp_path, "jets", *flags)
    bits = report["learned_bits"]
    assert bits["unit"] == "bops" and bits["limit"] == 250000
    for model in ("model.crumb", "model.onnx"):
        cost = json.loads(crumb("cost", tmp_path / model, "--json").stdout)
        # int2's three codes and the like count as what they are: never more than the width that was planned.
        assert cost["dense"]["bops_qap"] <= bits["used"] <= 250000
    printed = crumb("train", "task", "jets", "-o", tmp_path, *flags).stdout
    assert "of 250000 bops used" in printed and "given" in printed


def test_bits_per_weight_are_those_of_the_packed_file(crumb, engine, tmp_path):
    """An LSTM's weights, which every step of an unrolled layer takes, count once."""
    flags = ["--epochs", 1, "--float-epochs", 0, "--learned-bits", "3.4bpw:most=6"]
    bits = report_of(crumb, tmp_path, "ocr", *flags)["learned_bits"]
    tensors = quantized_tensors(crumb, tmp_path).values()
    mean = sum(width * count for width, _, count in tensors) / total(dict(enumerate(tensors)))[1]
    assert bits["unit"] == "bpw" and bits["used"] == pytest.approx(mean) and mean <= 3.4


def contents(folder):
    report = json.loads((folder / "report.json").read_text())
    report.pop("seconds")
    names = ("model.crumb", "model.onnx", "float.safetensors", "log.jsonl")
    return {name: (folder / name).read_bytes() for name in names} | {"report": report}


@pytest.mark.slow
def test_a_run_that_was_cut_off_goes_on_to_the_same_bytes(crumb, crumb_bin, engine, data, tmp_path):
    flags = ["--float-epochs", 2, "--epochs", 15, "--learned-bits", "5.2bpw", "--prune", "0.3:layer:rewind"]
    flags += ["--checkpoint-every", 5]
    crumb("train", "task", "digits", "-o", tmp_path / "whole", *flags)
    # 18 states of the float network, 135 of the float network trained on, 135 more: while widths are learned, and after.
    for states in (160, 243):
        cut = tmp_path / f"cut{states}"
        command = [str(part) for part in (crumb_bin, "train", "task", "digits", "-o", cut, *flags)]
        run = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        state, seen, deadline = cut / "checkpoint.state", set(), time.monotonic() + 60
        while run.poll() is None and time.monotonic() < deadline and len(seen) < states:
            if state.exists():
                seen.add(state.stat().st_mtime_ns)
            time.sleep(0.001)
        assert run.poll() is None, "the run was over before it could be cut off"
        run.kill()
        run.wait()
        assert not (cut / "report.json").exists()
        crumb(*command[1:])
        assert contents(cut) == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--learned-bits", "3"], ["--learned-bits", "3.5bpw", "'3'"]),
        (["--learned-bits", "3bpw:least=1"], ["least", "'1'"]),
        (["--learned-bits", "3bpw:least=5:most=4"], ["least=5", "most=4"]),
        (["--learned-bits", "xbops"], ["bops", "'xbops'"]),
    ],
)
def test_a_budget_that_is_none_is_refused(crumb, flags, words, tmp_path):
    failed = crumb("train", "task", "jets", "-o", tmp_path, *flags, status=2)
    for word in words:
        assert word in failed.stderr


def test_a_budget_that_cannot_be_kept_names_the_least(crumb, engine, tmp_path):
    short = ["--epochs", 1, "--float-epochs", 0]
    failed = crumb("train", "task", "jets", "-o", tmp_path, *short, "--learned-bits", "2bpw", status=1)
    least = re.search(r"takes ([\d.]+bpw)", failed.stderr)[1]
    assert "given" in failed.stderr
    bits = report_of(crumb, tmp_path, "jets", *short, "--learned-bits", least)["learned_bits"]
    assert {layer["bits"] for layer in bits["layers"] if layer["learned"]} == {2}


def test_quantizing_without_training_refuses_it(crumb, tmp_path):
    recipe = tmp_path / "bits.yaml"
    recipe.write_text("weights: int4:channel\nlearned_bits: {budget: 3.5bpw, most: 6}\n")
    assert "learned_bits: 3.5bpw:most=6" in crumb("recipe", recipe).stdout
    model = tmp_path / "w.npz"
    np.savez(model, **{"a.weight": np.ones((4, 8), np.float32)})
    failed = crumb("quantize", model, "-o", tmp_path / "o.crumb", "--recipe", recipe, status=2)
    assert "learned_bits" in failed.stderr and "crumb train" in failed.stderr
