"""Jobs as a C++ program asks for them (main.cpp): the command's bytes and figures, ends by an observer, errors that name fields."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

sys.path.append(str(Path(__file__).parents[1] / "models"))
LENGTH = 24
OK, ERROR, USAGE, ENDED = range(4)


@pytest.fixture(scope="module")
def job(crumb_bin):
    """job(NAME, field=value, ..., status=OK): (what it prints, what it says of an error)."""
    program = crumb_bin.parent / "tests/crumb_jobs_cases"
    assert program.is_file(), f"{program} has not been built: cmake --preset release && cmake --build build"
    environment = {"CRUMB_ENGINE": str(crumb_bin.parent / "libcrumb_engine.so"), **os.environ}

    def run(name, status=OK, **fields):
        request = json.dumps(fields, default=str)
        done = subprocess.run([program, name, request], capture_output=True, text=True, timeout=600, env=environment)
        assert done.returncode == status, f"{name} {request} gave {done.returncode}, not {status}:\n{done.stderr}"
        return (json.loads(done.stdout) if done.stdout else None), done.stderr

    return run


@pytest.fixture(scope="module")
def made(tmp_path_factory, crumb):
    """A decoder's folder, its codes, codes with an adapter beside them, and two texts."""
    pytest.importorskip("torch"), pytest.importorskip("transformers")
    tiny = pytest.importorskip("tiny_decoders")
    work = tmp_path_factory.mktemp("jobs")
    tiny.make("llama3", work / "model")
    tiny.write_texts(work)
    crumb("quantize", work / "model", "-o", work / "base.crumb", "--weights", "int2h:group=16", "--embeddings", "int8")
    crumb("quantize", work / "model", "-o", work / "adapted.crumb", "--weights", "int4:group=16", "--embeddings", "int8",
          "--stages", "low_rank:rank=2", "--data", work / "train.txt", "--tokens", 500)  # fmt: skip
    return work


def files_of(place):
    """{path: bytes} of a file, or of a folder's."""
    return {str(path.relative_to(place)): path.read_bytes() for path in [place, *place.rglob("*")] if path.is_file()}


def ends_everywhere(job, name, output, kept, **fields):
    """Ends the job at some of the calls of its observer: `kept`, what lay there, stays alone."""
    calls = job(name, **fields, output=output["whole"])[0]["calls"]
    assert calls > 0
    for stop_at in sorted({1, calls, *random.Random(calls).sample(range(1, calls + 1), min(calls, 3))}):
        job(name, **fields, output=output["ended"], stop_at=stop_at, status=ENDED)
        assert kept(), stop_at
    return calls


def test_merging_gives_the_commands_bytes(job, crumb, made, tmp_path):
    for name, flags, fields in [("codes.crumb", [], {}), ("other.crumb", ["--weights", "int3:group=16"], {"weights": "int3:group=16"}),
                                ("floats", [], {}), ("halves", ["--dtype", "f16", "--shard", "30kB"], {"dtype": "f16", "shard": "30kB"})]:  # fmt: skip
        said = json.loads(crumb("merge", made / "adapted.crumb", *flags, "-o", tmp_path / name, "--json").stdout)
        report, _ = job("merge", input=made / "adapted.crumb", output=tmp_path / f"job_{name}", **fields)
        assert files_of(tmp_path / f"job_{name}") == files_of(tmp_path / name)
        assert report["matrices"] == said.get("merged", 0) and report["layers"] == len(said.get("layers", []))
        assert report["bytes"] == said.get("bytes", 0) and report["training"] is None


def test_an_observer_ends_merging(job, made, tmp_path):
    names = {"whole": tmp_path / "whole", "ended": tmp_path / "ended"}
    calls = ends_everywhere(job, "merge", names, lambda: os.listdir(tmp_path) == ["whole"], input=made / "adapted.crumb")
    assert calls > 10  # every tensor


