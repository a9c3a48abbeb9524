"""`crumb sweep`: every cell is the file that crumb quantize makes, its numbers are those that numpy, onnxruntime and crumb's other
verbs find in that file, and a run that is killed ends in the table of one that was not."""

import csv
import io
import json
import random
import signal
import subprocess
import xml.etree.ElementTree

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

FORMATS = ["int3:channel", "e2m1:channel", "int4:channel:search=mse", "int4:group=7"]  # the last divides no row
METHODS = ["rounding", "equalize+gptq:sweeps=2", "bias_correction"]
SHAPES = {"conv.weight": (8, 9), "mid.weight": (6, 72), "fc.weight": (10, 216)}  # as rows of outputs


def small_network(path, seed=0):
    """Two convolutions with a Relu between them, which equalization scales, and a linear layer: 10 logits."""
    draw = np.random.default_rng(seed)
    made = {"conv.weight": draw.normal(size=(8, 1, 3, 3)) * 0.5, "conv.bias": draw.normal(size=8) * 0.1,
            "mid.weight": draw.normal(size=(6, 8, 3, 3)) * 0.15, "mid.bias": draw.normal(size=6) * 0.1,
            "fc.weight": draw.normal(size=(6 * 36, 10)) * 0.1, "fc.bias": draw.normal(size=10) * 0.1}  # fmt: skip
    nodes = [helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("Conv", ["b", "mid.weight", "mid.bias"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["d"]),
             helper.make_node("Flatten", ["d"], ["e"]), helper.make_node("Gemm", ["e", "fc.weight", "fc.bias"], ["y"])]  # fmt: skip
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 1, 8, 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 10])],
        [numpy_helper.from_array(values.astype(np.float32), name) for name, values in made.items()])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    work = tmp_path_factory.mktemp("sweep")
    small_network(work / "net.onnx")
    draw = np.random.default_rng(1)
    for name, count in (("x", 48), ("v", 40)):
        np.save(work / f"{name}.npy", draw.normal(size=(count, 1, 8, 8)).astype(np.float32))
    np.save(work / "y.npy", draw.integers(0, 10, 40))
    return work


def command(made, out, *flags, formats=FORMATS, activations="keep", methods=METHODS):
    return ["sweep", made / "net.onnx", "--formats", ",".join(formats), "--activations", activations, "--methods", ",".join(methods),
            "--data", made / "x.npy", "--valid", made / "v.npy", "--labels", made / "y.npy", "-o", out, "--threads", 1, *flags]  # fmt: skip


def rows_of(folder):
    return json.loads((folder / "sweep.json").read_text())["rows"]


def log_softmax(x):
    x = x.astype(np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def scores(expected, found, labels):
    p, q = log_softmax(expected), log_softmax(found)
    a, b = expected.astype(np.float64), found.astype(np.float64)
    square = ((a - b) ** 2).mean()
    return {
        "accuracy": (found.argmax(-1) == labels).mean(),
        "agreement": (found.argmax(-1) == expected.argmax(-1)).mean(),
        "kl": (np.exp(p) * (p - q)).sum(-1).mean(),
        "cosine": ((a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))).mean(),
        "psnr": np.inf if square == 0 else 10 * np.log10(float(a.max() - a.min()) ** 2 / square),
    }


def check_scores(crumb, made, row, file, tmp_path):
    """As crumb run computes the file, which onnxruntime computes, too."""
    crumb("run", made / "net.onnx", "--input", made / "v.npy", "--output", tmp_path / "float.npy")
    crumb("run", file, "--input", made / "v.npy", "--output", tmp_path / "found.npy")
    expected, found = np.load(tmp_path / "float.npy"), np.load(tmp_path / "found.npy")
    for name, value in scores(expected, found, np.load(made / "y.npy")).items():
        assert row["scores"][name] == pytest.approx(value, rel=1e-9, abs=1e-12), name  # float64 sums in other orders
    return found


@pytest.fixture(scope="module")
def swept(crumb, made, tmp_path_factory):
    out = tmp_path_factory.mktemp("swept") / "out"
    done = crumb(*command(made, out, "--keep-files", "--metric", "kl"))
    return out, done


