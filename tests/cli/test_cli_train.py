"""crumb train: what a run leaves in its folder, runs that are cut off, sweeps, and what is refused."""

import csv
import json
import os
import signal
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

FILES = {"model.crumb", "model.onnx", "float.safetensors", "log.jsonl", "report.json"}
CLASSES = 10


@pytest.fixture(scope="module")
def data() -> Path:
    """The folder with data sets; skips where scripts/setup has not filled it."""
    cache = os.environ.get("CRUMB_CACHE") or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "crumb"
    folder = Path(os.environ.get("CRUMB_DATA") or Path(cache) / "data")
    if not (folder / "digits.csv.gz").is_file():
        pytest.skip("the digits are not there: scripts/setup")
    return folder


@pytest.fixture(scope="module")
def digits(data):
    """Inputs and labels of the test set."""
    table = np.loadtxt(data / "digits.csv.gz", delimiter=",")
    held_out = np.arange(len(table)) % 5 == 4
    return table[held_out, :64].astype(np.float32), table[held_out, 64].astype(int)


@pytest.fixture(scope="module")
def trained(crumb, engine, data, tmp_path_factory):
    """A short run of digits within 9 bits, its folder and what --json printed."""
    folder = tmp_path_factory.mktemp("train") / "digits"
    short = ["--epochs", 6, "--float-epochs", 6, "--accumulator", "9:a2q_plus"]
    printed = crumb("train", "task", "digits", "-o", folder, "--data-dir", data, "--json", *short)
    return folder, json.loads(printed.stdout)


def contents(folder):
    """Everything that has to be the same in two runs."""
    report = json.loads((folder / "report.json").read_text())
    report.pop("seconds")
    return {name: (folder / name).read_bytes() for name in FILES - {"report.json"}} | {"report": report}


def small(tmp_path):
    """The flags of a run that takes a second."""
    return ["train", "task", "digits", "-o", tmp_path, "--epochs", 2, "--float-epochs", 2]


def test_the_report_has_the_fields_that_are_promised(trained):
    folder, report = trained
    assert {path.name for path in folder.iterdir()} == FILES
    promised = {"task", "metric", "float", "float_longer", "quantized", "accumulator", "seconds"}
    assert promised <= report.keys()
    assert report["task"] == "digits" and report["metric"] == "accuracy"
    assert 0.9 < report["float"] <= 1 and 0.9 < report["float_longer"] <= 1 and 0.8 < report["quantized"] <= 1
    assert "2401.10432" in report["miniature_of"] and "miniature" in report["miniature_of"]
    stored = json.loads((folder / "report.json").read_text())
    stored.pop("request")
    assert stored == report
    fields = {"name", "input", "bits_needed", "bits_certified", "bits_by_types", "worst_max", "worst_min", "tile"}
    assert all(fields <= layer.keys() for layer in report["accumulator"])
    assert [layer["name"].split("/")[0] for layer in report["accumulator"]] == ["fc1", "fc2", "fc3", "fc4"]


def test_inner_layers_keep_the_accumulator_and_the_ends_have_eight_bits(trained, crumb):
    folder, report = trained
    first, *inner, last = report["accumulator"]
    # 128 terms of 7 times 15 are 13440, 64 are 6720; the ends have 64 of 127 times 127 and of 127 times 255.
    assert [layer["bits_by_types"] for layer in report["accumulator"]] == [21, 15, 14, 22]
    for layer in inner:
        assert layer["bits_needed"] <= 9 == layer["bits_certified"]
        assert -256 <= layer["worst_min"] and layer["worst_max"] <= 255
    assert first["input"] == [-127, 127] and last["input"] == [0, 255]
    for model in ("model.crumb", "model.onnx"):
        assert crumb("verify", folder / model, "--accumulator", 9).returncode == 0


def test_the_log_has_a_line_for_each_epoch(trained):
    folder, report = trained
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [(line["phase"], line["epoch"]) for line in lines] == [
        (phase, epoch) for phase in ("float", "float longer", "quantized") for epoch in range(1, 7)
    ]
    scores = [lines[epoch]["accuracy"] for epoch in (5, 11, 17)]
    assert scores == [report[name] for name in ("float", "float_longer", "quantized")]
    assert lines[5]["loss"] < lines[0]["loss"]


