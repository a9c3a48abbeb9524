"""crumb train graph MODEL.onnx: a network from a file, trained on arrays from files."""

import json

import numpy as np
import pytest

SAMPLES, FEATURES, CLASSES = 400, 6, 3

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def onnx():
    return pytest.importorskip("onnx")


def save(onnx, path, nodes, constants, x, y):
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in x.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def mlp(onnx, path, outputs=CLASSES, batch="n", softmax=False, inputs=1, alpha=1.0):
    """An untrained network behind a normalisation, as torch.onnx writes them."""
    from onnx import helper

    rng = np.random.default_rng(3)
    draw = lambda *shape: rng.normal(size=shape, scale=0.4).astype(np.float32)  # noqa: E731
    constants = {
        "mean": np.full(FEATURES, 5, np.float32),
        "std": np.full(FEATURES, 2, np.float32),
        "fc1.weight": draw(16, FEATURES),
        "fc1.bias": draw(16),
        "fc2.weight": draw(16, 16),
        "fc2.bias": draw(16),
        "fc3.weight": draw(outputs, 16),
        "fc3.bias": draw(outputs),
    }
    nodes = [
        helper.make_node("Sub", ["x", "mean"], ["a0"]),
        helper.make_node("Div", ["a0", "std"], ["a1"]),
        helper.make_node("Gemm", ["a1", "fc1.weight", "fc1.bias"], ["a2"], name="fc1", transB=1),
        helper.make_node("Relu", ["a2"], ["a3"]),
        helper.make_node("Gemm", ["a3", "fc2.weight", "fc2.bias"], ["a4"], name="fc2", transB=1, alpha=alpha),
        helper.make_node("Relu", ["a4"], ["a5"]),
        helper.make_node("Gemm", ["a5", "fc3.weight", "fc3.bias"], ["a6"], name="fc3", transB=1),
        helper.make_node("Softmax", ["a6"], ["y"], axis=1) if softmax else helper.make_node("Identity", ["a6"], ["y"]),
    ]
    x = {"x": [batch, FEATURES]}
    if inputs == 2:
        x["other"] = [batch, 16]
        nodes[-1] = helper.make_node("Gemm", ["other", "fc3.weight"], ["y"], transB=1)
    save(onnx, path, nodes, constants, x, [batch, outputs])
    return constants


@pytest.fixture
def samples(tmp_path):
    rng = np.random.default_rng(7)
    x = (rng.normal(size=(SAMPLES, FEATURES)) * 2 + 5).astype(np.float32)
    centred = (x - 5) / 2
    labels = np.argmax(np.stack([centred[:, :2].sum(1), centred[:, 2:4].sum(1), centred[:, 4:].sum(1)], 1), 1)
    values = np.tanh(centred[:, 0] + centred[:, 1] * centred[:, 2]).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "labels.npy", labels.astype(np.int64))
    np.save(tmp_path / "values.npy", values)
    return x, labels, values


