"""cmake --install, and find_package(crumb) from a project outside the repository."""

import os
import re
import shutil
import subprocess

import pytest


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