def test_the_packed_model_answers_as_reported(trained, crumb, digits, tmp_path):
    folder, report = trained
    pixels, labels = digits
    np.save(tmp_path / "x.npy", pixels)
    crumb("run", folder / "model.crumb", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    answers = np.load(tmp_path / "y.npy").argmax(1)
    assert (answers == labels).mean() == pytest.approx(report["quantized"], abs=1e-9)


def test_qonnx_executes_the_model_with_the_same_predictions(trained, crumb, digits, tmp_path):
    modelwrapper = pytest.importorskip("qonnx.core.modelwrapper")
    onnx_exec = pytest.importorskip("qonnx.core.onnx_exec")
    folder, _ = trained
    pixels, _ = digits
    np.save(tmp_path / "x.npy", pixels)
    crumb("run", folder / "model.crumb", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    whole = tmp_path / "whole.onnx"
    crumb("export", folder / "model.crumb", "--to", "qonnx", "-o", whole, "--shape", f"input={len(pixels)}x64")
    model = modelwrapper.ModelWrapper(str(whole))
    outputs = onnx_exec.execute_onnx(model, {model.graph.input[0].name: pixels})
    scores = outputs[model.graph.output[0].name]
    assert np.array_equal(scores.argmax(1), np.load(tmp_path / "y.npy").argmax(1))


def test_the_float_weights_are_those_of_the_float_network(trained, digits):
    load_file = pytest.importorskip("safetensors.numpy").load_file
    folder, report = trained
    pixels, labels = digits
    weights = load_file(folder / "float.safetensors")
    x = (pixels - 4.884) / 6.017
    for layer in range(1, 5):
        x = x @ weights[f"fc{layer}.weight"].T + weights[f"fc{layer}.bias"]
        x = np.maximum(x, 0) if layer < 4 else x
    assert (x.argmax(1) == labels).mean() == pytest.approx(report["float"], abs=0.003)


def test_one_seed_gives_the_same_bytes_and_another_does_not(crumb, engine, data, tmp_path):
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        crumb(*small(tmp_path / name), "--seed", seed)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a")["model.crumb"] != contents(tmp_path / "c")["model.crumb"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_cut_off_goes_on_to_the_same_bytes(crumb, crumb_bin, engine, data, tmp_path, how):
    flags = ["--float-epochs", 4, "--epochs", 12, "--accumulator", "10:a2q", "--checkpoint-every", 7]
    crumb("train", "task", "digits", "-o", tmp_path / "whole", *flags)
    cut = tmp_path / "cut"
    command = [str(part) for part in (crumb_bin, "train", "task", "digits", "-o", cut, *flags)]
    for _ in range(2):
        run = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        before = (cut / "checkpoint.state").stat().st_mtime_ns if (cut / "checkpoint.state").exists() else 0
        deadline = time.monotonic() + 60
        while run.poll() is None and time.monotonic() < deadline:
            state = cut / "checkpoint.state"
            if state.exists() and state.stat().st_mtime_ns > before:
                break
            time.sleep(0.01)
        assert run.poll() is None, "the run was over before it could be cut off"
        run.send_signal(how)
        status = run.wait(timeout=60)
        assert status == (130 if how == signal.SIGINT else -signal.SIGKILL)
        assert not (cut / "report.json").exists()
    crumb(*command[1:])
    assert contents(cut) == contents(tmp_path / "whole")
    assert {path.name for path in cut.iterdir()} == FILES


def test_a_state_of_another_run_is_not_continued(crumb, crumb_bin, engine, data, tmp_path):
    flags = ["--float-epochs", 2, "--epochs", 50, "--checkpoint-every", 1]
    command = [str(part) for part in (crumb_bin, "train", "task", "digits", "-o", tmp_path / "d", *flags)]
    run = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (tmp_path / "d" / "checkpoint.state").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    run.kill()
    run.wait()
    refused = crumb(*small(tmp_path / "d"), status=2)
    assert "epochs" in refused.stderr and "--restart" in refused.stderr
    crumb(*small(tmp_path / "d"), "--restart")
    assert {path.name for path in (tmp_path / "d").iterdir()} == FILES


def test_other_tasks_and_networks_train(crumb, engine, data, tmp_path):
    for task, flags, metric in (("jets", [], "accuracy"), ("digits", ["--network", "cnn"], "accuracy")):
        folder = tmp_path / (task + "".join(flags))
        done = crumb("train", "task", task, "-o", folder, "--epochs", 1, "--float-epochs", 1, "--json", *flags)
        assert json.loads(done.stdout)["metric"] == metric
        assert {path.name for path in folder.iterdir()} == FILES


def quality(crumb, folder, task, *flags):
    report = json.loads(crumb("train", "task", task, "-o", folder, "--json", *flags, timeout=1200).stdout)
    assert {path.name for path in folder.iterdir()} == FILES
    return [report[name] for name in ("float", "float_longer", "quantized")], report


def test_a_short_run_of_super_resolution_learns_more_than_to_repeat_pixels(crumb, engine, data, tmp_path):
    """W4A4. Seeds 0 to 3: 28.93 to 29.34, 29.37 to 29.89, 29.36 to 29.78 dB; a network whose layers give 0: 28.82."""
    short = ["--float-epochs", 1, "--epochs", 1]
    (_, longer, quantized), report = quality(crumb, tmp_path / "sr", "sr", *short)
    assert report["metric"] == "psnr"
    assert report["references"] == pytest.approx({"nearest": 28.816, "bilinear": 29.710, "bicubic": 30.441}, abs=1e-3)
    assert min(longer, quantized) > report["references"]["nearest"] + 0.25


def test_a_short_run_reads_most_of_the_digits_in_a_line(crumb, engine, data, tmp_path):
    """W4A4. Seeds 0 to 2: 0.826 to 0.836, 0.842 to 0.878, 0.839 to 0.857; a network that says nothing: 0."""
    scores, report = quality(crumb, tmp_path / "ocr", "ocr", "--float-epochs", 8, "--epochs", 1)
    assert report["metric"] == "character accuracy" and "references" not in report
    assert all(0.7 < score <= 1 for score in scores)


@pytest.mark.slow
def test_super_resolution_beats_bicubic_interpolation(crumb, engine, data, tmp_path):
    """W4A4 by default. Seeds 0 to 2: 30.73 to 30.78 in float, 30.80 to 30.87 trained on, 30.68 to 30.80 quantized dB; bicubic 30.44."""
    scores, report = quality(crumb, tmp_path / "sr", "sr")
    assert min(scores) > report["references"]["bicubic"] + 0.15


@pytest.mark.slow
def test_lines_of_digits_are_read(crumb, engine, data, tmp_path):
    """W4A4 by default. Seeds 0 to 2: 0.962 to 0.974 in float, 0.964 to 0.974 trained on, 0.974 to 0.978 quantized."""
    scores, _ = quality(crumb, tmp_path / "ocr", "ocr")
    assert min(scores) > 0.94


def test_what_qonnx_cannot_say_leaves_the_packed_model_and_a_note(crumb, engine, data, digits, tmp_path):
    (tmp_path / "model.onnx").write_text("of another run")
    done = crumb(*small(tmp_path), "--data-dir", data, "--weights", "mxfp4")
    assert "note: no model.onnx" in done.stdout and "'fc2.weight' (mxfp4)" in done.stdout
    assert "model.onnx," not in done.stdout.splitlines()[-1]
    assert {path.name for path in tmp_path.iterdir()} == FILES - {"model.onnx"}
    report = json.loads((tmp_path / "report.json").read_text())
    assert len(report["notes"]) == 1
    inputs, labels = digits
    np.save(tmp_path / "x.npy", inputs)
    crumb("run", tmp_path / "model.crumb", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    found = (np.load(tmp_path / "y.npy").argmax(1) == labels).mean()
    assert found == pytest.approx(report["quantized"], abs=1e-9)


def test_the_first_and_last_layer_can_be_held_too_and_rules_name_layers(crumb, engine, data, tmp_path):
    held = crumb(*small(tmp_path / "held"), "--accumulator", 18, "--all-layers", "--json")
    layers = json.loads(held.stdout)["accumulator"]
    assert all(layer["bits_certified"] == 18 and layer["constrained"] for layer in layers)
    (tmp_path / "r.yaml").write_text(
        "weights: int4\nactivations: uint4\naccumulator: 12\n"
        "rules: [{match: {name: fc1}, weights: int6}, {match: {name: fc3}, accumulator: 9:a2q}]\n"
    )
    ruled = json.loads(crumb(*small(tmp_path / "ruled"), "--recipe", tmp_path / "r.yaml", "--json").stdout)
    assert [layer["bits_certified"] for layer in ruled["accumulator"]][1:3] == [12, 9]
    assert '{match: {name: "fc4.weight"}, weights: int8:channel, activations: uint8:tensor}' in ruled["recipe"]
    assert '{match: {name: "fc1.weight"}, activations: int8:tensor}' in ruled["recipe"]  # the rule says its weights


def test_activations_by_a_moving_average_learn(crumb, engine, data, tmp_path):
    spec = "uint4:tensor:search=ema"
    report = json.loads(crumb(*small(tmp_path), "--activations", spec, "--json").stdout)
    assert f"activations: {spec}" in report["recipe"].replace('"', "") and report["quantized"] > 0.5


def test_a_sweep_keeps_its_points_and_draws_what_it_found(crumb, engine, data, tmp_path):
    short = ["--epochs", 1, "--float-epochs", 2, "--seeds", 2, "--threads", 2]
    first = crumb("train", "task", "digits", "-o", tmp_path, "--sweep", "formats", "--json", *short)
    found = json.loads(first.stdout)
    assert found == json.loads((tmp_path / "sweep.json").read_text())
    assert {row["at"] for row in found["table"]} >= {"e2m1", "e3m2", "int2h", "ternary", "binary"}
    assert "2502.02631" in found["miniature_of"] and found["miniature_of"].endswith("a smaller network)")
    for row in found["table"]:
        values = [point["accuracy"] for point in found["points"] if point["at"] == row["at"]]
        assert len(values) == row["seeds"] == 2
        assert row["mean"] == pytest.approx(np.mean(values))
        assert [row["least"], row["greatest"]] == [min(values), max(values)]
    runs = [json.loads((tmp_path / f"points/int4-seed{seed}/report.json").read_text()) for seed in (0, 1)]
    for row, name, epochs in zip(found["compared_with"], ("float", "float_longer"), (2, 3), strict=True):
        scores = [report[name] for report in runs]
        assert row["epochs"] == epochs and row["mean"] == pytest.approx(np.mean(scores))
        assert [row["least"], row["greatest"]] == [min(scores), max(scores)]
    rows = list(csv.DictReader((tmp_path / "sweep.csv").open()))
    assert [float(row["accuracy"]) for row in rows] == pytest.approx([point["accuracy"] for point in found["points"]])
    words = " ".join(ElementTree.parse(tmp_path / "sweep.svg").getroot().itertext())
    for word in ("format of the weights", "accuracy (fraction of the test set)", "e2m1", "float", "miniature"):
        assert word in words

    files = {name: (tmp_path / name).read_bytes() for name in ("sweep.json", "sweep.csv", "sweep.svg")}
    (tmp_path / "points" / "int4-seed1" / "report.json").unlink()
    again = crumb("train", "task", "digits", "-o", tmp_path, "--sweep", "formats", *short)
    assert "19 of 20 points" in again.stderr and again.stderr.count("training 20/20 points") == 1
    assert "miniature" in again.stdout and "int2h" in again.stdout and "float, as many epochs" in again.stdout
    assert files == {name: (tmp_path / name).read_bytes() for name in files}


def cost_of(crumb, model):
    return json.loads(crumb("cost", model, "--json").stdout)


def test_a_pruned_run_reports_what_is_left_as_the_files_have_it(crumb, engine, tmp_path):
    short = ["--epochs", 3, "--float-epochs", 1, "--prune", "0.8:floor=0.05"]
    done = crumb("train", "task", "jets", "-o", tmp_path, "--json", *short, "--weights", "int4", "--activations", "uint4")
    pruning = json.loads(done.stdout)["pruning"]
    weights = [16 * 64, 64 * 32, 32 * 32, 32 * 5]
    assert pruning["pruned"] == pytest.approx(0.8, abs=1 / sum(weights))
    assert pruning["pruned"] <= pruning["sparsity"] < 1
    assert [layer["weights"] for layer in pruning["layers"]] == weights
    zeros = sum(layer["weights"] * layer["sparsity"] for layer in pruning["layers"])
    assert zeros == pytest.approx(pruning["sparsity"] * sum(weights))
    assert all(layer["sparsity"] <= 0.95 + 0.02 for layer in pruning["layers"])
    for model in ("model.crumb", "model.onnx"):
        cost = cost_of(crumb, tmp_path / model)
        assert cost["sparse"]["bops_qap"] == pruning["bops"] and cost["dense"]["bops_qap"] == pruning["bops_dense"]
        assert [1 - node["density"] for node in cost["nodes"]] == pytest.approx(
            [layer["sparsity"] for layer in pruning["layers"]]
        )
    printed = crumb("train", "task", "jets", "-o", tmp_path, *short).stdout
    assert "80.0 % of the weights pruned" in printed and "BOPs" in printed
    assert "prune" in json.loads((tmp_path / "report.json").read_text())["recipe"]


def test_a_pruned_run_that_was_cut_off_goes_on_to_the_same_bytes(crumb, crumb_bin, engine, data, tmp_path):
    flags = ["--float-epochs", 2, "--epochs", 15, "--prune", "0.7:layer:rewind", "--checkpoint-every", 5]
    crumb("train", "task", "digits", "-o", tmp_path / "whole", *flags)
    cut = tmp_path / "cut"
    command = [str(part) for part in (crumb_bin, "train", "task", "digits", "-o", cut, *flags)]
    run = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    state, seen, deadline = cut / "checkpoint.state", set(), time.monotonic() + 60
    # 18 states of the float network, 135 of the float network trained on; pruning ends in the middle of 135 more.
    while run.poll() is None and time.monotonic() < deadline and len(seen) < 195:
        if state.exists():
            seen.add(state.stat().st_mtime_ns)
        time.sleep(0.001)
    assert run.poll() is None, "the run was over before it could be cut off"
    run.kill()
    run.wait()
    assert not (cut / "report.json").exists()
    crumb(*command[1:])
    assert contents(cut) == contents(tmp_path / "whole")


def test_pruning_by_bits_is_a_sweep_with_costs(crumb, engine, tmp_path):
    short = ["--epochs", 1, "--float-epochs", 1, "--seeds", 1, "--threads", 2]
    done = crumb("train", "task", "jets", "-o", tmp_path, "--sweep", "prune-bits", "--json", *short, timeout=600)
    found = json.loads(done.stdout)
    assert "2102.11289" in found["miniature_of"]
    cells = {(row["series"], int(row["at"])): row for row in found["table"]}
    bits, shares = (32, 8, 6, 4, 3, 2), (0, 50, 80, 90, 95, 98)
    assert cells.keys() == {(f"{b} bits", share) for b in bits for share in shares}
    assert cells["32 bits", 0]["bops"] == 4652832 and cells["32 bits", 0]["sparsity"] == 0
    dense = {8: 583968, 6: 412960, 4: 267808, 32: 4652832}
    for share in shares:
        for b in bits:
            cell = cells[f"{b} bits", share]
            assert cell["sparsity"] >= int(4256 * share / 100) / 4256
            if b in dense:
                assert cell["bops_dense"] == dense[b]
        assert cells["32 bits", share]["bops"] == 4652832 - 1024 * int(4256 * share / 100)
    rows = list(csv.DictReader((tmp_path / "sweep.csv").open()))
    assert len(rows) == 36 and float(rows[0]["bops"]) == 4652832
    words = " ".join(ElementTree.parse(tmp_path / "sweep.svg").getroot().itertext())
    for word in ("pruned weights (%)", "32 bits", "2 bits", "98"):
        assert word in words
    again = crumb("train", "task", "jets", "-o", tmp_path, "--sweep", "prune-bits", *short)
    assert "point" not in again.stderr  # nothing was trained again
    assert "4652832 (0.0 %)" in again.stdout and "BOPs" in again.stdout


@pytest.mark.slow
def test_pruning_by_bits_has_the_shape_of_the_paper(crumb, engine, tmp_path):
    begun = time.monotonic()
    crumb("train", "task", "jets", "-o", tmp_path, "--sweep", "prune-bits", "--seeds", 1, timeout=1200)
    assert time.monotonic() - begun < 600
    found = json.loads((tmp_path / "sweep.json").read_text())
    cells = {(row["series"], int(row["at"])): row for row in found["table"]}
    best, small = cells["32 bits", 0], cells["6 bits", 80]
    assert best["mean"] - small["mean"] < 0.02
    assert best["bops"] / small["bops"] > 24  # an input of 32 bits costs most of what is left
    for bits in (8, 6, 4, 3, 2):
        assert best["mean"] - cells[f"{bits} bits", 50]["mean"] < 0.03
    assert best["mean"] - cells["32 bits", 98]["mean"] > 0.1  # one threshold for all layers: some of them die


@pytest.mark.slow
def test_accuracy_against_accumulator_width_has_the_shape_of_the_paper(crumb, engine, data, tmp_path):
    begun = time.monotonic()
    crumb("train", "task", "digits", "-o", tmp_path, "--sweep", "accumulator", "--seeds", 3, timeout=1200)
    assert time.monotonic() - begun < 600
    found = json.loads((tmp_path / "sweep.json").read_text())
    mean = {(row["series"], int(row["at"])): row["mean"] for row in found["table"]}
    plain = [json.loads(path.read_text()) for path in tmp_path.glob("points/qat-seed*/report.json")]
    needed = max(layer["bits_needed"] for report in plain for layer in report["accumulator"][1:-1])
    for bits in range(8, 17):
        if bits >= needed:
            assert abs(mean["A2Q+", bits] - mean["A2Q", bits]) <= 0.01
        if bits <= 10:
            assert mean["A2Q+", bits] > mean["A2Q", bits]
    assert mean["A2Q+", 8] >= 0.95
    # 128 terms of ternary weights and binary inputs take 9 bits; A2Q+ has no worse networks there, and some for 8 bits.
    narrowed = {int(row["at"]): row for row in found["table"] if row["series"] == "QAT, narrowed to fit"}
    assert set(narrowed) == set(range(9, 17)) and narrowed[9]["widths"] == "W2A1"
    for bits, row in narrowed.items():
        assert 0.95 <= row["mean"] <= mean["A2Q+", bits] + 0.01
        folder = "qat" if row["widths"] == "W4A4" else f"narrowed-{row['widths']}"
        for seed in range(3):
            inner = json.loads((tmp_path / f"points/{folder}-seed{seed}/report.json").read_text())["accumulator"][1:-1]
            assert all(layer["bits_needed"] <= layer["bits_by_types"] <= bits for layer in inner)
    assert mean["QAT, wraparound", 16] > 0.96 and mean["QAT, wraparound", 9] < 0.6
    models = list(tmp_path.glob("points/a2q*/model.*"))
    assert len(models) == 2 * 54  # of A2Q and A2Q+
    for model in models:
        bits = model.parent.name.split("-")[1]
        crumb("verify", model, "--accumulator", bits)


def test_what_is_wrong_is_said_before_any_work(crumb, engine, tmp_path):
    def refused(*flags, status=2):
        return crumb("train", "task", *flags, "-o", tmp_path / "out", status=status).stderr

    assert "'digits'" in refused("digit")
    assert "'cnn'" in refused("digits", "--network", "cn")
    assert "a2q_plus" in refused("digits", "--accumulator", "10:a2q_pls")
    assert "64" in refused("digits", "--accumulator", "64")
    assert "formats" in refused("digits", "--sweep", "format")
    assert "prune-bits" in refused("digits", "--sweep", "prune-bit")
    assert "--profile is for one network" in refused("digits", "--sweep", "bits", "--profile", "finn")
    for share in ("1.5", "1", "-1", "nan", "lots", "0.5:layr", "0.5:steps=0", "0.9:floor=0.5", "0.5:layer:floor=0.1"):
        message = refused("digits", f"--prune={share}")
        assert "--prune" in message and "expected" in message or "floor" in message
    assert "0.95" in refused("jets", "--sweep", "prune-bits", "--prune", "0.1:floor=0.1")
    for weights in ("binary", "int2h", "palette4"):
        grid = refused("jets", "--weights", weights, "--prune", "0.5", "--float-epochs", 0, status=1)
        assert "no zero" in grid and "fc2.weight" in grid
    assert "'-1'" in refused("digits", "--epochs", "-1")
    assert "'-1'" in refused("digits", "--seed", "-1")
    (tmp_path / "file").write_text("")
    taken = crumb("train", "task", "digits", "-o", tmp_path / "file", status=1).stderr
    assert str(tmp_path / "file") in taken and "a file has that name" in taken
    missing = refused("digits", "--data-dir", tmp_path / "none", status=1)
    assert "digits.csv.gz" in missing and str(tmp_path / "none") in missing and "CRUMB_DATA" in missing
    grid = refused("digits", "--weights", "binary", "--accumulator", 12, status=1)
    assert "binary" in grid or "zero" in grid


def test_quantizing_without_training_refuses_what_is_for_training(crumb, networks, tmp_path):
    (tmp_path / "r.yaml").write_text("weights: int4\naccumulator: 12\n")
    model = networks / "mnist_conv_float.onnx"
    for flags in ([], ["--tensors-only"]):
        done = crumb("quantize", model, "-o", tmp_path / "o.crumb", "--recipe", tmp_path / "r.yaml", *flags, status=2)
        assert "training" in done.stderr and "12:a2q_plus" in done.stderr
    (tmp_path / "p.yaml").write_text("weights: int4\nprune: 0.5\n")
    done = crumb("quantize", model, "-o", tmp_path / "o.crumb", "--recipe", tmp_path / "p.yaml", status=2)
    assert "training" in done.stderr and "0.5:global" in done.stderr


def test_a_float_network_alone(crumb, engine, data, digits, tmp_path):
    """What is written computes what the report says, and is what crumb sweep takes."""
    runtime = pytest.importorskip("onnxruntime")
    out = tmp_path / "float"
    printed = crumb("train", "task", "digits", "--network", "cnn", "--float-only", "--float-epochs", 4, "-o", out, "--data-dir", data, "--json")
    report = json.loads(printed.stdout)
    assert {path.name for path in out.iterdir()} == {"float.onnx", "calibration.npy", "valid.npy", "labels.npy", "log.jsonl", "report.json"}
    assert report["float_epochs"] == 4 and len((out / "log.jsonl").read_text().splitlines()) == 4
    inputs, labels = np.load(out / "valid.npy"), np.load(out / "labels.npy")
    assert np.array_equal(inputs.reshape(digits[0].shape), digits[0]) and np.array_equal(labels, digits[1])
    session = runtime.InferenceSession(out / "float.onnx", providers=["CPUExecutionProvider"])
    scores = session.run(None, {session.get_inputs()[0].name: inputs})[0]
    assert (scores.argmax(1) == labels).mean() == pytest.approx(report["float"], abs=0.003)  # one of the 359 may be a draw
    crumb("sweep", out / "float.onnx", "--formats", "int8:channel", "--data", out / "calibration.npy", "--valid", out / "valid.npy", "--labels",
          out / "labels.npy", "-o", tmp_path / "swept")  # fmt: skip
    rows = json.loads((tmp_path / "swept/sweep.json").read_text())["rows"]
    assert rows[0]["scores"]["accuracy"] == pytest.approx(report["float"], abs=0.003) and not rows[1]["failed"]


@pytest.mark.parametrize(("flags", "said"), [(["--sweep", "bits"], "--sweep"), (["--epochs", 3], "--epochs"), (["--weights", "int4"], "--weights"),
                                             (["--profile", "finn"], "--profile"), (["--activations", "int4"], "--activations")])  # fmt: skip
def test_a_float_network_has_no_quantizers(crumb, tmp_path, flags, said):
    message = crumb("train", "task", "digits", "--float-only", "-o", tmp_path / "out", *flags, status=2).stderr
    assert said in message and "--float-only" in message
