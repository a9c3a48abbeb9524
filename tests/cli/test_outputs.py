"""Outputs of every verb: inputs keep their bytes always, and what a run writes is the old or the new, whole.

Commands are drawn with their output at any place: a new one, an input under any of its names, in one, around one, beside one as the
partial file of another; and ended at any moment, by SIGKILL, SIGINT, or a limit on the size of files. Each finished output is
byte for byte that of an undisturbed run into a new place.
"""

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "models"))
from llama_shaped import LETTERS, write_llama  # noqa: E402
from sample_checkpoints import read_safetensors, write_safetensors  # noqa: E402

DRAWN = 500
SHARDS = "10KB"  # of the model: several files


# --- The materials: small inputs of every kind -----------------------------------------------------------------------


def write_network(path, outside=False):
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(3).normal
    constants = {"w1": draw(size=(4, 16)), "b1": draw(size=16), "w2": draw(size=(16, 3)), "b2": draw(size=3)}
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], name="first"),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["y"], name="last"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    places = {"save_as_external_data": True, "location": path.name + ".data", "size_threshold": 0} if outside else {}
    onnx.save(model, path, **places)


def write_quantized(path):
    """QONNX: eight bits in, four in the weights."""
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(6).integers
    constants = {"in_scale": np.float32(0.25), "scale": np.float32(0.5), "zero": np.float32(0), "eight": np.float32(8), "four": np.float32(4),
                 "w": (draw(-7, 8, size=(4, 3)) * 0.5).astype(np.float32)}  # fmt: skip
    quant = {"domain": "qonnx.custom_op.general", "signed": 1, "narrow": 0, "rounding_mode": "ROUND"}
    nodes = [
        helper.make_node("Quant", ["x", "in_scale", "zero", "eight"], ["xq"], name="quant_in", **quant),
        helper.make_node("Quant", ["w", "scale", "zero", "four"], ["wq"], name="quant_w", **(quant | {"narrow": 1})),
        helper.make_node("MatMul", ["xq", "wq"], ["y"], name="matmul"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    sets = [helper.make_opsetid("", 13), helper.make_opsetid("qonnx.custom_op.general", 1)]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=8), path)