def train(crumb, tmp_path, *extra, labels="labels.npy", loss="ce", status=0, out="out"):
    done = crumb(
        "train", "graph", tmp_path / "net.onnx", "--data", tmp_path / "x.npy", "--labels", tmp_path / labels,
        "--loss", loss, "-o", tmp_path / out, "--json", *extra, status=status,
    )  # fmt: skip
    return json.loads(done.stdout) if status == 0 else done.stderr


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("softmax", [False, True])
def test_classes(crumb, onnx, samples, tmp_path, softmax):
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.core.onnx_exec import execute_onnx

    before = mlp(onnx, tmp_path / "net.onnx", softmax=softmax)
    report = train(crumb, tmp_path, "--epochs", 30, "--rate", 0.01, "--accumulator", "12:a2q_plus")
    assert report["task"] == "own" and report["network"] == "net" and report["metric"] == "accuracy"
    assert "miniature_of" not in report
    assert report["quantized"] > 0.85 > report["float"]
    assert report["float_longer"] > 0.85  # by the same epochs, without quantizers
    for file in ("model.onnx", "model.crumb"):
        crumb("verify", tmp_path / "out" / file, "--accumulator", 12)

    # What normalises is what it was; the float weights are those of the file, under their names.
    constants = {c.name: onnx.numpy_helper.to_array(c) for c in onnx.load(tmp_path / "out/model.onnx").graph.initializer}
    assert any(np.array_equal(c, before["mean"]) for c in constants.values())
    from safetensors.numpy import load_file

    kept = load_file(tmp_path / "out/float.safetensors")
    assert set(kept) == {n for n in before if n.startswith("fc")}
    assert np.array_equal(kept["fc2.weight"], before["fc2.weight"])

    # Every fifth sample is held out: the score is theirs, here and in qonnx.
    x, labels, _ = samples
    held_out, wanted = x[4::5], labels[4::5]
    np.save(tmp_path / "held_out.npy", held_out)
    crumb("run", tmp_path / "out/model.crumb", "--input", tmp_path / "held_out.npy", "--output", tmp_path / "y.npy")
    ours = np.load(tmp_path / "y.npy").argmax(1)
    assert (ours == wanted).mean() == pytest.approx(report["quantized"], abs=1e-6)
    crumb("export", tmp_path / "out/model.crumb", "-o", tmp_path / "whole.onnx", "--to", "qonnx", "--shape",
          f"x={len(held_out)}x{FEATURES}")  # fmt: skip
    wrapper = ModelWrapper(str(tmp_path / "whole.onnx"))
    theirs = next(iter(execute_onnx(wrapper, {wrapper.graph.input[0].name: held_out}).values())).argmax(1)
    assert (theirs == ours).all()


@pytest.mark.parametrize("flags,says", [
    (["--weights", "int4:group=5"], "a group of 5 does not divide"), (["--weights", "int4", "--learned-bits", "0.1bpw"], "cannot be kept"),
    (["--weights", "palette3", "--prune", 0.5], "is to be pruned"), (["--weights", "int4:channel:zero=int", "--accumulator", 12], "accumulator"),
    (["--set", "*none*=int4"], "matches none of"), (["--accumulator", 12, "--activations", "keep"], "has no quantizer")])  # fmt: skip
def test_a_recipe_that_does_not_fit_is_said_before_anything_learns(crumb, onnx, samples, tmp_path, flags, says):
    mlp(onnx, tmp_path / "net.onnx")
    command = ["train", "graph", tmp_path / "net.onnx", "--data", tmp_path / "x.npy", "--labels", tmp_path / "labels.npy", "--loss", "ce", "-o", tmp_path / "out"]
    done = crumb(*command, "--float-epochs", 10**6, *flags, status=None, timeout=60)
    assert done.returncode in (1, 2) and says in done.stderr, done.stderr
    assert not (tmp_path / "out/checkpoint.state").exists()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", ["data", "labels", "valid"])
def test_numbers_that_are_none_are_named_by_file_and_index(crumb, onnx, samples, tmp_path, which, value):
    mlp(onnx, tmp_path / "net.onnx", outputs=1)
    x, _, values = samples
    np.save(tmp_path / "vx.npy", x[:50])
    np.save(tmp_path / "vy.npy", values[:50])
    name, flag = {"data": ("x.npy", "--data"), "labels": ("values.npy", "--labels"), "valid": ("vy.npy", "--valid")}[which]
    wrong = np.load(tmp_path / name)
    wrong.reshape(-1)[9] = value
    np.save(tmp_path / name, wrong)
    said = train(crumb, tmp_path, "--valid", tmp_path / "vx.npy", tmp_path / "vy.npy", labels="values.npy", loss="mse", status=1)
    assert flag in said and name in said and f"holds {value} at index 9 of [" in said, said