def test_scoring_gives_the_commands_figures(job, crumb, made):
    draw = random.Random(5)
    files = [made / "model", made / "base.crumb", made / "adapted.crumb"]
    for _ in range(8):
        context, tokens, cache = draw.choice([8, 17, 24]), draw.choice([0, 60, 100]), draw.choice(["", "int8", "int4:rotate"])
        models, baseline = draw.sample(files, draw.randint(1, 3)), draw.choice(["", made / "model"])
        flags = ["--context", context, *(["--tokens", tokens] if tokens else []), *(["--kv-cache", cache] if cache else []),
                 *(["--baseline", baseline] if baseline else [])]  # fmt: skip
        said = json.loads(crumb("perplexity", *models, "--text", made / "valid.txt", *flags, "--json").stdout)
        report, _ = job("score", models=models, text=made / "valid.txt", baseline=baseline, context=context, tokens=tokens,
                        kv_cache=cache, threads=draw.choice([1, 2]))  # fmt: skip
        for mine, theirs in zip(report["models"], said.get("models", [said]), strict=True):
            assert mine["perplexity"] == theirs["perplexity"]
            assert mine.get("kl_mean") == theirs.get("kl_mean")
    calls = report["calls"]
    for stop_at in {1, calls}:
        job("score", models=models, text=made / "valid.txt", baseline=baseline, context=context, tokens=tokens, kv_cache=cache,
            stop_at=stop_at, status=ENDED)  # fmt: skip


def recovery(made):
    return {"input": made / "base.crumb", "baseline": made / "model", "data": made / "train.txt", "valid": made / "valid.txt",
            "length": LENGTH, "rank": 4, "steps": 6, "threads": 1, "products": "f32"}  # fmt: skip


@pytest.mark.usefixtures("engine")
def test_recovering_gives_the_commands_bytes(job, crumb, made, tmp_path):
    fields = recovery(made)
    said = json.loads(crumb("recover", made / "base.crumb", *(word for name, value in fields.items() if name != "input" for word in (f"--{name}", value)),
                            "-o", tmp_path / "command", "--json").stdout)  # fmt: skip
    report = job("recover", **fields, output=tmp_path / "job")[0]["training"]
    mine, theirs = files_of(tmp_path / "job"), files_of(tmp_path / "command")
    assert {**mine, "report.json": None} == {**theirs, "report.json": None}
    assert {**report, "seconds": 0} == {**said, "seconds": 0}


@pytest.mark.usefixtures("engine")
def test_an_observer_ends_training(job, made, tmp_path):
    """Recovering, and merging with training; results of an older run stay."""
    (tmp_path / "ended").mkdir()
    (tmp_path / "ended/report.json").write_text("mine")

    def kept():
        return "model.crumb" not in os.listdir(tmp_path / "ended") and (tmp_path / "ended/report.json").read_text() == "mine"

    names = {"whole": tmp_path / "whole", "ended": tmp_path / "ended"}
    assert ends_everywhere(job, "recover", names, kept, **recovery(made)) >= 6  # every step
    fields = {"input": made / "adapted.crumb", "train": made / "train.txt", "length": LENGTH, "steps": 3, "threads": 1}
    names["whole"] = tmp_path / "merged"
    ends_everywhere(job, "merge", names, kept, **fields)
    assert (tmp_path / "merged/model.crumb").is_file()