def write_shards(source, folder):
    """The model as several tensor files with an index."""
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(source / name, folder / name)
    tensors = list(read_safetensors(source / "model.safetensors").items())
    parts = [dict(tensors[i::3]) for i in range(3)]
    index = {}
    for i, part in enumerate(parts):
        name = f"model-{i + 1:05}-of-00003.safetensors"
        write_safetensors(folder / name, part, {"format": "pt"})
        index |= dict.fromkeys(part, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


def write_lora(folder, hidden):
    folder.mkdir()
    draw = np.random.default_rng(8).normal
    name = "base_model.model.model.layers.0.self_attn.q_proj"
    tensors = {f"{name}.lora_A.weight": draw(size=(2, hidden)), f"{name}.lora_B.weight": draw(size=(hidden, 2))}
    write_safetensors(folder / "adapter_model.safetensors", {key: value.astype(np.float32) for key, value in tensors.items()})
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM"}
    (folder / "adapter_config.json").write_text(json.dumps(config))


def write_materials(crumb, folder):
    folder.mkdir()
    write_llama(folder / "model", hidden=32, inner=64, layers=1, vocabulary=len(LETTERS), positions=64)
    write_shards(folder / "model", folder / "shards")
    write_lora(folder / "lora", 32)
    write_network(folder / "net.onnx")
    write_network(folder / "ext.onnx", outside=True)
    np.save(folder / "x.npy", np.random.default_rng(4).normal(size=(8, 4)).astype(np.float32))
    np.save(folder / "labels.npy", np.arange(8) % 3)
    (folder / "samples").mkdir()
    shutil.copy(folder / "x.npy", folder / "samples" / "x.npy")
    (folder / "recipe.yaml").write_text("version: 1\nweights: int8:channel\n")
    (folder / "prompt.txt").write_text("once upon a time")
    crumb("quantize", folder / "model", "-o", folder / "m.crumb", "--weights", "int4:group=32")
    write_quantized(folder / "q.onnx")
    shutil.copytree(folder / "model", folder / "bare", ignore=shutil.ignore_patterns("tokenizer.json"))
    crumb("quantize", folder / "bare", "-o", folder / "bare.crumb", "--weights", "int4:group=32:scale=f16", "--embeddings", "keep")
    crumb("export", folder / "bare.crumb", "--to", "gguf", "-o", folder / "m.gguf")


# Of each verb: its command, {IN} names an input and {OUT} the output; the ending that the output needs ("/": a folder), and what a
# run without a fault prints into it. What is left over may be continued, where a journal says so.
VERBS = {
    "quantize": ("quantize {shards} -o OUT --weights int8:channel", ".crumb"),
    "quantize resumed": ("quantize {model} -o OUT --weights int4:channel --resume", ".crumb"),
    "quantize by a recipe": ("quantize {model} -o OUT --recipe {recipe.yaml}", ".crumb"),
    "quantize by a target": ("quantize {model} -o OUT --target 9bpw", ".crumb"),
    "quantize by gptq": ("quantize {net.onnx} -o OUT --weights int4:channel --stages gptq --data {x.npy}", ".crumb"),
    "quantize a graph": ("quantize {ext.onnx} -o OUT --weights int8:channel", ".onnx"),
    "merge": (f"merge {{shards}} --adapter {{lora}} -o OUT --shard {SHARDS}", "/"),
    "merge onto the grid": ("merge {m.crumb} --adapter {lora} -o OUT", ".crumb"),
    "export hf": (f"export {{m.crumb}} --to hf -o OUT --shard {SHARDS}", "/"),
    "export compressed-tensors": ("export {m.crumb} --to compressed-tensors -o OUT", "/"),
    "export gguf": ("export {bare.crumb} --to gguf -o OUT", ".gguf"),
    "export qcdq": ("export {q.onnx} --to qcdq -o OUT", ".onnx"),
    "export float": ("export {ext.onnx} --to float -o OUT", ".onnx"),
    "convert": ("convert {m.gguf} OUT", ".crumb"),
    "dequantize": (f"dequantize {{m.crumb}} -o OUT --shard {SHARDS}", "/"),
    "dequantize to a file": ("dequantize {m.crumb} -o OUT", ".safetensors"),
    "passes": ("passes {ext.onnx} -o OUT tidy", ".onnx"),
    "passes of a checkpoint": ("passes {shards} -o OUT fold-norms", "/"),
    "run": ("run {net.onnx} --input {x.npy} --output OUT", ".npy"),
    "generate": ("generate {m.crumb} --prompt-file {prompt.txt} --tokens 4 --save-cache OUT", ".cache"),
    "eval": ("eval {net.onnx} --baseline {net.onnx} --data {x.npy} --report OUT", ".html"),
    "quantize with a report": ("quantize {net.onnx} --dry-run --weights int4:channel --report OUT", ".md"),
    "inspect": ("inspect {net.onnx} --svg OUT", ".svg"),
    "lint": ("lint {q.onnx} --for onnxruntime --fix OUT", ".onnx"),
}  # fmt: skip
ENGINE_VERBS = {
    "quantize on samples": ("quantize {net.onnx} -o OUT --scheme W8A8 --data {samples}", ".onnx"),
    "hls4ml project": ("export {q.onnx} --to hls4ml-project -o OUT --input-range x=-4:4", "/"),
    "finn project": ("export {q.onnx} --to finn-project -o OUT --input-range x=-4:4", "/"),
}
# That keep what is in their folder: {OUT} is a place, and single files are the outputs.
PLACES = {
    "run into a folder": "run {net.onnx} --input {x.npy} --output-dir OUT",
    "verify": "verify {q.onnx} --accumulator --witness OUT",
    "sweep": "sweep {net.onnx} --formats int4 --data {x.npy} -o OUT --keep-files",
}


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tree(folder):
    """All that lies in a folder: {relative name: what it is}."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = "-> " + os.readlink(path)
        else:
            found[name] = "folder" if path.is_dir() else digest(path)
    return found


def content(path):
    return tree(path) if path.is_dir() else digest(path)


class Field:
    """A folder with the materials, and commands that are run in it."""

    def __init__(self, crumb_bin, folder, materials):
        self.bin, self.root = crumb_bin, folder
        folder.mkdir()
        self.inputs = folder / "in"
        shutil.copytree(materials, self.inputs)
        self.clean = tree(self.inputs)
        self.work = folder / "work"
        self.expected, self.seconds = {}, {}

    def command(self, text, out):
        names = [self.inputs / part.strip("{}") if part.startswith("{") else part for part in text.split()]
        return [str(self.bin), *(str(out) if name == "OUT" else str(name) for name in names)]

    def given(self, text):
        return [self.inputs / part.strip("{}") for part in text.split() if part.startswith("{")]

    def run(self, command, limit=None, **keywords):
        def before():
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=self.work, stdin=subprocess.DEVNULL,
                              preexec_fn=before if limit is not None else None, **keywords)  # fmt: skip

    def learn(self, name, text, ending):
        """What an undisturbed run writes, and how long it takes."""
        self.fresh()
        out = self.work / ("learned" + ending.strip("/"))
        start = time.monotonic()
        done = self.run(self.command(text, out))
        assert done.returncode in (0, 1) and out.exists(), (name, done.stderr)
        self.seconds[name] = time.monotonic() - start
        self.expected[name] = content(out)
        assert [path.name for path in self.work.iterdir() if not path.name.startswith("learned")] == []

    def fresh(self):
        if self.work.exists():
            shutil.rmtree(self.work)
        self.work.mkdir()

    def restore(self):
        """Takes away what a draw put among the inputs; they themselves must be as they were."""
        found = tree(self.inputs)
        lost = {name: what for name, what in self.clean.items() if found.get(name) != what}
        for name in sorted(set(found) - set(self.clean), reverse=True):
            path = self.inputs / name
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()
        return lost


@pytest.fixture(scope="module")
def materials(crumb, tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs") / "materials"
    write_materials(crumb, folder)
    return folder


@pytest.fixture(scope="module")
def field(crumb_bin, materials, tmp_path_factory):
    made = Field(crumb_bin, tmp_path_factory.mktemp("field") / "f", materials)
    for name, (text, ending) in VERBS.items():
        made.learn(name, text, ending)
    return made


# --- Where outputs are drawn -----------------------------------------------------------------------------------------


def files_of(path):
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def draw_place(rng, field, text, ending):
    """(what it is, the output's path, whether it must be refused)."""
    given = rng.choice(field.given(text))
    file = rng.choice(files_of(given))
    suffix = ending.strip("/")
    is_folder = ending == "/"
    plain = field.work / ("out" + suffix)
    kind = rng.choice(["new", "new", "relative", "old", "foreign", "same", "inside", "around", "link", "hard", "partial", "foreign partial",
                       "spelled", "dangling", "no folder", "a file as folder"])  # fmt: skip
    if kind == "relative":
        return kind, Path("out" + suffix), False
    if kind == "old":  # what it wrote itself
        return kind, plain, False
    if kind == "foreign":  # a folder or a file of somebody
        if is_folder:
            plain.mkdir()
            (plain / "mine.txt").write_text("mine")
            return kind, plain, True
        plain.write_text("an older output")
        return kind, plain, False
    if kind == "same":
        return kind, given if is_folder else file, True
    if kind == "inside":
        folder = given if given.is_dir() else None
        may_lie_there = suffix in (".crumb", ".gguf")  # of which no reader of folders takes any
        return (kind, folder / ("out" + suffix), None if may_lie_there else True) if folder else ("new", plain, False)
    if kind == "around":  # the folder that holds it: an output only where folders are written
        return (kind, file.parent, True) if is_folder else ("new", plain, False)
    if kind == "link":
        plain.symlink_to(given if is_folder else file)
        return kind, plain, True
    if kind == "hard":
        if is_folder:
            plain.mkdir()
            os.link(file, plain / file.name)
            return kind, plain, True
        os.link(file, plain)
        return kind, plain, True
    if kind == "partial":
        partial = plain.with_name(plain.name + ".partial")
        if is_folder:
            partial.symlink_to(given if given.is_dir() else given.parent)
        else:
            os.link(file, partial)
        return kind, plain, True
    if kind == "foreign partial":
        partial = plain.with_name(plain.name + ".partial")
        if is_folder:
            partial.mkdir()
            (partial / "mine.txt").write_text("mine")
        else:
            partial.write_text("mine")
        return kind, plain, True
    if kind == "spelled":
        base = given if is_folder else file
        return kind, base.parent / "." / ".." / base.parent.name / base.name, True
    if kind == "dangling":
        plain.symlink_to("nowhere/at/all")
        return kind, plain, True if is_folder else None
    if kind == "no folder":
        return kind, field.work / "no" / "such" / plain.name, None
    if kind == "a file as folder":
        (field.work / "file").write_text("x")
        return kind, field.work / "file" / plain.name, True
    return "new", plain, False


def disturb(rng, field, name, command):
    """Runs a command to an end that is drawn: (whether it came to its own end, its exit code, what it said)."""
    end = rng.choice(["none", "none", "none", "kill", "interrupt", "limit"])
    if end == "none":
        done = field.run(command)
        return "none", done.returncode, done.stderr
    if end == "limit":
        done = field.run(command, limit=rng.choice([0, 64, 512, 4096, 16384]))
        return "limit", done.returncode, done.stderr
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=field.work, stdin=subprocess.DEVNULL)
    time.sleep(rng.uniform(0, 1.1) * field.seconds[name])
    process.send_signal(signal.SIGKILL if end == "kill" else signal.SIGINT)
    _, said = process.communicate(timeout=60)
    return end, process.returncode, said


def check_drawn(field, rng, verbs):
    name = rng.choice(sorted(verbs))
    text, ending = verbs[name]
    field.fresh()
    kind, out, is_refused = draw_place(rng, field, text, ending)
    at = field.work / out
    if kind == "old":
        assert field.run(field.command(text, out)).returncode in (0, 1)
    before = tree(field.work)
    old = content(at) if at.exists() else None
    end, code, said = disturb(rng, field, name, field.command(text, out))
    story = (name, kind, str(out), end, code, said)

    assert field.restore() == {}, story  # inputs keep their bytes, always
    after = tree(field.work)
    own = {str(p.relative_to(field.work)) for p in [at, *(at.rglob("*") if at.is_dir() and not at.is_symlink() else [])]
           if field.work in p.parents and p.exists()}  # fmt: skip
    ours = {n for n in after if ".partial" in n or n.endswith(".recipe.yaml") or n.split("/")[0] == "no"} - set(before)
    for path, what in before.items():  # what was there stays, but for the output itself
        if path not in own and (field.work / path).resolve() != at.resolve():
            assert after.get(path) == what, (path, story)
    assert set(after) - set(before) - own - ours == set(), story  # nothing else appears
    if end != "kill":
        left = {n for n in ours if ".partial" in n}
        assert not left or "--resume" in text, (left, story)
    if is_refused and end == "none":
        assert code != 0 and said.startswith("crumb: "), story
        assert tree(field.work) == before, story
        if kind in ("same", "link", "hard", "inside", "spelled", "partial") and ending != "/":
            assert "input" in said or "ends in" in said or "is GGUF" in said or "folder" in said or "no run of crumb" in said, story
    if at.exists() and not is_refused and (name, end) == ("generate", "interrupt") and content(at) not in (old, field.expected[name]):
        done = field.run([*field.command("generate {m.crumb} --prompt-file {prompt.txt} --tokens 1", out), "--load-cache", str(at)])
        assert done.returncode == 0, (story, done.stderr)  # what it had until then, whole
    elif at.exists() and not is_refused:
        assert content(at) in (old, field.expected[name]), story  # the old or the new, whole
    if end == "none" and is_refused is False:
        assert content(at) == field.expected[name], story
    if end == "kill" and is_refused is False:  # what it left is no obstacle
        done = field.run(field.command(text, out))
        assert content(at) == field.expected[name], (story, done.stderr)
        assert not [p for p in field.work.rglob("*.partial*")], story
    return kind, end


def check_many(field, verbs, count, seed):
    rng = random.Random(seed)
    seen = {}
    for _ in range(count):
        kind, end = check_drawn(field, rng, verbs)
        seen[kind] = seen.get(kind, 0) + 1
        seen[end] = seen.get(end, 0) + 1
    return seen


def test_drawn_outputs_of_every_verb(field):
    seen = check_many(field, VERBS, DRAWN, seed=1)
    assert len(seen) == 15 + 4, seen  # every kind of place and every end


@pytest.mark.slow
def test_ten_thousand_drawn_outputs(field):
    check_many(field, VERBS, 10_000, seed=2)


# --- What was seen ---------------------------------------------------------------------------------------------------


def test_merge_into_its_own_input_is_refused_before_any_work(field):
    """The second merge took its input for an earlier output of its own, and removed it when it failed."""
    field.fresh()
    first = field.work / "d"
    command = [str(field.bin), "merge", str(field.inputs / "shards"), "--adapter", str(field.inputs / "lora"), "-o", str(first), "--shard", SHARDS]
    assert field.run(command).returncode == 0
    before = tree(first)
    (field.work / "link").symlink_to("d")
    for name in ("d", "d/", "link", "./d/../link", "d/model.safetensors.index.json"):
        for out in ("d", "link", "../work/d"):
            for more in ([], ["--shard", "1GB"]):
                done = field.run([str(field.bin), "merge", name, "--adapter", str(field.inputs / "lora"), "-o", out, *more])
                assert done.returncode == 2 and "input" in done.stderr and "never modified" in done.stderr, (name, out, done.stderr)
                assert tree(first) == before
    inside = field.run([str(field.bin), "merge", "d", "--adapter", str(field.inputs / "lora"), "-o", "d/e"])
    assert inside.returncode == 2 and "lies in the input" in inside.stderr
    assert field.run(command).returncode == 0 and tree(first) == before  # its own earlier output is replaced
    assert field.restore() == {}


@pytest.mark.parametrize("text", list(PLACES.values()), ids=list(PLACES))
def test_folders_that_keep_what_is_there_keep_inputs_too(field, text):
    field.fresh()
    for out in ("out", "../in", "../in/samples", "out"):
        done = field.run(field.command(text, out))
        assert field.restore() == {}, done.stderr
        assert done.returncode == 0, done.stderr
    (field.work / "file").write_text("mine")
    for out in ("file", "file/in"):
        done = field.run(field.command(text, out))
        assert done.returncode in (1, 2) and "file" in done.stderr
    assert (field.work / "file").read_text() == "mine"


def test_an_output_of_a_folder_that_would_be_an_input_is_refused(field):
    field.fresh()
    shutil.copy(field.inputs / "x.npy", field.work / "y.npy")
    done = field.run([str(field.bin), "run", str(field.inputs / "net.onnx"), "--input", "y.npy", "--output-dir", "."])
    assert done.returncode == 2 and "'./y.npy' is one of the inputs" in done.stderr
    assert digest(field.work / "y.npy") == digest(field.inputs / "x.npy")


def test_a_folder_without_permission_and_a_limit_are_known_before_work(field):
    field.fresh()
    command = field.command(VERBS["merge"][0], field.work / "out")
    done = field.run(command, limit=4096)
    assert done.returncode == 1 and "File too large" in done.stderr and "ulimit" in done.stderr
    assert list(field.work.iterdir()) == []


@pytest.mark.parametrize("name", ["merge", "dequantize", "export hf", "quantize", "passes of a checkpoint"])
def test_two_runs_at_once_leave_one_whole_output(field, name):
    text, ending = VERBS[name]
    for _ in range(3):
        field.fresh()
        out = field.work / ("out" + ending.strip("/"))
        command = field.command(text, out)
        runs = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=field.work) for _ in range(4)]
        said = [run.communicate(timeout=60)[1] for run in runs]
        assert any(run.returncode == 0 for run in runs), said
        for run, text_of_run in zip(runs, said, strict=True):
            assert run.returncode == 0 or "another run is w" in text_of_run, text_of_run
        assert content(out) == field.expected[name]
        assert [path.name for path in field.work.iterdir()] == [out.name]