def test_labels_of_which_nothing_counts(crumb, onnx, samples, tmp_path):
    mlp(onnx, tmp_path / "net.onnx")
    x, labels, _ = samples
    np.save(tmp_path / "labels.npy", np.full_like(labels, -100))
    assert "none of the 320 labels to train by counts" in train(crumb, tmp_path, status=1)
    np.save(tmp_path / "labels.npy", labels)
    np.save(tmp_path / "vx.npy", x[:50])
    np.save(tmp_path / "vy.npy", np.full(50, -100))
    said = train(crumb, tmp_path, "--valid", tmp_path / "vx.npy", tmp_path / "vy.npy", status=1)
    assert "vy.npy" in said and "none of the 50 labels to score by counts" in said
    some = labels.copy()  # batches of which nothing counts, by chance
    some[np.arange(SAMPLES) % 40 != 0] = -100
    some[4] = labels[4]
    np.save(tmp_path / "labels.npy", some)
    report = train(crumb, tmp_path, "--epochs", 2, "--batch", 4)
    assert 0 <= report["quantized"] <= 1


def test_a_network_of_which_nothing_learns(crumb, onnx, samples, tmp_path):
    from onnx import helper

    save(onnx, tmp_path / "net.onnx", [helper.make_node("Relu", ["x"], ["y"])], {}, {"x": ["n", FEATURES]}, ["n", FEATURES])
    assert "nothing of it learns" in train(crumb, tmp_path, status=1)


@pytest.mark.parametrize("flags", [
    ["--rate", 0.1], ["--prune", 0.5], ["--learned-bits", "3bpw"], ["--scales", "free"], ["--set", "fc1=int4"], ["--include", "fc1"], ["--exclude", "fc1"],
    ["--inputs", "int8"], ["--biases", "int16"], ["--batch-norm", "keep"], ["--embeddings", "int8"], ["--zstd", 3], ["--all-layers"], ["--seeds", 2],
    ["--weights", "int4"], ["--accumulator", 12], ["--epochs", 2], ["--kv-cache", "int8"]])  # fmt: skip
def test_a_float_network_has_no_quantizers(crumb, onnx, samples, tmp_path, flags):
    mlp(onnx, tmp_path / "net.onnx")
    said = train(crumb, tmp_path, "--float-only", "--float-epochs", 1, *flags, status=2)
    assert f"{flags[0]} is for networks with quantizers, found --float-only" in said


def test_flags_of_other_networks_and_of_grids(crumb, onnx, samples, tmp_path):
    mlp(onnx, tmp_path / "net.onnx")
    assert "--data-dir is a flag of crumb train task, and not of crumb train graph" in train(crumb, tmp_path, "--data-dir", tmp_path, status=2)
    assert "--seeds is of a grid of runs" in train(crumb, tmp_path, "--seeds", 2, status=2)
    (tmp_path / "net.onnx").rename(tmp_path / "other.onnx")
    said = crumb("train", "net.nosuch", "--data", tmp_path / "x.npy", "--labels", tmp_path / "labels.npy", "-o", tmp_path / "o", status=2).stderr
    assert "there is no task and no file 'net.nosuch'" in said


@pytest.mark.parametrize("alpha", [0.5, -2.0])
def test_a_product_with_a_factor_keeps_its_accumulator(crumb, onnx, samples, tmp_path, alpha):
    """QONNX has it in three nodes, the packed file in one."""
    mlp(onnx, tmp_path / "net.onnx", alpha=alpha)
    train(crumb, tmp_path, "--epochs", 3, "--accumulator", "12:a2q_plus")
    for file in ("model.onnx", "model.crumb"):
        said = crumb("verify", tmp_path / "out" / file, "--accumulator", 12).stdout
        assert "fc2" in said or "MatMul" in said


