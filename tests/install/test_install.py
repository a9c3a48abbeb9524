"""cmake --install, and find_package(crumb) from a project outside the repository."""

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "models"))


def run(*command, **keywords):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **keywords)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(repo, crumb_bin, tmp_path_factory):
    """An install prefix filled from the build that crumb_bin lies in."""
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", crumb_bin.parent, "--prefix", prefix)
    return prefix


def test_a_project_outside_builds_against_the_installed_libraries(repo, prefix, tmp_path):
    run("cmake", "-G", "Ninja", "-S", repo / "tests" / "install", "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path)
    assert run(tmp_path / "example").splitlines() == ["-7 -3 0 1 2 3 4 7 ", "Gemm gemm dense "]


@pytest.fixture(scope="module")
def jobs(repo, prefix, tmp_path_factory):
    """The folder of the examples of jobs/, built as a project outside."""
    folder = tmp_path_factory.mktemp("jobs")
    examples = f"-DEXAMPLES={repo / 'examples/jobs'}"
    run("cmake", "-G", "Ninja", "-S", repo / "tests/install/jobs", "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}", examples)
    run("cmake", "--build", folder)
    return folder


def environment_without_engine():
    """Nothing there can open LibTorch."""
    return {**os.environ, "CRUMB_ENGINE": "/nowhere/libcrumb_engine.so"}


def test_a_program_outside_quantizes_a_folder_to_the_commands_bytes(jobs, crumb_bin, short_minilm, tmp_path):
    recipe = tmp_path / "r.yaml"
    recipe.write_text("weights: int4:group=32:pad\n")
    quantized = run(jobs / "quantize_folder", short_minilm, tmp_path / "job.crumb", recipe.read_text())
    assert re.fullmatch(r"\d+ tensors, [\d.]+ MB from [\d.]+ MB, [\d.]+ bits a weight\n", quantized)
    run(crumb_bin, "quantize", short_minilm, "-o", tmp_path / "command.crumb", "--recipe", recipe)
    assert (tmp_path / "job.crumb").read_bytes() == (tmp_path / "command.crumb").read_bytes()


@pytest.fixture
def sampled(tmp_path):
    """m.onnx and x.npy in tmp_path."""
    numpy, onnx = pytest.importorskip("numpy"), pytest.importorskip("onnx")
    draw = numpy.random.default_rng(8)
    kind, helper = onnx.TensorProto.FLOAT, onnx.helper
    weights = {"w": draw.normal(size=(8, 3, 3, 3)), "v": draw.normal(size=(8 * 6 * 6, 5)) / 10}
    constants = [onnx.numpy_helper.from_array(value.astype(numpy.float32), name) for name, value in weights.items()]
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv"), helper.make_node("Relu", ["c"], ["r"]), helper.make_node("Flatten", ["r"], ["f"])]
    ends = [helper.make_tensor_value_info("x", kind, ["N", 3, 8, 8]), helper.make_tensor_value_info("y", kind, ["N", 5])]
    graph = helper.make_graph([*nodes, helper.make_node("MatMul", ["f", "v"], ["y"], "head")], "g", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    numpy.save(tmp_path / "x.npy", draw.normal(size=(40, 3, 8, 8)).astype(numpy.float32))
    return [tmp_path / "m.onnx", tmp_path / "x.npy"]


def test_a_program_outside_quantizes_a_network_by_samples_to_the_commands_bytes(jobs, crumb_bin, sampled, tmp_path):
    """And without LibTorch."""
    command = [jobs / "quantize_network", *sampled]
    said = run(*command, tmp_path / "job.crumb", env=environment_without_engine())
    assert float(re.search(r"output y: SQNR ([\d.]+) dB\n", said)[1]) > 25
    (tmp_path / "r.yaml").write_text("weights: int8:channel\nactivations: uint8:tensor\n")
    flags = ["--recipe", tmp_path / "r.yaml", "--data", tmp_path / "x.npy"]
    run(crumb_bin, "quantize", tmp_path / "m.onnx", "-o", tmp_path / "command.crumb", *flags)
    assert (tmp_path / "job.crumb").read_bytes() == (tmp_path / "command.crumb").read_bytes()
    # What fails says so, and leaves what was there.
    (tmp_path / "job.crumb").write_bytes(b"mine")
    for output in (tmp_path / "m.onnx", tmp_path / "x.npy", tmp_path / "no/such.crumb"):
        failed = subprocess.run([*map(str, command), str(output)], capture_output=True, text=True)
        assert failed.returncode == 1 and str(output) in failed.stderr, failed.stderr


def test_a_program_outside_merges_and_scores_as_the_command(jobs, crumb_bin, tmp_path):
    pytest.importorskip("torch"), pytest.importorskip("transformers")
    tiny = pytest.importorskip("tiny_decoders")
    tiny.make("llama3", tmp_path / "model")
    tiny.write_texts(tmp_path)
    adapted, text = tmp_path / "adapted.crumb", tmp_path / "valid.txt"
    run(crumb_bin, "quantize", tmp_path / "model", "-o", adapted, "--weights", "int4:group=16", "--stages", "low_rank:rank=2", "--data", tmp_path / "train.txt", "--tokens", "500")
    said = run(jobs / "merge_and_score", adapted, tmp_path / "job.crumb", text, env=environment_without_engine())
    run(crumb_bin, "merge", adapted, "-o", tmp_path / "command.crumb")
    assert (tmp_path / "job.crumb").read_bytes() == (tmp_path / "command.crumb").read_bytes()
    wanted = json.loads(run(crumb_bin, "perplexity", tmp_path / "command.crumb", "--text", text, "--baseline", adapted, "--context", "24", "--json"))
    assert said == f"perplexity {wanted['perplexity']:.4f}, KL divergence {wanted['kl_mean']:.6f} nats\n"
    failed = subprocess.run([jobs / "merge_and_score", tmp_path / "model", tmp_path / "no", text], capture_output=True, text=True)
    assert failed.returncode == 1 and "give adapters PATH" in failed.stderr


def test_a_program_that_exports_no_symbols_opens_libtorch(jobs, prefix, engine, sampled, tmp_path):
    """Both have the ONNX library's messages in them, and protobuf's registry in one shared library."""
    library = prefix / "lib/crumb/libcrumb_engine.so"
    if not library.is_file():
        pytest.skip(f"{engine} is of another build, and this one has none to install")
    environment = {**os.environ, "CRUMB_ENGINE": str(library)}
    said = run(jobs / "quantize_network", *sampled, tmp_path / "o.crumb", "cpu", env=environment)
    assert float(re.search(r"output y: SQNR ([\d.]+) dB\n", said)[1]) > 25
    failed = subprocess.run([jobs / "quantize_network", *sampled, tmp_path / "o.crumb", "nowhere"], env=environment, capture_output=True, text=True)
    assert failed.returncode == 1 and "nowhere" in failed.stderr, failed.stderr


def test_the_library_of_jobs_for_c_is_installed(prefix):
    [library] = prefix.glob("lib*/libcrumb_jobs.so")
    version = ctypes.CDLL(str(library)).crumb_jobs_version
    version.restype = ctypes.c_char_p
    assert version().decode() == run(prefix / "bin/crumb", "--version").split()[1]
    assert (prefix / "include/crumb_jobs.h").is_file()


def test_pkg_config_finds_the_library_where_it_lies(repo, prefix, tmp_path):
    """The prefix is moved after it was filled: the file names no folder of the machine that made it."""
    moved, digits, program = tmp_path / "moved", repo / "examples/digits", tmp_path / "classify"
    shutil.copytree(prefix, moved, symlinks=True)
    [folder] = {path.parent for path in moved.rglob("crumb.pc")}
    environment = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
    flags = run("pkg-config", "--cflags", "--libs", "crumb", env=environment).split()
    version = run("pkg-config", "--modversion", "crumb", env=environment)
    assert version.strip() == run(moved / "bin/crumb", "--version").split()[1]
    library = run("pkg-config", "--variable", "libdir", "crumb", env=environment).strip()
    run("cc", digits / "classify.c", *flags, f"-Wl,-rpath,{library}", "-o", program)
    assert "of 200 digits are right" in run(program, digits / "digits_cnn.crumb", digits / "digits.txt")


def shown_hooks(repo):
    """(includes, the other lines) of the training loop in docs/training.md."""
    blocks = re.findall(r"^```cpp\n(.*?)^```", (repo / "docs/training.md").read_text(), re.MULTILINE | re.DOTALL)
    [block] = [block for block in blocks if "qat::attach" in block]
    lines = block.split("\n")
    includes = [line for line in lines if line.startswith("#include")]
    return includes, [line for line in lines if line not in includes]


def test_the_training_loop_that_is_shown_is_a_program_outside(repo, prefix, engine, tmp_path):
    """Built against the installed libraries, run, and what it writes read by somebody else."""
    onnx = pytest.importorskip("onnx")
    if not (prefix / "lib/cmake/crumb/crumbTorchTargets.cmake").is_file():
        pytest.skip(f"{engine} is of another build, and this one has no LibTorch")
    includes, body = shown_hooks(repo)
    text = (repo / "tests/install/hooks/main.cpp.in").read_text()
    text = text.replace("@SHOWN_INCLUDES@", "\n".join(includes)).replace("@SHOWN_BODY@", "\n".join(body))
    project = tmp_path / "project"
    project.mkdir()
    (project / "main.cpp").write_text(text)
    (project / "CMakeLists.txt").write_text((repo / "tests/install/hooks/CMakeLists.txt").read_text())
    (project / "w4a4_acc12.yaml").write_text("version: 1\nweights: int4:channel\naccumulator: 12:a2q_plus\n")
    run("cmake", "-G", "Ninja", "-S", project, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    assert run(tmp_path / "build/hooks", cwd=project).endswith(" nodes\n")
    model = onnx.load(project / "model.onnx")
    assert [node.op_type for node in model.graph.node].count("Quant") == 2


def test_the_installed_command_runs(prefix):
    assert run(prefix / "bin" / "crumb", "--version").strip()


def test_the_installed_command_executes_graphs(prefix, engine, tmp_path):
    """It opens the library that lies in ../lib/crumb, whatever the environment says of others."""
    numpy, onnx = pytest.importorskip("numpy"), pytest.importorskip("onnx")
    if not (prefix / "lib/crumb/libcrumb_engine.so").is_file():
        pytest.skip(f"{engine} is of another build, and this one has none to install")
    kind = onnx.TensorProto.FLOAT
    info = [onnx.helper.make_tensor_value_info(name, kind, [2]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "g", info[:1], info[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    numpy.save(tmp_path / "x.npy", numpy.array([1, -2], numpy.float32))
    environment = {key: value for key, value in os.environ.items() if key != "CRUMB_ENGINE"}
    command = [prefix / "bin" / "crumb", "run", tmp_path / "m.onnx", "--input", tmp_path / "x.npy"]
    run(*command, "--output", tmp_path / "y.npy", env=environment)
    assert numpy.load(tmp_path / "y.npy").tolist() == [-1, 2]


def test_pages_and_completions_are_installed_as_the_command_writes_them(prefix):
    command = prefix / "bin" / "crumb"
    for shell, file in {"bash": "bash-completion/completions/crumb", "zsh": "zsh/site-functions/_crumb", "fish": "fish/vendor_completions.d/crumb.fish"}.items():
        assert (prefix / "share" / file).read_text() == run(command, "completion", shell)
    names = {path.name for path in (prefix / "share/man/man1").iterdir()}
    assert {"crumb.1", "crumb-quantize.1", "crumb-train-lm.1"} <= names
    assert {f"crumb-{verb}.1" for verb in re.findall(r"^  ([a-z]\w*) ", run(command, "--help"), re.MULTILINE)} <= names


def test_nothing_installed_names_the_source_tree(repo, prefix):
    for path in prefix.rglob("*"):
        if path.suffix in {".cmake", ".h", ".pc"}:
            assert str(repo) not in path.read_text(), path
