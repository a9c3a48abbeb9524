"""crumb train graph of networks with several inputs and outputs: what each output learns, and what keeps it."""

import json

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

SAMPLES, FEATURES, CLASSES = 400, 6, 3

pytestmark = pytest.mark.usefixtures("engine")


def save(path, nodes, constants, inputs, outputs):
    """`inputs`, `outputs`: shapes by name, or types and shapes."""
    values = lambda named: [  # noqa: E731
        helper.make_tensor_value_info(n, *(s if isinstance(s, tuple) else (TensorProto.FLOAT, s))) for n, s in named.items()
    ]
    initializers = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "g", values(inputs), values(outputs), initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def node(op, inputs, output, **how):
    return helper.make_node(op, inputs.split(), output.split(), name=how.pop("name", output), **how)


def drawn(rng, *shape):
    return (rng.normal(size=shape) * 0.4).astype(np.float32)


@pytest.fixture
def heads(tmp_path):
    """A trunk with two heads, of an untrained class and of three values, and the index of the greatest class."""
    rng = np.random.default_rng(3)
    constants = {
        "trunk.weight": drawn(rng, 16, FEATURES), "trunk.bias": drawn(rng, 16), "deep.weight": drawn(rng, 16, 16), "deep.bias": drawn(rng, 16),
        "class.weight": drawn(rng, CLASSES, 16), "class.bias": drawn(rng, CLASSES), "box.weight": drawn(rng, 4, 16), "box.bias": drawn(rng, 4),
    }  # fmt: skip
    gemm = lambda x, name, y: node("Gemm", f"{x} {name}.weight {name}.bias", y, name=name, transB=1)  # noqa: E731
    nodes = [gemm("x", "trunk", "a"), node("Relu", "a", "b"), gemm("b", "deep", "c"), node("Relu", "c", "d"), gemm("d", "class", "class"),
             gemm("d", "box", "box"), node("ArgMax", "class", "best", axis=1, keepdims=0)]  # fmt: skip
    outputs = {"box": ["n", 4], "class": ["n", CLASSES], "best": (TensorProto.INT64, ["n"])}
    save(tmp_path / "net.onnx", nodes, constants, {"x": ["n", FEATURES]}, outputs)
    x = rng.normal(size=(SAMPLES, FEATURES)).astype(np.float32)
    labels = np.argmax(np.stack([x[:, :2].sum(1), x[:, 2:4].sum(1), x[:, 4:].sum(1)], 1), 1)
    boxes = np.tanh(x[:, :4] * x[:, 1:5]).astype(np.float32)
    for name, values in (("x", x), ("labels", labels), ("boxes", boxes)):
        np.save(tmp_path / f"{name}.npy", values)
    return constants


def train(crumb, tmp_path, *flags, status=0, out="out", data=("x.npy",)):
    given = [part for one in data for part in ("--data", one)]
    done = crumb("train", "graph", "net.onnx", *given, "-o", out, "--json", *flags, status=status, cwd=tmp_path)
    return (json.loads(done.stdout), done.stderr) if status == 0 else done.stderr


def run(crumb, tmp_path, model, outputs, **inputs):
    """What a model gives, by name."""
    given = []
    for name, value in inputs.items():
        np.save(tmp_path / f"in_{name}.npy", value)
        given += ["--input", f"{name}=in_{name}.npy"]
    crumb("run", model, *given, "--output-dir", "made", cwd=tmp_path)
    return [np.load(tmp_path / "made" / f"{name}.npy") for name in outputs]


HOW = ["--epochs", 12, "--rate", 0.01, "--weights", "int8:channel", "--activations", "uint8:tensor"]


def test_an_output_without_labels_gives_what_the_float_network_gives(crumb, heads, tmp_path):
    """Its head is not wrecked by what the trunk learns for the other output."""
    report, said = train(crumb, tmp_path, "--labels", "class=labels.npy", "--loss", "ce", *HOW)
    assert "note: output 'box' has no labels: it is held to what the float network gives" in said
    assert "output 'best' is int64: it learns nothing" in said
    assert any("'box'" in note for note in report["notes"])
    assert report["metric"] == "accuracy" and report["quantized"] > 0.85 > report["float"]
    by_name = {output["name"]: output for output in report["outputs"]}
    assert list(by_name) == ["class", "box"]
    held = by_name["box"]
    assert held["held"] and held["metric"] == "relative error" and held["float"] == pytest.approx(0, abs=1e-9)

    x = np.load(tmp_path / "x.npy")
    is_scored = np.arange(SAMPLES) % 5 == 4
    (before,) = run(crumb, tmp_path, "net.onnx", ["box"], x=x)
    (after,) = run(crumb, tmp_path, "out/model.crumb", ["box"], x=x)
    square = (before[~is_scored] ** 2).mean()
    lost = ((after - before)[is_scored] ** 2).mean() / square
    assert lost == pytest.approx(held["quantized"], rel=1e-3) and lost < 0.1

    let_go, said = train(crumb, tmp_path, "--labels", "class=labels.npy", "--loss", "ce", "--loss-weight", "box=0", *HOW, out="free")
    assert "output 'box' learns nothing" in said and "outputs" not in let_go
    (wrecked,) = run(crumb, tmp_path, "free/model.crumb", ["box"], x=x)
    assert ((wrecked - before)[is_scored] ** 2).mean() / square > 5 * lost