@pytest.mark.parametrize("first", [False, True])
def test_a_half_of_the_network_in_float16_is_kept(crumb, onnx, samples, tmp_path, first):
    """In the packed file; QONNX has float32 there, and computes the same to half precision."""
    from onnx import helper
    qonnx = pytest.importorskip("qonnx.core.onnx_exec")
    from qonnx.core.modelwrapper import ModelWrapper

    rng = np.random.default_rng(5)
    half, single = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT
    gemms = [helper.make_node("Gemm", ["a", "w"], ["b"], name="fc1"), helper.make_node("Gemm", ["d", "v"], ["e"], name="fc2")]
    if first:
        nodes = [helper.make_node("Cast", ["x"], ["a"], to=half), gemms[0], helper.make_node("Cast", ["b"], ["c"], to=single),
                 helper.make_node("Relu", ["c"], ["d"]), gemms[1], helper.make_node("Identity", ["e"], ["y"])]  # fmt: skip
    else:
        nodes = [helper.make_node("Identity", ["x"], ["a"]), gemms[0], helper.make_node("Relu", ["b"], ["d"]), gemms[1],
                 helper.make_node("Cast", ["e"], ["f"], to=half), helper.make_node("Add", ["f", "bias"], ["g"]), helper.make_node("Cast", ["g"], ["y"], to=single)]  # fmt: skip
    constants = {"w": rng.normal(size=(FEATURES, 16)).astype(np.float16 if first else np.float32), "v": rng.normal(size=(16, CLASSES)).astype(np.float32)}
    if not first:
        constants["bias"] = np.zeros(CLASSES, np.float16)
    save(onnx, tmp_path / "net.onnx", nodes, constants, {"x": ["n", FEATURES]}, ["n", CLASSES])
    train(crumb, tmp_path, "--epochs", 2)
    x = rng.normal(size=(1, FEATURES)).astype(np.float32)
    np.save(tmp_path / "one.npy", x)
    crumb("run", tmp_path / "out/model.crumb", "--input", tmp_path / "one.npy", "--output", tmp_path / "y.npy")
    model = ModelWrapper(str(tmp_path / "out/model.onnx"))
    (found,) = qonnx.execute_onnx(model, {model.graph.input[0].name: x}).values()
    expected = np.load(tmp_path / "y.npy")
    assert np.abs(found - expected).max() <= 2**-9 * np.abs(expected).max()


def test_values_and_a_batch_of_one_in_the_file(crumb, onnx, samples, tmp_path):
    mlp(onnx, tmp_path / "net.onnx", outputs=1, batch=1)
    report = train(crumb, tmp_path, "--epochs", 30, "--rate", 0.01, labels="values.npy", loss="mse")
    assert report["metric"] == "mse"
    assert 0 <= report["quantized"] < 0.5 * report["float"] and 0 <= report["float_longer"] < 0.5 * report["float"]


def test_own_validation_and_float_epochs(crumb, onnx, samples, tmp_path):
    mlp(onnx, tmp_path / "net.onnx")
    x, labels, _ = samples
    np.save(tmp_path / "vx.npy", x[:50])
    np.save(tmp_path / "vy.npy", labels[:50].astype(np.uint8)[:, None])
    valid = ["--valid", tmp_path / "vx.npy", tmp_path / "vy.npy"]
    report = train(crumb, tmp_path, *valid, "--epochs", 3, "--float-epochs", 20, "--batch", 16)
    assert report["float"] > 0.8 and report["float"] * 50 == pytest.approx(round(report["float"] * 50))
    again = train(crumb, tmp_path, *valid, "--epochs", 3, "--float-epochs", 20, "--batch", 16, out="again")
    assert (tmp_path / "out/model.crumb").read_bytes() == (tmp_path / "again/model.crumb").read_bytes()
    assert again["quantized"] == report["quantized"]


def test_scores_of_every_step_by_a_recurrent_layer(crumb, onnx, tmp_path):
    from onnx import helper

    rng = np.random.default_rng(1)
    draw = lambda *shape: rng.normal(size=shape, scale=0.4).astype(np.float32)  # noqa: E731
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["t", "w", "r", "b"], ["h", "", ""], name="lstm", hidden_size=8),
        helper.make_node("Squeeze", ["h", "one"], ["s"]),
        helper.make_node("Transpose", ["s"], ["u"], perm=[1, 0, 2]),
        helper.make_node("MatMul", ["u", "fc"], ["y"]),
    ]
    constants = {"w": draw(1, 32, 2), "r": draw(1, 32, 8), "b": draw(1, 64), "fc": draw(8, 2), "one": np.array([1])}
    save(onnx, tmp_path / "net.onnx", nodes, constants, {"x": ["n", 7, 2]}, ["n", 7, 2])
    x = rng.normal(size=(200, 7, 2)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "labels.npy", (x.sum(2).cumsum(1) > 0).astype(np.int32))
    report = train(crumb, tmp_path, "--epochs", 20, "--rate", 0.02)
    assert report["quantized"] > 0.8
    ops = {n.op_type for n in onnx.load(tmp_path / "out/model.onnx").graph.node}
    assert "LSTM" not in ops and "Sigmoid" in ops and "Quant" in ops