def test_each_cell_is_what_quantize_makes(crumb, made, swept, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    out, done = swept
    rows = rows_of(out)
    assert [(row["format"], row["method"]) for row in rows] == [("float32", "-")] + [(f, m) for f in FORMATS for m in METHODS]
    assert rows[0]["scores"]["kl"] == 0 and rows[0]["scores"]["psnr"] == "inf" and rows[0]["bits_per_weight"] == 32
    assert rows[0]["bytes"] == (made / "net.onnx").stat().st_size
    for row in rows[1:]:
        stages = ["--stages", row["method"].replace("+", ",")]
        quantize = ["quantize", made / "net.onnx", "-o", tmp_path / "one.crumb", "--weights", row["format"], *stages, "--data", made / "x.npy"]
        if row["format"] == "int4:group=7":  # an error of this cell alone, in the words of quantize
            said = crumb(*quantize, status=None)
            assert said.returncode != 0 and row["failed"] and not row["scores"] and row["file"] is None
            assert row["note"] == " ".join(said.stderr.split("crumb: ")[-1].split())
            assert row["note"] in done.stdout
            continue
        report = json.loads(crumb(*quantize, "--json").stdout)
        file = out / "cells" / row["file"]
        assert file.read_bytes() == (tmp_path / "one.crumb").read_bytes()
        assert row["bytes"] == file.stat().st_size and not row["failed"]
        size = {name: rows_ * columns for name, (rows_, columns) in SHAPES.items()}
        bits = sum(weight["bits"] * size[weight["name"]] for weight in report["weights"] if weight["spec"])
        assert row["bits_per_weight"] == pytest.approx(bits / sum(size.values()))
        found = check_scores(crumb, made, row, file, tmp_path)
        crumb("export", file, "-o", tmp_path / "float.onnx", "--to", "float")
        session = runtime.InferenceSession(tmp_path / "float.onnx", providers=["CPUExecutionProvider"])
        other = session.run(None, {session.get_inputs()[0].name: np.load(made / "v.npy")})[0]
        # 216 products of float32, none above a few units, in another order.
        assert np.abs(other - found).max() <= 216 * np.finfo(np.float32).eps * 16 * np.abs(found).max()
    better = {(row["format"], row["method"]): row["scores"]["kl"] for row in rows[1:] if not row["failed"]}
    assert all(better[f, METHODS[1]] < better[f, "rounding"] for f in FORMATS[:-1])


def test_the_front_is_what_none_beats(swept):
    rows = [row for row in rows_of(swept[0])[1:] if not row["failed"]]
    for row in rows:
        beaten = any(
            other["bits_per_weight"] <= row["bits_per_weight"] and other["scores"]["kl"] <= row["scores"]["kl"]
            and (other["bits_per_weight"], other["scores"]["kl"]) != (row["bits_per_weight"], row["scores"]["kl"])
            for other in rows)  # fmt: skip
        assert row["front"] == (not beaten)


def test_files_say_the_same(swept):
    out = swept[0]
    table = list(csv.DictReader(io.StringIO((out / "sweep.csv").read_text(), newline="")))
    rows = rows_of(out)
    assert len(table) == len(rows)
    for line, row in zip(table, rows):
        assert (line["format"], line["method"], line["note"]) == (row["format"], row["method"], row["note"])
        assert line["front"] == str(int(row["front"])) and line["failed"] == str(int(row["failed"]))
        for name, value in row["scores"].items():
            assert float(line[name]) == float(value)
        assert line["bytes"] == ("" if row["bytes"] is None else str(row["bytes"]))
    drawn = xml.etree.ElementTree.parse(out / "sweep.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    titles = [title.text for title in drawn.iter(f"{space}title")]
    done = [row for row in rows[1:] if not row["failed"]]
    assert len(titles) == len(done) and all(row["format"] in title for row, title in zip(done, titles))
    assert any("bits per weight" in (text.text or "") for text in drawn.iter(f"{space}text"))
    assert len(list(drawn.iter(f"{space}polyline"))) == 1


def widest(crumb, file):
    """The widest registers that crumb cost finds."""
    nodes = json.loads(crumb("cost", file, "--json").stdout)
    found = [node["accumulator"] for node in nodes["nodes"] if node["accumulator"]]
    columns = (("by_data_type", "by_data_type"), ("by_weights", "by_weights"), ("exact", "exact_bits"))
    wide = {mine: max((one[its] for one in found if one[its] is not None), default=None) for mine, its in columns}
    return wide, nodes["dense"]["bops_qap"]


@pytest.mark.usefixtures("engine")
def test_activations_and_registers(crumb, made, tmp_path):
    out = tmp_path / "out"
    crumb(*command(made, out, "--keep-files", formats=["int4:channel", "e2m1:tensor"], activations="uint5,e3m2", methods=["rounding", "gptq"]))
    rows = rows_of(out)[1:]
    assert not any(row["failed"] for row in rows) and len(rows) == 8
    for row in rows:
        file = out / "cells" / row["file"]
        check_scores(crumb, made, row, file, tmp_path)
        wide, bops = widest(crumb, file)
        assert row["accumulator"] == wide and row["bops"] == bops
        # arXiv:2311.12359, for the longest sum: 2^ea + ma + 2^eb + mb + ceil(log2 n) - 1 of minifloats.
        if row["format"].startswith("e2m1") and row["activations"].startswith("e3m2"):
            assert wide["by_data_type"] == 2**2 + 1 + 2**3 + 2 + np.ceil(np.log2(216)) - 1
        # Of integers ra + rb + ceil(log2 n) + 1; a bound by data types may know a bit or two less to be enough, never more.
        if row["format"].startswith("int4") and row["activations"].startswith("uint5"):
            assert 0 <= 4 + 5 + np.ceil(np.log2(216)) + 1 - wide["by_data_type"] <= 2
    table = crumb(*command(made, out, "--against", "accumulator", "--json", formats=["int4:channel", "e2m1:tensor"],
                           activations="uint5,e3m2", methods=["rounding", "gptq"])).stdout  # fmt: skip
    table = json.loads(table)
    assert table["against"] == "accumulator" and [row["bits_per_weight"] for row in table["rows"][1:]] == [row["bits_per_weight"] for row in rows]


def without_seconds(folder):
    return [line[:-1] for line in csv.reader(io.StringIO((folder / "sweep.csv").read_text(), newline=""))]


def test_a_killed_run_goes_on(crumb, crumb_bin, made, swept, tmp_path):
    draw = random.Random(0)
    out = tmp_path / "out"
    arguments = [str(crumb_bin), *map(str, command(made, out, "--metric", "kl", "--keep-files"))]
    for kill in (signal.SIGKILL, signal.SIGINT, signal.SIGKILL):
        running = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for _ in range(draw.randint(1, 6)):
            running.stdout.readline()
        running.send_signal(kill)
        running.communicate()
    before = {path.name: path.stat().st_mtime_ns for path in (out / "cells").glob("*.json")}
    kept = [name for name in before if not json.loads((out / "cells" / name).read_text())["failed"]]
    crumb(*command(made, out, "--metric", "kl", "--keep-files"))
    assert without_seconds(out) == without_seconds(swept[0])
    assert kept and all((out / "cells" / name).stat().st_mtime_ns == before[name] for name in kept)  # were not done again
    assert not list(out.glob("**/*.partial"))


def test_another_command_is_refused_by_what_differs(crumb, made, tmp_path):
    out = tmp_path / "out"
    short = {"formats": ["int4:channel"], "methods": ["rounding"]}
    crumb(*command(made, out, **short))
    told = {
        "--formats": command(made, out, formats=["int5:channel"], methods=["rounding"]),
        "--methods": command(made, out, formats=["int4:channel"], methods=["gptq"]),
        "--peak": command(made, out, "--peak", 2, **short),
        "recipe": command(made, out, "--exclude", "fc.weight", **short),
    }
    for flag, other in told.items():
        said = crumb(*other, status=2).stderr
        assert f"{flag} was" in said and "--restart" in said
    np.save(made / "y2.npy", np.load(made / "y.npy"))
    again = [made / "y2.npy" if part == made / "y.npy" else part for part in command(made, out, **short)]
    assert "--labels was" in crumb(*again, status=2).stderr
    crumb(*command(made, out, "--restart", formats=["int5:channel"], methods=["rounding"]))
    assert [row["format"] for row in rows_of(out)] == ["float32", "int5:channel"]
    crumb(*command(made, out, "--metric", "cosine", "--against", "bytes", formats=["int5:channel"], methods=["rounding"]))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/sweep.csv").write_text("my own\n")
    assert "no crumb sweep wrote" in crumb(*command(made, tmp_path / "mine", "--restart", **short), status=2).stderr
    assert (tmp_path / "mine/sweep.csv").read_text() == "my own\n"


def test_where_every_cell_fails(crumb, made, tmp_path):
    done = crumb(*command(made, tmp_path / "out", formats=["int4:group=7"], methods=["rounding", "gptq"]), status=1)
    assert "no cell could be done" in done.stderr and done.stdout.count("do not fit the spec") == 4  # while it goes, and at the end
    assert [row["failed"] for row in rows_of(tmp_path / "out")] == [False, True, True]


@pytest.mark.parametrize(("change", "said"), [
    ({"formats": ["int99"]}, ["--formats", "int99"]),
    ({"formats": ["int4:channel", "int4:channel"]}, ["--formats", "'int4:channel' twice"]),
    ({"formats": ["int4:channel", ""]}, ["--formats"]),
    ({"activations": "int4:group=8"}, ["--activations"]),
    ({"methods": ["gtpq"]}, ["--methods", "did you mean 'gptq'"]),
    ({"methods": ["gptq:sweep=2"]}, ["--methods", "no option 'sweep'"]),
    ({"methods": ["block_wise"]}, ["--methods", "one of training"]),
    ({"methods": ["rounding+gptq"]}, ["--methods", "rounding"]),
    ({"methods": ["gptq+"]}, ["--methods"])])  # fmt: skip
def test_bad_grids(crumb, made, tmp_path, change, said):
    message = crumb(*command(made, tmp_path / "out", **change), status=2).stderr
    assert all(part in message for part in said), message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("flags", "said"), [
    (["--metric", "mse"], ["--metric"]),
    (["--against", "price"], ["--against"]),
    (["--metric", "perplexity"], ["perplexity is not known", "accuracy, agreement, cosine, kl, psnr"]),
    (["--peak", "-1"], ["--peak"]),
    (["--context", "64"], ["--context", "language model"]),
    (["--valid-tokens", "64"], ["--valid-tokens", "language model"]),
    (["--tokens", "0"], ["--tokens"]),
    (["--shape", "x"], ["--shape"])])  # fmt: skip
def test_bad_flags(crumb, made, tmp_path, flags, said):
    message = crumb(*command(made, tmp_path / "out", *flags), status=2).stderr
    assert all(part in message for part in said), message


def test_bad_samples(crumb, made, tmp_path):
    base = ["sweep", made / "net.onnx", "--formats", "int4:channel", "-o", tmp_path / "out"]
    assert "needs --data" in crumb(*base, status=2).stderr
    assert "no such file" in crumb(*base, "--valid", tmp_path / "none.npy", status=2).stderr
    (tmp_path / "text.txt").write_text("a text\n")
    assert "a graph takes .npy" in crumb(*base, "--valid", tmp_path / "text.txt", status=2).stderr
    np.save(tmp_path / "short.npy", np.zeros(3, np.int64))
    said = crumb(*base, "--valid", made / "v.npy", "--labels", tmp_path / "short.npy", status=2).stderr
    assert "3 labels" in said and "40 rows of 10" in said
    assert "note" not in crumb(*base, "--valid", made / "v.npy").stderr  # what was refused leaves the folder free
    said = crumb(*base[:-1], tmp_path / "two", "--data", made / "x.npy")
    assert "--valid names others" in said.stderr and "agreement" in said.stdout


def test_a_decoder(crumb, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    tiny = pytest.importorskip("tiny_decoders")
    tiny.make("llama3", tmp_path / "model")
    tiny.write_texts(tmp_path)
    out = tmp_path / "out"
    crumb("sweep", tmp_path / "model", "--formats", "int3:group=16,int5:group=16", "--methods", "rounding,gptq", "--data",
          tmp_path / "train.txt", "--tokens", 500, "--valid", tmp_path / "valid.txt", "--context", 24, "--metric", "kl", "--embeddings",
          "keep", "--keep-files", "-o", out)  # fmt: skip
    rows = rows_of(out)
    assert rows[0]["scores"]["kl"] == 0 and len(rows) == 5
    for row in rows[1:]:
        found = json.loads(crumb("perplexity", out / "cells" / row["file"], "--text", tmp_path / "valid.txt", "--context", 24, "--baseline",
                                 tmp_path / "model", "--json").stdout)  # fmt: skip
        assert row["scores"] == {"kl": found["kl_mean"], "agreement": found["same_top1"], "perplexity": found["perplexity"]}
        assert rows[0]["scores"]["perplexity"] == pytest.approx(found["baseline_perplexity"], rel=1e-12)
    said = crumb("sweep", tmp_path / "model", "--formats", "int4:group=16", "--valid", tmp_path / "valid.txt", "--labels", "y.npy", "-o",
                 tmp_path / "two", status=2).stderr  # fmt: skip
    assert "--labels is for networks that are measured on arrays" in said


def test_a_sentence_encoder(crumb, tmp_path):
    pytest.importorskip("torch")
    embed = pytest.importorskip("test_train_embed")
    embed.make(tmp_path / "model")
    draw = random.Random(3)
    for name, count in (("train.txt", 60), ("valid.txt", 20)):
        (tmp_path / name).write_text("\n".join(" ".join(draw.choices(embed.WORDS, k=draw.randint(1, 20))) for _ in range(count)) + "\n")
    out = tmp_path / "out"
    crumb("sweep", tmp_path / "model", "--formats", "int3:channel,e2m1:group=16", "--methods", "rounding,gptq", "--data",
          tmp_path / "train.txt", "--valid", tmp_path / "valid.txt", "--metric", "cosine", "--keep-files", "-o", out)  # fmt: skip
    crumb("embed", tmp_path / "model", "--text", tmp_path / "valid.txt", "-o", tmp_path / "float.npy")
    for row in rows_of(out)[1:]:
        crumb("embed", out / "cells" / row["file"], "--text", tmp_path / "valid.txt", "-o", tmp_path / "found.npy")
        agreed = json.loads(crumb("agree", tmp_path / "float.npy", tmp_path / "found.npy", "--json").stdout)
        assert row["scores"]["cosine"] == pytest.approx(agreed["mean_cosine"], rel=1e-12)
    assert "kl is not known" in crumb("sweep", tmp_path / "model", "--formats", "int4:channel", "--valid", tmp_path / "valid.txt", "--metric",
                                      "kl", "-o", tmp_path / "two", status=2).stderr  # fmt: skip


def test_two_at_once(crumb_bin, crumb, made, tmp_path):
    """The second into the same folder is refused while the first runs."""
    arguments = [str(crumb_bin), *map(str, command(made, tmp_path / "out"))]
    first = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    first.stdout.readline()
    first.send_signal(signal.SIGSTOP)
    try:
        assert "sweep.json" in crumb(*command(made, tmp_path / "out"), status=1).stderr
    finally:
        first.send_signal(signal.SIGCONT)
        first.communicate()
    assert first.returncode == 0


def test_another_grid_of_as_many_words_is_another_command(crumb, made, tmp_path):
    """`same` stands for another spec with each format: two grids can list alike what they join otherwise."""
    formats = ["int4:channel", "int8:channel"]
    crumb(*command(made, tmp_path / "s", formats=formats, activations="same", methods=["rounding"]))
    again = crumb(*command(made, tmp_path / "s", formats=formats, activations="uint4,uint8", methods=["rounding"]), status=2).stderr
    assert "cells was " in again and "--restart drops it" in again
    crumb(*command(made, tmp_path / "s", "--restart", formats=formats, activations="uint4,uint8", methods=["rounding"]))
    crumb(*command(made, tmp_path / "t", formats=formats, activations="uint4,uint8", methods=["rounding"]))
    first = [without_seconds(tmp_path / name) for name in "st"]
    assert first[0] == first[1]
    # A cell's file in the place of another's is not taken for it.
    cells = tmp_path / "t/cells"
    (cells / "002.json").write_bytes((cells / "001.json").read_bytes())
    crumb(*command(made, tmp_path / "t", formats=formats, activations="uint4,uint8", methods=["rounding"]))
    assert without_seconds(tmp_path / "t") == first[0]


def test_registers_are_of_all_layers_or_of_none(crumb, made, tmp_path):
    """One layer without a register leaves the table without: the widest is not known."""
    for more, is_known in (([], True), (["--set", "mid.weight=int8:group=8"], False), (["--set", "mid.weight=e3m2:channel"], True),
                           (["--set", "mid.weight=int8:channel:zero=int"], True), (["--exclude", "mid.weight"], False)):  # fmt: skip
        out = tmp_path / str(len(list(tmp_path.iterdir())))
        crumb(*command(made, out, *more, "--keep-files", formats=["int4:channel"], activations="uint4", methods=["rounding"]))
        (row,) = rows_of(out)[1:]
        found = row["accumulator"]
        assert all((found[key] is not None) == is_known for key in ("by_data_type", "by_weights", "exact")), (more, found)
        verified = crumb("verify", out / "cells/001.crumb", "--accumulator", 60, "--json", status=None)
        if is_known:
            widest = max(layer["bits_needed"] for layer in json.loads(verified.stdout)["layers"])
            assert found["exact"] in (widest, widest - 1), more


def test_files_of_samples_may_differ_in_their_inner_sizes(crumb, tmp_path):
    """Each sample and each row counts once, whatever the file that it stands in."""
    onnxruntime = pytest.importorskip("onnxruntime")
    draw = np.random.default_rng(4)
    weight = draw.normal(size=(12, 5)).astype(np.float32)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", 1, ["n", "s", 12])],
                              [helper.make_tensor_value_info("y", 1, ["n", "s", 5])], [numpy_helper.from_array(weight, "w")])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    (tmp_path / "v").mkdir()
    parts = [draw.normal(size=shape).astype(np.float32) for shape in ((4, 3, 12), (2, 7, 12))]
    for i, part in enumerate(parts):
        np.save(tmp_path / f"v/{i}.npy", part)
    np.save(tmp_path / "x.npy", parts[0])
    labels = draw.integers(0, 5, 4 * 3 + 2 * 7)
    np.save(tmp_path / "y.npy", labels)
    crumb("sweep", tmp_path / "m.onnx", "--formats", "int2:channel", "--data", tmp_path / "x.npy", "--valid", tmp_path / "v", "--labels",
          tmp_path / "y.npy", "--keep-files", "-o", tmp_path / "s")  # fmt: skip
    crumb("export", tmp_path / "s/cells/001.crumb", "-o", tmp_path / "q.onnx", "--to", "float")
    meant, made = ([onnxruntime.InferenceSession(str(tmp_path / f"{name}.onnx"), providers=["CPUExecutionProvider"]).run(None, {"x": part})[0]
                    for part in parts] for name in ("m", "q"))  # fmt: skip
    cosines = [float(a.ravel() @ b.ravel() / np.linalg.norm(a) / np.linalg.norm(b)) for one, other in zip(meant, made) for a, b in zip(one, other)]
    flat, found = (np.concatenate([part.reshape(-1, 5) for part in whole]) for whole in (meant, made))
    p, q = log_softmax(flat), log_softmax(found)
    scored = rows_of(tmp_path / "s")[1]["scores"]
    assert scored["cosine"] == pytest.approx(np.mean(cosines), rel=1e-5)
    assert scored["kl"] == pytest.approx(np.mean(np.sum(np.exp(p) * (p - q), -1)), rel=1e-4)
    assert scored["agreement"] == pytest.approx(np.mean(flat.argmax(-1) == found.argmax(-1)))
    assert scored["accuracy"] == pytest.approx(np.mean(found.argmax(-1) == labels))
    np.save(tmp_path / "none.npy", np.zeros(0, np.int64))
    how = ["sweep", tmp_path / "m.onnx", "--formats", "int2:channel", "--data", tmp_path / "x.npy", "-o", tmp_path / "t"]
    assert "holds no numbers" in crumb(*how, "--labels", tmp_path / "none.npy", status=2).stderr
    twice = ["--valid", f"x={tmp_path / 'x.npy'}", "--valid", f"x={tmp_path / 'x.npy'}"]
    assert "--valid gives input 'x' twice" in crumb(*how, *twice, status=2).stderr


def test_external_data_are_the_model_too(crumb, made, tmp_path):
    model = onnx.load(made / "net.onnx")
    onnx.save_model(model, str(tmp_path / "net.onnx"), save_as_external_data=True, location="net.data", size_threshold=64)
    how = ["sweep", tmp_path / "net.onnx", "--formats", "int3:channel", "--data", made / "x.npy", "-o", tmp_path / "s"]
    crumb(*how)
    sizes = sum((tmp_path / name).stat().st_size for name in ("net.onnx", "net.data"))
    assert rows_of(tmp_path / "s")[0]["bytes"] == sizes
    data = np.fromfile(tmp_path / "net.data", np.float32)
    (-data).tofile(tmp_path / "net.data")
    assert "MODEL was " in crumb(*how, status=2).stderr
