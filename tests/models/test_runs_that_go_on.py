"""A run of `crumb train lm` or `crumb recover` that was cut off goes on as what it was, and predictions that were kept are of one network
and one text: what differs is refused by its name, whatever it is that was left out of the command beside."""

import json
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
tiny = pytest.importorskip("tiny_decoders")
safetensors = pytest.importorskip("safetensors.numpy")
pytestmark = pytest.mark.usefixtures("engine")
SPECS = ["--weights", "int2h:group=16", "--embeddings", "int8"]
HOW = ["--length", 24, "--threads", 1, "--products", "f32", "--batch", 2]


def louder(folder, to):
    """The same model with other numbers."""
    shutil.copytree(folder, to)
    (file,) = to.glob("*.safetensors")
    tensors = safetensors.load_file(file)
    safetensors.save_file({name: values if values.ndim < 2 else values * np.float32(1.25) for name, values in tensors.items()}, file)


@pytest.fixture(scope="module")
def made(tmp_path_factory, crumb):
    work = tmp_path_factory.mktemp("go_on")
    tiny.make("llama3", work / "model")
    louder(work / "model", work / "other")
    tiny.write_texts(work)
    words = (work / "train.txt").read_text().split()
    np.random.default_rng(1).shuffle(words)
    (work / "words.txt").write_text(" ".join(words))
    for name in ("model", "other"):
        crumb("quantize", work / name, "-o", work / f"{name}.crumb", *SPECS)
    return work


def rate(flags):
    return [] if "--stages" in flags else ["--rate", 1e-3]


def train(made, out, *flags, model="model", data="train.txt"):
    return ["train", "lm", "--model", made / model, "--data", made / data, "-o", out, *SPECS, *HOW, *rate(flags), *flags]


def recover(made, out, *flags, base="model.crumb", model="model", data="train.txt"):
    return ["recover", made / base, "--baseline", made / model, "--data", made / data, "-o", out, "--rank", 4, *HOW, *rate(flags), *flags]