def test_what_does_not_fit_is_told(crumb, onnx, samples, tmp_path):
    x, labels, values = samples
    mlp(onnx, tmp_path / "net.onnx")
    np.save(tmp_path / "short.npy", labels[:-3])
    assert "397" in train(crumb, tmp_path, labels="short.npy", status=1)
    np.save(tmp_path / "wrong.npy", labels + 1)
    assert "class 3, expected 0 to 2" in train(crumb, tmp_path, labels="wrong.npy", status=1)
    assert "whole numbers" in train(crumb, tmp_path, labels="values.npy", status=1)
    assert "[400, 2]" in train_with(crumb, tmp_path, np.stack([labels, labels], 1), "ce")
    assert "outputs of shape" in train_with(crumb, tmp_path, values, "mse")
    assert "--loss" in train(crumb, tmp_path, loss="hinge", status=2)
    assert "needs --loss" in crumb(
        "train", "graph", tmp_path / "net.onnx", "--data", tmp_path / "x.npy", "--labels", tmp_path / "labels.npy",
        "-o", tmp_path / "o", status=2,
    ).stderr  # fmt: skip
    assert "--data is a flag of crumb train graph" in crumb("train", "task", "jets", "--data", tmp_path / "x.npy", "-o", tmp_path / "o", status=2).stderr
    np.save(tmp_path / "x.npy", x.astype(np.float64))
    assert "found double" in train(crumb, tmp_path, status=1)
    np.save(tmp_path / "x.npy", x[:, :4])
    assert "expected" in train(crumb, tmp_path, status=1)
    mlp(onnx, tmp_path / "net.onnx", inputs=2)
    assert "takes 2 inputs" in train(crumb, tmp_path, status=2)
    assert not (tmp_path / "out" / "report.json").exists()


@pytest.mark.parametrize("place", [7, 9, 399])  # 9 and 399 are held out
def test_a_wrong_label_is_named_as_its_file_has_it(crumb, onnx, samples, tmp_path, place):
    x, labels, _ = samples
    mlp(onnx, tmp_path / "net.onnx")
    labels[place] = 5
    np.save(tmp_path / "wrong.npy", labels)
    message = train(crumb, tmp_path, labels="wrong.npy", status=1)
    assert f"class 5, expected 0 to 2, at index {place} of [400]" in message
    assert "--labels" in message and "wrong.npy" in message
    np.save(tmp_path / "vx.npy", x)
    valid = ["--valid", tmp_path / "vx.npy", tmp_path / "wrong.npy"]
    message = train(crumb, tmp_path, *valid, status=1)
    assert f"at index {place} of [400]" in message and "--valid" in message and "wrong.npy" in message


def test_a_shape_that_does_not_fit_is_named_with_its_file(crumb, onnx, samples, tmp_path):
    x, labels, _ = samples
    mlp(onnx, tmp_path / "net.onnx")
    np.save(tmp_path / "vx.npy", x[:40])
    np.save(tmp_path / "vy.npy", np.stack([labels, labels], 1)[:40])
    np.save(tmp_path / "narrow.npy", x[:40, :4])
    message = train(crumb, tmp_path, "--valid", tmp_path / "vx.npy", tmp_path / "vy.npy", status=1)
    assert "--valid" in message and "vy.npy" in message and "[40, 2]" in message
    message = train(crumb, tmp_path, "--valid", tmp_path / "narrow.npy", tmp_path / "labels.npy", status=1)
    assert "narrow.npy" in message and "[40, 4]" in message and "labels.npy" in message and "[400]" in message
    np.save(tmp_path / "vy.npy", labels[:40])
    message = train(crumb, tmp_path, "--valid", tmp_path / "narrow.npy", tmp_path / "vy.npy", status=1)
    assert "--valid" in message and "narrow.npy" in message


def train_with(crumb, tmp_path, labels, loss):
    np.save(tmp_path / "these.npy", labels)
    return train(crumb, tmp_path, labels="these.npy", loss=loss, status=1)