# --- With LibTorch: fewer ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine_field(engine, crumb_bin, materials, tmp_path_factory):
    made = Field(crumb_bin, tmp_path_factory.mktemp("engine") / "f", materials)
    for name, (text, ending) in ENGINE_VERBS.items():
        made.learn(name, text, ending)
    return made


def test_drawn_outputs_of_verbs_with_libtorch(engine_field):
    check_many(engine_field, ENGINE_VERBS, 16, seed=3)


@pytest.mark.slow
def test_more_drawn_outputs_of_verbs_with_libtorch(engine_field):
    check_many(engine_field, ENGINE_VERBS, 500, seed=4)


@pytest.mark.parametrize("name", ["hls4ml project", "finn project"])
def test_two_runs_at_once_into_one_project_leave_it_whole(engine_field, name):
    field = engine_field
    field.fresh()
    command = field.command(VERBS.get(name, ENGINE_VERBS[name])[0], field.work / "proj")
    runs = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=field.work) for _ in range(2)]
    said = [run.communicate(timeout=120)[1] for run in runs]
    assert sorted(run.returncode == 0 for run in runs) in ([False, True], [True, True]), said
    for run, text in zip(runs, said, strict=True):
        if run.returncode:
            assert ("another run is writing it now" in text and "process " in text) or "no empty folder" in text, text
    assert content(field.work / "proj") == field.expected[name]
    assert [path.name for path in field.work.iterdir()] == ["proj"]