def cut_off(crumb_bin, out, arguments):
    process = subprocess.Popen([str(part) for part in (crumb_bin, *arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (out / "checkpoint.state").exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    assert (out / "checkpoint.state").exists() and not (out / "model.crumb").exists()


def test_training_of_something_else_does_not_go_on(crumb, crumb_bin, made, tmp_path):
    out = tmp_path / "out"
    how = ["--steps", 400, "--checkpoint-every", 4]
    cut_off(crumb_bin, out, train(made, out, *how, "--start", made / "model.crumb"))
    for what, flags, change in (("text", [], {"data": "words.txt"}), ("valid", ["--valid", made / "valid.txt"], {}), ("network", [], {"model": "other"}),
                                ("start", None, {}), ("start", ["--start", made / "other.crumb"], {})):  # fmt: skip
        more = [] if flags is None else [*flags, *([] if "--start" in flags else ["--start", made / "model.crumb"])]
        said = crumb(*train(made, out, *how, *more, **change), status=2).stderr
        assert f"an unfinished run of another kind lies there: its {what} is" in said, (what, said)


def test_a_state_in_which_a_bit_turned_is_refused(crumb, crumb_bin, made, tmp_path):
    """Wherever it is: LibTorch's archives would be read as they are."""
    out = tmp_path / "out"
    how = train(made, out, "--steps", 400, "--checkpoint-every", 4)
    cut_off(crumb_bin, out, how)
    state = out / "checkpoint.state"
    whole = state.read_bytes()
    random = np.random.default_rng(5)
    for place in [*random.integers(0, len(whole), 12), len(whole) - 1]:
        turned = bytearray(whole)
        turned[place] ^= 1 << random.integers(0, 8)
        state.write_bytes(turned)
        assert "is damaged, or of another version" in crumb(*how, status=1).stderr
        assert state.read_bytes() == turned
    state.write_bytes(whole[:-9])
    assert "is damaged, or of another version" in crumb(*how, status=1).stderr
    crumb(*how, "--restart")


def test_stages_of_something_else_do_not_go_on(crumb, crumb_bin, made, tmp_path):
    """The codes that a run begins with lie in its folder: they are those of its own stages."""
    out = tmp_path / "out"
    end = "end_to_end:steps=400:rate=0.001"
    how = ["--checkpoint-every", 4]
    cut_off(crumb_bin, out, train(made, out, *how, "--stages", f"low_rank:rank=4,{end}"))
    for stages in (f"gptq,{end}", f"low_rank:rank=2,{end}", end):
        said = crumb(*train(made, out, *how, "--stages", stages), status=2).stderr
        assert "an unfinished run of another kind lies there: its s" in said, said  # stages, or the start


def test_a_report_says_by_which_stages(crumb, made, tmp_path):
    report = json.loads(crumb(*train(made, tmp_path / "out", "--json", "--stages", "low_rank:rank=4,end_to_end:steps=2:rate=0.001")).stdout)
    assert report["stages"] == "low_rank:rank=4"


def test_a_file_says_everything_that_made_it(crumb, made, tmp_path):
    """Which crumb recover goes by: an adapter that begins with each matrix' error is of codes of the baseline's own."""
    crumb("quantize", made / "model", "-o", tmp_path / "gptq.crumb", *SPECS, "--stages", "gptq", "--data", made / "train.txt", "--tokens", 512)
    crumb(*train(made, tmp_path / "a", "--start", tmp_path / "gptq.crumb", "--steps", 2))
    assert b"stages: [gptq, end_to_end:steps=2:rate=0.001]" in (tmp_path / "a/model.crumb").read_bytes()
    for init in ("svd", "whitened"):
        crumb(*recover(made, tmp_path / "r", "--steps", 0, "--init", init, base=tmp_path / "gptq.crumb"))
        said = crumb(*recover(made, tmp_path / "s", "--steps", 0, "--init", init, base=tmp_path / "a/model.crumb"), status=2).stderr
        assert "the stage end_to_end" in said and "none of the baseline's" in said


def test_recovery_of_something_else_does_not_go_on(crumb, crumb_bin, made, tmp_path):
    out = tmp_path / "out"
    how = ["--steps", 400, "--checkpoint-every", 4]
    cut_off(crumb_bin, out, recover(made, out, *how))
    for what, change in (("text", {"data": "words.txt"}), ("base", {"base": "other.crumb"}), ("network", {"model": "other"})):
        said = crumb(*recover(made, out, *how, **change), status=2).stderr
        assert f"an unfinished run of another kind lies there: its {what} is" in said, (what, said)


def test_predictions_are_of_one_network_and_one_text(crumb, made, tmp_path):
    kept = ["--teacher-logits", tmp_path / "kept.safetensors", "--steps", 3]
    crumb(*recover(made, tmp_path / "a", *kept))
    for what, change in (("text", {"data": "words.txt"}), ("network", {"model": "other", "base": "other.crumb"})):
        said = crumb(*recover(made, tmp_path / "b", *kept, **change), status=2).stderr
        assert f"holds predictions of another kind: its {what} is" in said, said
    assert "its text is" in crumb(*train(made, tmp_path / "c", *kept, data="words.txt"), status=2).stderr
    without = [part for part in recover(made, tmp_path / "d", *kept) if part not in ("--baseline", made / "model")]
    crumb(*without)  # the file stands for the network
    assert (tmp_path / "d/log.jsonl").read_text() == (tmp_path / "a/log.jsonl").read_text()


def test_a_person_who_stops_the_last_measurement_loses_no_step(crumb, crumb_bin, made, tmp_path):
    """All steps are done and the finished network is measured: what was learned is kept."""
    (tmp_path / "long.txt").write_text((made / "valid.txt").read_text() * 60)
    how = ["--steps", 3, "--valid", tmp_path / "long.txt"]
    crumb(*train(made, tmp_path / "whole", *how))
    out = tmp_path / "cut"
    for _ in range(8):  # until one was stopped behind its steps
        shutil.rmtree(out, ignore_errors=True)
        process = subprocess.Popen([str(part) for part in (crumb_bin, *train(made, out, *how, "--checkpoint-every", 3))], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)  # fmt: skip
        while not (out / "checkpoint.state").exists() and process.poll() is None:  # behind step 3
            time.sleep(0.005)
        (out / "checkpoint.state").unlink(missing_ok=True)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        if process.returncode == 130:
            break
    else:
        pytest.skip("the measurement was done each time before it could be stopped")
    assert (out / "checkpoint.state").exists()
    crumb(*train(made, out, *how, "--checkpoint-every", 3))
    assert (out / "model.crumb").read_bytes() == (tmp_path / "whole/model.crumb").read_bytes()


def test_states_are_compared_in_one_basis(crumb, made, tmp_path):
    """A rotation turns what goes from layer to layer, which the float network does not."""
    rotated = tmp_path / "rotated.crumb"
    crumb("quantize", made / "model", "-o", rotated, *SPECS, "--stages", "rotate")
    turned = "the stage rotate changes what goes from layer to layer"
    for loss in ("hidden", "mix"):
        assert turned in crumb(*recover(made, tmp_path / "r", "--loss", loss, "--steps", 1, base=rotated), status=2).stderr
        assert turned in crumb(*train(made, tmp_path / "t", "--loss", loss, "--start", rotated, "--steps", 1), status=2).stderr
    assert turned in crumb(*train(made, tmp_path / "t", "--start", rotated, "--steps", 1, "--block-wise", 1), status=2).stderr
    stages = "rotate,gptq,block_wise:passes=1,end_to_end:steps=1"
    assert turned in crumb(*train(made, tmp_path / "t", "--stages", stages), status=2).stderr
    crumb(*train(made, tmp_path / "t", "--stages", "rotate,end_to_end:steps=1:rate=0.001"))
    assert turned in crumb(*recover(made, tmp_path / "r", "--loss", "hidden", "--steps", 1, base=tmp_path / "t/model.crumb"), status=2).stderr
    crumb(*recover(made, tmp_path / "r", "--steps", 1, base=rotated))
    crumb(*train(made, tmp_path / "s", "--stages", "rotate:streams=off,block_wise:passes=1:sequences=4,end_to_end:steps=1:rate=0.001"))


@pytest.mark.parametrize("activations", ["int8:token", "int8:tensor"])
@pytest.mark.parametrize("more", [[], ["--learn-adapters"]])
def test_adapters_beside_layers_that_take_codes(crumb, made, tmp_path, activations, more):
    """They take what the layer takes, and stay adapters: quantizers stand before the product and nowhere inside."""
    onnx = pytest.importorskip("onnx")
    crumb("quantize", made / "model", "-o", tmp_path / "start.crumb", *SPECS, "--stages", "low_rank:rank=2")
    crumb(*train(made, tmp_path / "out", "--start", tmp_path / "start.crumb", "--activations", activations, "--steps", 2, "--valid", made / "valid.txt", *more))
    crumb("merge", tmp_path / "out/model.crumb", "-o", tmp_path / "merged")
    measured = ["--text", made / "valid.txt", "--context", 24, "--json"]
    with_it, without = (json.loads(crumb("perplexity", tmp_path / "out/model.crumb", *measured, *flags).stdout)["perplexity"]
                        for flags in ([], ["--without-adapters"]))  # fmt: skip
    assert with_it != without
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert with_it == pytest.approx(report["quantized"], rel=2e-2)  # values that lie at a border between two codes
    crumb("export", tmp_path / "out/model.crumb", "-o", tmp_path / "m.onnx", "--to", "qonnx")
    graph = onnx.load(tmp_path / "m.onnx", load_external_data=False).graph
    maker = {value: node for node in graph.node for value in node.output}
    shapes = {constant.name: list(constant.dims) for constant in graph.initializer}
    products = [node for node in graph.node if node.op_type == "MatMul"]
    downs = [node for node in products if len(shapes.get(node.input[1], [])) == 2 and shapes[node.input[1]][1] == 2]
    ups = [node for node in products if len(shapes.get(node.input[1], [])) == 2 and shapes[node.input[1]][0] == 2]
    assert len(downs) == len(ups) >= 3 * 7
    assert {maker[node.input[0]].op_type for node in downs} == {"Quant"}
    assert {maker[node.input[0]].op_type for node in ups} <= {"MatMul", "Mul"}  # a scale of 1 needs none


@pytest.mark.parametrize("type", ["f32", "bf16", "int8"])
@pytest.mark.parametrize("more", [[], ["--learn-adapters"]])
def test_layers_by_themselves_with_adapters_of_any_type(crumb, made, tmp_path, type, more):
    crumb(*recover(made, tmp_path / "r", "--steps", 4, "--type", type))
    before = tmp_path / "r/model.crumb"
    crumb(*train(made, tmp_path / "out", "--start", before, "--block-wise", 2, "--block-sequences", 8, "--steps", 0, *more))
    for name, file in (("a", before), ("b", tmp_path / "out/model.crumb")):
        crumb("dequantize", file, "-o", tmp_path / f"{name}.safetensors")
    a, b = (safetensors.load_file(tmp_path / f"{name}.safetensors") for name in "ab")
    matrices = [name for name in a if name.endswith((".lora_A", ".lora_B"))]
    moved = [name for name in matrices if not np.array_equal(a[name], b[name])]
    assert len(matrices) >= 2 * 21 and (len(moved) >= 2 * 20 if more else not moved)