def test_a_state_of_other_data_is_refused(crumb, onnx, samples, tmp_path):
    mlp(onnx, tmp_path / "net.onnx")
    first = train(crumb, tmp_path, "--epochs", 2)
    x, labels, _ = samples
    np.save(tmp_path / "labels.npy", labels[::-1].copy())
    second = train(crumb, tmp_path, "--epochs", 2)
    assert first["quantized"] != second["quantized"]


@pytest.mark.parametrize(("seed", "share", "weights"), [(1, 0.5, "int4:channel"), (2, 0.9, "uint4:channel:zero=int"), (3, 0.2, "e2m1:channel")])
def test_zeros_stay_zeros(crumb, onnx, samples, tmp_path, seed, share, weights):
    """In the float network that trains before, in its weights that are kept, and as codes; without the flag they come back."""
    mlp(onnx, tmp_path / "net.onnx")
    model = onnx.load(tmp_path / "net.onnx")
    rng, zeros = np.random.default_rng(seed), {}
    for constant in model.graph.initializer:
        value = onnx.numpy_helper.to_array(constant).copy()
        if value.ndim < 2:
            continue
        zeros[constant.name] = rng.random(value.shape) < share
        value[zeros[constant.name]] = 0
        constant.CopyFrom(onnx.numpy_helper.from_array(value, constant.name))
    onnx.save(model, tmp_path / "net.onnx")
    how = ["--epochs", 2, "--float-epochs", 1, "--rate", 0.01, "--weights", weights]
    report = train(crumb, tmp_path, *how, "--keep-zeros")
    count = sum(int(mask.sum()) for mask in zeros.values())
    assert report["pruning"]["pruned"] == pytest.approx(count / sum(mask.size for mask in zeros.values()))
    from safetensors.numpy import load_file

    kept = load_file(tmp_path / "out/float.safetensors")
    assert all((kept[name][mask] == 0).all() for name, mask in zeros.items())
    crumb("dequantize", tmp_path / "out/model.crumb", "-o", tmp_path / "plain.safetensors")
    plain = load_file(tmp_path / "plain.safetensors")
    assert all((plain[name][mask] == 0).all() and (plain[name][~mask] != 0).any() for name, mask in zeros.items())
    again = train(crumb, tmp_path, *how, out="again")
    assert "pruning" not in again
    back = load_file(tmp_path / "again/float.safetensors")
    assert all((back[name][mask] != 0).any() for name, mask in zeros.items())


def test_zeros_of_weights_that_are_computed(crumb, onnx, samples, tmp_path):
    """A matrix times a gain: pruning more of it is refused, its zeros stay."""
    from onnx import helper

    rng = np.random.default_rng(4)
    constants = {"w": rng.normal(size=(FEATURES, 16)), "gain": rng.uniform(0.5, 2, 16), "v": rng.normal(size=(16, CLASSES))}
    constants = {name: value.astype(np.float32) for name, value in constants.items()}
    zeros = rng.random((FEATURES, 16)) < 0.4
    constants["w"][zeros] = 0
    nodes = [helper.make_node("Mul", ["w", "gain"], ["m"]), helper.make_node("MatMul", ["x", "m"], ["a"], name="fc1"), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("MatMul", ["b", "v"], ["y"], name="fc2")]  # fmt: skip
    save(onnx, tmp_path / "net.onnx", nodes, constants, {"x": ["n", FEATURES]}, ["n", CLASSES])
    assert "computes it from its parameters" in train(crumb, tmp_path, "--prune", 0.5, status=1)
    report = train(crumb, tmp_path, "--keep-zeros", "--epochs", 2, "--float-epochs", 1)
    assert report["pruning"]["pruned"] == pytest.approx(zeros.sum() / (zeros.size + 16 * CLASSES))
    model = onnx.load(tmp_path / "out/model.onnx")
    found = [onnx.numpy_helper.to_array(c) for c in model.graph.initializer]
    (matrix,) = (c for c in found if c.shape == (FEATURES, 16))
    assert (matrix[zeros] == 0).all() and (matrix[~zeros] != 0).any()