TRAIN = "train {net.onnx} --data {x.npy} --labels {labels.npy} --loss ce --epochs 1 --float-epochs 1 -o OUT"


def test_training_keeps_its_inputs_and_what_is_in_its_folder(engine_field):
    field = engine_field
    field.fresh()
    for name, message in (("log.jsonl", "is one of the inputs"), ("model.onnx", "is one of the inputs")):
        shutil.copy(field.inputs / ("x.npy" if name == "log.jsonl" else "net.onnx"), field.work / name)
        text = TRAIN.replace("{x.npy}" if name == "log.jsonl" else "{net.onnx}", name)
        done = field.run(field.command(text, "."))
        assert done.returncode == 2 and message in done.stderr, done.stderr
        (field.work / name).unlink()
    out = field.work / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    rng = random.Random(7)
    for _ in range(2):  # ended somewhere, and continued
        process = subprocess.Popen(field.command(TRAIN, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=field.work)
        time.sleep(rng.uniform(0.3, 2))
        process.kill()
        process.wait()
        assert (out / "mine.txt").read_text() == "mine"
    done = field.run(field.command(TRAIN, out))
    assert done.returncode == 0, done.stderr
    assert (out / "mine.txt").read_text() == "mine" and (out / "model.crumb").exists()
    assert not list(out.glob("*.partial"))
    assert field.restore() == {}
