"""libcrumb.so and its examples, as somebody else builds and runs them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples/digits"


@pytest.fixture(scope="module")
def library(crumb_bin):
    path = crumb_bin.parent / "libcrumb.so"
    if not path.exists():
        pytest.skip(f"{path} was not built")
    return path


def say(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True, **options).stdout


def right_of(text):
    """"199 of 200 digits are right"."""
    words = text.splitlines()[-1].split()
    assert words[1] == "of"
    return int(words[0]), int(words[2])


def test_the_c_example_classifies_digits(library, tmp_path):
    program = tmp_path / "classify"
    say("cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", DIGITS / "classify.c", "-I", ROOT / "runtime",
        "-L", library.parent, "-lcrumb", f"-Wl,-rpath,{library.parent}", "-o", program)  # fmt: skip
    right, all = right_of(say(program, DIGITS / "digits_cnn.crumb", DIGITS / "digits.txt"))
    assert all >= 100 and right >= 0.98 * all
    failed = subprocess.run([program, DIGITS / "digits.txt", DIGITS / "digits.txt"], capture_output=True, text=True)
    assert failed.returncode == 1 and "not a packed file" in failed.stderr


def test_the_python_example_classifies_digits(library):
    program = DIGITS / "classify.py"
    assert right_of(say(sys.executable, program, library, DIGITS / "digits_cnn.crumb", DIGITS / "digits.txt"))[0] >= 98
    assert len(program.read_text().splitlines()) < 60


def test_the_command_gives_the_same_classes(library, crumb, tmp_path):
    import numpy as np

    lines = [line.split() for line in (DIGITS / "digits.txt").read_text().splitlines() if not line.startswith("#")]
    rows = np.array(lines, np.float32)
    np.save(tmp_path / "x.npy", rows[:, 1:].reshape(-1, 1, 8, 8))
    crumb("run", DIGITS / "digits_cnn.crumb", "--engine", "runtime", "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert (np.load(tmp_path / "y.npy").argmax(1) == rows[:, 0]).mean() >= 0.98


def test_the_library_is_small_and_shows_its_own_names_alone(library, tmp_path):
    stripped = tmp_path / "libcrumb.so"
    say("strip", "-o", stripped, library)
    assert stripped.stat().st_size < 2_000_000
    shown = [line.split()[-1] for line in say("nm", "-D", "--defined-only", library).splitlines()]
    assert "crumb_run" in shown and all(name.startswith("crumb_") for name in shown)
    needed = [line.split()[-1] for line in say("readelf", "-d", library).splitlines() if "NEEDED" in line]
    for heavy in ("torch", "protobuf", "onnx", "yaml", "c10"):
        assert not any(heavy in name for name in needed), needed


def test_the_header_is_plain_c_and_plain_cpp(tmp_path):
    (tmp_path / "a.c").write_text("#include <crumb.h>\nint main(void) { return crumb_error() == 0; }\n")
    (tmp_path / "a.cpp").write_text("#include <crumb.h>\nint main() { return crumb_error() == nullptr; }\n")
    for compiler, standard, name in (("cc", "c99", "a.c"), ("c++", "c++11", "a.cpp")):
        say(compiler, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", ROOT / "runtime",
            tmp_path / name, env=os.environ)  # fmt: skip