@pytest.fixture
def drawn_network(tmp_path):
    """drawn_network(SEED): a network of products with what flows between them at chance, and samples."""

    def make(seed):
        draw = np.random.default_rng(seed)
        constants, nodes, value = [], [], "x"
        sizes = [12, *draw.integers(6, 20, size=draw.integers(1, 5)), 5]
        for i, (here, there) in enumerate(zip(sizes, sizes[1:])):
            constants.append(numpy_helper.from_array(draw.normal(size=(here, there)).astype(np.float32), f"w{i}"))
            nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"h{i}"], f"layer{i}"))
            value = f"h{i}"
            if kind := draw.choice(["", "Relu", "Tanh", "Sigmoid"]):
                nodes.append(helper.make_node(kind, [value], [f"a{i}"]))
                value = f"a{i}"
        ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 12]), helper.make_tensor_value_info(value, TensorProto.FLOAT, ["N", 5])]
        graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / f"{seed}.onnx")
        np.save(tmp_path / f"{seed}.npy", (draw.normal(size=(50, 12)) ** 3).astype(np.float32))
        return {"input": tmp_path / f"{seed}.onnx", "data": [str(tmp_path / f"{seed}.npy")]}

    return make


def values_of(network, samples):
    """{name: values} of the float network, by NumPy."""
    model = onnx.load(network)
    values = {entry.name: numpy_helper.to_array(entry) for entry in model.graph.initializer} | {"x": np.load(samples)}
    does = {"MatMul": np.matmul, "Relu": lambda x: np.maximum(x, 0), "Tanh": np.tanh, "Sigmoid": lambda x: (1 + np.tanh(x / 2)) / 2}
    for node in model.graph.node:
        values[node.output[0]] = does[node.op_type](*(values[name] for name in node.input))
    return values


def test_calibrating_finds_the_quantizers_of_quantize(job, drawn_network, tmp_path):
    """On networks of chance; ranges, and what codes cut off, are NumPy's."""
    searches = ["", ":search=percentile=99", ":search=mse", ":search=percentile=95:zero=int"]
    seen = cut = 0
    for seed in range(12):
        network = drawn_network(seed)
        recipe = f"weights: int8\nactivations: uint8:tensor{searches[seed % 4]}\ninputs: int8:tensor\n"
        before = os.listdir(tmp_path)
        edges = job("calibrate", **network, recipe=recipe)[0]["edges"]
        assert os.listdir(tmp_path) == before  # nothing is written
        assert edges == job("calibrate", **network, recipe=recipe, threads=2)[0]["edges"]
        wanted = job("quantize", **network, recipe=recipe, output=tmp_path / "q.crumb")[0]["edges"]
        values = values_of(network["input"], network["data"][0])
        for edge, other in zip(edges, wanted, strict=True):
            assert {key: edge[key] for key in other} == other
            flowing = values[edge["value"]]
            assert edge["least"] == pytest.approx(flowing.min(), rel=1e-4, abs=1e-5)
            assert edge["greatest"] == pytest.approx(flowing.max(), rel=1e-4, abs=1e-5)
            is_signed = edge["spec"].startswith("int8")
            codes = flowing / edge["scale"] + edge["zero_point"]
            beyond = int(((codes < (-127.5 if is_signed else -0.5)) | (codes > (127.5 if is_signed else 255.5))).sum())
            assert edge["values"] == flowing.size and abs(edge["saturated"] - beyond) <= 2, edge
            seen, cut = seen + 1, cut + (beyond > 2)
    assert seen > 20 and cut > 5