def divergence(logits, from_logits):
    """Mean over rows of KL(softmax(from_logits) || softmax(logits))."""
    p, q = (np.exp(x.astype(np.float64) - x.max(-1, keepdims=True)) for x in (from_logits, logits))
    p, q = p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)
    return (p * np.log(p / q)).sum(-1).mean()


def test_an_output_can_be_held_by_its_distributions(crumb, heads, tmp_path):
    """Its score is what numpy finds, and less than where it is let go."""
    how = ["--labels", "box=boxes.npy", "--loss", "box=mse", *HOW]
    report, said = train(crumb, tmp_path, *how, "--loss", "class=kl", out="kl")
    assert "'class' has no labels: it is held to what the float network gives (the divergence from its distributions" in said
    held = report["outputs"][1]
    assert (held["name"], held["metric"], held["held"]) == ("class", "kl", True) and held["float"] == pytest.approx(0, abs=1e-9)
    x = np.load(tmp_path / "x.npy")[4::5]
    (before,) = run(crumb, tmp_path, "net.onnx", ["class"], x=x)
    (after,) = run(crumb, tmp_path, "kl/model.crumb", ["class"], x=x)
    assert divergence(after, before) == pytest.approx(held["quantized"], rel=1e-3, abs=1e-7)
    train(crumb, tmp_path, *how, "--loss-weight", "class=0", out="free")
    (free,) = run(crumb, tmp_path, "free/model.crumb", ["class"], x=x)
    assert divergence(free, before) > 3 * divergence(after, before)
    # The axis that is named, and one that is none.
    same, _ = train(crumb, tmp_path, *how, "--loss", "class=kl:1", out="axis")
    assert same["outputs"][1]["quantized"] == held["quantized"]


@pytest.mark.parametrize(("loss", "status", "words"), [
    ("kl", 2, "name it"), ("box=kl", 2, "'box' has labels"), ("class=kl:x", 2, "expected NAME=kl:AXIS"), ("class=kl:-1", 2, "expected NAME=kl:AXIS"),
    ("class=kl:0", 1, "expected classes on another axis"), ("class=kl:2", 1, "found axis 2"),
])  # fmt: skip
def test_distributions_that_are_none(crumb, heads, tmp_path, loss, status, words):
    assert words in train(crumb, tmp_path, "--labels", "box=boxes.npy", "--loss", "box=mse", "--loss", loss, out="no", status=status)


def test_each_output_has_labels_a_loss_and_a_weight(crumb, heads, tmp_path):
    both = ["--labels", "class=labels.npy", "--labels", "box=boxes.npy", "--loss", "mse", "--loss", "class=ce"]
    report, said = train(crumb, tmp_path, *both, "--epochs", 30, *HOW[2:])
    assert "no labels" not in said
    box, classes = report["outputs"]  # in the order of the graph
    assert (box["metric"], classes["metric"]) == ("mse", "accuracy") == (report["metric"], "accuracy")
    assert box["quantized"] < 0.6 * box["float"] and classes["quantized"] > 0.85 > classes["float"]
    assert (report["float"], report["quantized"]) == (box["float"], box["quantized"])
    lines = [json.loads(line) for line in (tmp_path / "out/log.jsonl").read_text().splitlines()]
    assert lines[-1]["mse"] == box["quantized"] and lines[-1]["others"] == {"class": classes["quantized"]}

    x, boxes, labels = (np.load(tmp_path / f"{name}.npy")[4::5] for name in ("x", "boxes", "labels"))
    made_box, made_class = run(crumb, tmp_path, "out/model.crumb", ["box", "class"], x=x)
    assert ((made_box - boxes) ** 2).mean() == pytest.approx(box["quantized"], rel=1e-3)
    assert (made_class.argmax(1) == labels).mean() == pytest.approx(classes["quantized"], abs=1e-6)

    light, _ = train(crumb, tmp_path, *both, *HOW, "--loss-weight", "box=0.001", out="light")
    heavy, _ = train(crumb, tmp_path, *both, *HOW, "--loss-weight", "box=30", out="heavy")
    assert heavy["outputs"][0]["weight"] == 30
    assert heavy["outputs"][0]["quantized"] < light["outputs"][0]["quantized"]


def test_the_printed_table_has_a_column_for_each_output(crumb, heads, tmp_path):
    done = crumb("train", "graph", "net.onnx", "--data", "x.npy", "--labels", "class=labels.npy", "--loss", "ce", "-o", "out", "--epochs", 1,
                 "--float-longer", "off", cwd=tmp_path)  # fmt: skip
    head, *rows = [line for line in done.stdout.splitlines() if line.startswith(("network ", "float", "quantized"))]
    assert head.split("  ")[-1].strip() == "box: relative error (held)" and "class: accuracy" in head
    assert [row.split()[0] for row in rows] == ["float", "quantized"], done.stdout
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["float_longer"] is None and report["outputs"][1]["float_longer"] is None
    phases = {json.loads(line)["phase"] for line in (tmp_path / "out/log.jsonl").read_text().splitlines()}
    assert phases == {"quantized"}


def test_without_the_longer_float_network_the_quantized_one_is_the_same(crumb, heads, tmp_path):
    how = ["--labels", "class=labels.npy", "--loss", "ce", "--epochs", 2, "--float-epochs", 1]
    with_it, _ = train(crumb, tmp_path, *how)
    without, _ = train(crumb, tmp_path, *how, "--float-longer", "off", out="off")
    assert without.pop("float_longer") is None and isinstance(with_it.pop("float_longer"), float)
    assert (tmp_path / "out/model.crumb").read_bytes() == (tmp_path / "off/model.crumb").read_bytes()
    assert "--float-longer" in train(crumb, tmp_path, *how, "--float-longer", "no", status=2)


@pytest.mark.parametrize(("flags", "status", "says"), [
    (["--labels", "clas=labels.npy", "--loss", "ce"], 2, "did you mean 'class'"),
    (["--labels", "labels.npy", "--labels", "box=labels.npy", "--loss", "ce"], 2, "gives output 'box' twice"),
    (["--labels", "class=labels.npy", "--loss", "box=mse"], 2, "output 'box' has no labels: give --labels box=FILE.npy"),
    (["--labels", "class=labels.npy", "--labels", "box=boxes.npy", "--loss", "class=ce"], 2, "output 'box' has labels, but no loss"),
    (["--labels", "class=labels.npy", "--loss", "ce", "--loss", "mse"], 2, "--loss 'mse' stands there twice"),
    (["--labels", "class=labels.npy", "--loss", "ce", "--loss-weight", "box=-1"], 2, "a number from 0 to 1000000"),
    (["--labels", "class=labels.npy", "--loss", "ce", "--loss-weight", "2"], 2, "expected NAME=NUMBER"),
    (["--labels", "class=labels.npy", "--loss", "ce", "--loss-weight", "class=0"], 2, "has labels, which would teach nothing"),
    (["--labels", "class=labels.npy", "--loss", "ce", "--batch-axis", "box=2"], 2, "and no axis 2"),
    (["--labels", "class=labels.npy", "--loss", "ce", "--batch-axis", "box"], 2, "expected NAME=AXIS, as in h0=1"),
    (["--labels", "class=labels.npy", "--loss", "ce", "--batch-axis", "box=1"], 1, "expected samples along axis 1"),
    (["--labels", "class=labels.npy", "--loss", "ce", "--valid", "x.npy", "box=boxes.npy"], 2, "input, or output with labels, 'box'"),
    (["--labels", "class=boxes.npy", "--loss", "mse"], 1, "which output 'class' of 'net' gives"),
])  # fmt: skip
def test_what_does_not_go_together_is_refused(crumb, heads, tmp_path, flags, status, says):
    assert says in train(crumb, tmp_path, *flags, status=status)
    assert not (tmp_path / "out" / "report.json").exists()


def test_validation_of_one_of_several_outputs(crumb, heads, tmp_path):
    np.save(tmp_path / "vx.npy", np.load(tmp_path / "x.npy")[:50])
    np.save(tmp_path / "vy.npy", np.load(tmp_path / "labels.npy")[:50])
    how = ["--labels", "class=labels.npy", "--loss", "ce", "--epochs", 1]
    report, _ = train(crumb, tmp_path, *how, "--valid", "vx.npy", "vy.npy")
    named, _ = train(crumb, tmp_path, *how, "--valid", "class=vy.npy", "x=vx.npy", out="named")
    assert report["outputs"] == named["outputs"]
    both = [*how, "--labels", "box=boxes.npy", "--loss", "box=mse"]
    three = ["--valid", "box=vb.npy", "--valid", "x=vx.npy", "--valid", "class=vy.npy"]
    np.save(tmp_path / "vb.npy", np.load(tmp_path / "boxes.npy")[:50])
    assert [output["held"] for output in train(crumb, tmp_path, *both, *three, out="three")[0]["outputs"]] == [False, False]
    assert "NAME=FILE.npy for each" in train(crumb, tmp_path, *both, "--valid", "vx.npy", "vy.npy", status=2)