def test_errors_name_fields(job, made, drawn_network, tmp_path):
    """In the words of the request: a program has no flags."""
    net, tuned = drawn_network(1), {"baseline": made / "model", "data": made / "train.txt", "length": LENGTH}
    quantizing = {"input": net["input"], "output": tmp_path / "q.onnx", "recipe": "weights: int8\n"}
    activations = "weights: int8\nactivations: uint8:tensor\n"
    wrong = [
        ("merge", {"input": made / "model"}, "give adapters PATH"),
        ("merge", {"input": made / "adapted.crumb", "weights": "int8"}, "weights is for output FILE.crumb"),
        ("merge", {"input": made / "adapted.crumb", "output": tmp_path / "q.crumb", "dtype": "f16"}, "dtype is for a folder in floats, found output"),
        ("merge", {"input": made / "adapted.crumb", "shard": "much"}, "shard: "),
        ("merge", {"input": made / "adapted.crumb", "shard": "1MB", "train": made / "train.txt"}, "and train writes a packed file"),
        ("merge", {"input": made / "adapted.crumb", "dtype": "f8"}, "dtype 'f8': expected f32, f16 or bf16"),
        ("merge", {"input": made / "adapted.crumb", "output": tmp_path / "q.gguf"}, "a file that ends in .gguf"),
        ("evaluate", {"models": [], "baseline": made / "model", "data": [made / "valid.txt"]}, "models names no model"),
        ("evaluate", {"models": [made / "model"], "baseline": made / "model", "data": [made / "valid.txt"], "task": "classify"},
         "takes arrays as data"),
        ("score", {"models": [], "text": made / "valid.txt"}, "there is no model"),
        ("score", {"models": [made / "model"], "text": made / "valid.txt", "kv_cache": "int9"}, "kv_cache int9: "),
        ("recover", {"input": made / "base.crumb", "data": made / "train.txt"}, "give baseline FLOAT, the network in floats; only loss ce"),
        ("recover", {"input": made / "base.crumb", **tuned, "init": "kept", "rank": 3}, "rank is for a fresh adapter; with init kept"),
        ("recover", {"input": made / "base.crumb", **tuned, "init": "nothing"}, "init 'nothing': expected zero, svd"),
        ("recover", {"input": made / "base.crumb", **tuned, "ranks": "error"}, "ranks error follow from each matrix' error: give init svd"),
        ("recover", {"input": made / "adapted.crumb", **tuned, "init": "svd"}, "init svd begins with each matrix' error"),
        ("recover", {"input": made / "base.crumb", **tuned, "loss": "mean"}, "loss 'mean': expected kl"),
        ("calibrate", {"input": net["input"], "recipe": activations}, "calibrating needs data"),
        ("calibrate", {**net, "recipe": activations + "stages: [gptq]\n"}, "the stage gptq"),
        ("calibrate", {**net, "recipe": activations, "tokens": 5}, "tokens is for a text as data"),
        ("quantize", {**quantizing, "recipe": activations}, "give data X.npy"),
        ("quantize", {**quantizing, "output": tmp_path / "q.txt", "data": net["data"]}, "output '"),
        ("quantize", {**quantizing, "data": [str(tmp_path / "none.npy")]}, "none.npy': no such file"),
        ("quantize", {**quantizing, "form": "float"}, "form float"),
        ("quantize", {**quantizing, "form": "qcdq", "profile": "finn"}, "profile is for QONNX"),
        ("quantize", {**quantizing, "keeps_io_types": True, "profile": "finn"}, "keeps_io_types: finn"),
        ("quantize", {**quantizing, "resume": True}, "resume is for checkpoints"),
        ("quantize", {**quantizing, "memory": 1 << 30}, "memory is for checkpoints"),
        ("recover", {"input": made / "base.crumb", **tuned, "products": "f8"}, "products 'f8': expected"),
        ("recover", {"input": made / "base.crumb", **tuned, "products": "f32", "schedule": "odd"}, "schedule 'odd': expected"),
        ("recover", {"input": made / "base.crumb", **tuned, "products": "f32", "optimizer_states": "odd"}, "optimizer_states 'odd': expected"),
        ("recover", {"input": made / "base.crumb", **tuned, "products": "f32", "length": 1 << 19}, "length 524288: the model has"),
        ("recover", {"input": made / "base.crumb", **tuned, "products": "f32", "length": 1 << 19}, "length 524288: the model has"),
    ]
    for name, fields, words in wrong:
        kept = {"output": tmp_path / "no"} if name in ("merge", "recover") else {}
        _, said = job(name, **{**kept, **fields}, status=USAGE)
        assert words in said, (name, fields, said)
        assert not re.search(r"(^|\s)--?[a-z]", said.replace("crumb export --to gguf", "")), said  # a whole command is one
        assert not (tmp_path / "no").exists() and not list(tmp_path.glob("q.*"))
