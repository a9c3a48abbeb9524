"""libcrumb_jobs.so, as a program in another language calls it."""

import ctypes
import json
import os
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

NOTE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int)
PROGRESS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64)
OK, ERROR, USAGE, CANCELLED = range(4)


class Watcher(ctypes.Structure):  # crumb_watcher
    _fields_ = [("note", NOTE), ("progress", PROGRESS), ("context", ctypes.c_void_p)]


@pytest.fixture(scope="module")
def library(crumb_bin):
    path = crumb_bin.parent / "libcrumb_jobs.so"
    if not path.exists():
        pytest.skip(f"{path} was not built")
    library = ctypes.CDLL(str(path))
    library.crumb_jobs_error.restype = library.crumb_jobs_version.restype = ctypes.c_char_p
    library.crumb_jobs_free.argtypes = [ctypes.c_void_p]
    return library


def encoded(value):
    return None if value is None else str(value).encode()


def quantize(library, source, output, recipe, options=None, watcher=None):
    """(status, report or None, what crumb_jobs_error says)."""
    report = ctypes.c_void_p()
    text = None if options is None else json.dumps(options)
    status = library.crumb_quantize(encoded(source), encoded(output), encoded(recipe), encoded(text), ctypes.byref(watcher) if watcher else None, ctypes.byref(report))
    made = json.loads(ctypes.string_at(report)) if report else None
    library.crumb_jobs_free(report)
    return status, made, library.crumb_jobs_error().decode()


@pytest.fixture
def network(tmp_path):
    draw = np.random.default_rng(3)
    constants = [numpy_helper.from_array(draw.normal(size=size).astype(np.float32), name) for name, size in {"a": (12, 24), "b": (24, 6)}.items()]
    nodes = [helper.make_node("MatMul", ["x", "a"], ["h"]), helper.make_node("Relu", ["h"], ["r"]), helper.make_node("MatMul", ["r", "b"], ["y"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size]) for name, size in (("x", 12), ("y", 6))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "net.onnx")
    np.save(tmp_path / "x.npy", draw.normal(size=(40, 12)).astype(np.float32))
    return tmp_path / "net.onnx"


def test_the_header_is_c(repo, tmp_path):
    (tmp_path / "a.c").write_text('#include "crumb_jobs.h"\nint main(void) { return crumb_quantize("", "", "", 0, 0, 0) == CRUMB_JOBS_OK; }\n')
    subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", tmp_path / "a.c", "-I", repo / "jobs/c", "-o", tmp_path / "a.o"], check=True)


def test_it_shows_its_own_names_alone(crumb_bin, library):
    shown = subprocess.run(["nm", "-D", "--defined-only", crumb_bin.parent / "libcrumb_jobs.so"], capture_output=True, text=True, check=True).stdout
    assert {line.split()[-1] for line in shown.splitlines()} == {"crumb_quantize", "crumb_jobs_error", "crumb_jobs_free", "crumb_jobs_version"}


def test_the_file_and_the_report_are_the_commands(library, crumb, network, tmp_path):
    recipe = tmp_path / "r.yaml"
    recipe.write_text("weights: int4:channel\nactivations: uint8:tensor\n")
    notes, steps = [], []
    watcher = Watcher(NOTE(lambda _, text, is_warning: notes.append(text.decode())), PROGRESS(lambda _, what, items, done, all: steps.append((done, all)) or 0), None)
    data = str(tmp_path / "x.npy")
    status, report, error = quantize(library, network, tmp_path / "job.crumb", recipe.read_text(), {"data": [data]}, watcher)
    assert status == OK, error
    said = json.loads(crumb("quantize", network, "-o", tmp_path / "command.crumb", "--recipe", recipe, "--data", data, "--json").stdout)
    assert (tmp_path / "job.crumb").read_bytes() == (tmp_path / "command.crumb").read_bytes()
    for different in ("output", "seconds", "peak_rss_bytes"):
        del said[different], report[different]
    assert report == said
    assert report["notes"] == notes and steps and all(done <= every for done, every in steps)
    # Another form, by the other options.
    status, report, error = quantize(library, network, tmp_path / "job.onnx", "weights: int8:channel\n", {"as": "network", "to": "qcdq", "opset": 19, "shapes": {"x": [1, 12]}, "threads": 1})
    assert status == OK, error
    made = onnx.load(tmp_path / "job.onnx")
    assert {entry.version for entry in made.opset_import if entry.domain == ""} == {19}
    assert "DequantizeLinear" in {node.op_type for node in made.graph.node}
    assert quantize(library, network, tmp_path / "none.crumb", "weights: int8\n", {"dry_run": True})[1]["dry_run"]
    assert not (tmp_path / "none.crumb").exists()


def test_a_watcher_ends_the_job(library, network, tmp_path):
    (tmp_path / "q.crumb").write_bytes(b"mine")
    watcher = Watcher(NOTE(), PROGRESS(lambda *_: 1), None)
    status, report, error = quantize(library, network, tmp_path / "q.crumb", "weights: int8\n", {"as": "tensors"}, watcher)
    assert (status, report) == (CANCELLED, None) and "watcher" in error
    assert (tmp_path / "q.crumb").read_bytes() == b"mine"
    assert not list(tmp_path.glob("q.crumb.*"))


def test_what_is_wrong_is_said(library, network, tmp_path):
    output = tmp_path / "q.crumb"
    wrong = [
        ("weights: int9\n", None, USAGE, "int9"),
        ("weight: int8\n", None, USAGE, "did you mean 'weights'?"),
        ("weights: int8\n", {"dat": ["x.npy"]}, USAGE, "unknown key 'dat', did you mean 'data'?"),
        ("weights: int8\n", {"data": "x.npy"}, USAGE, "data: expected a list"),
        ("weights: int8\n", {"threads": -1}, USAGE, "threads: expected a whole number"),
        ("weights: int8\n", {"threads": 2**40}, USAGE, "threads: expected a whole number"),
        ("weights: int8\n", {"dry_run": 1}, USAGE, "dry_run: expected true or false"),
        ("weights: int8\n", {"as": "graph"}, USAGE, "as: expected"),
        ("weights: int8\n", {"to": "tflite"}, USAGE, "tflite"),
        ("weights: int8\n", {"shapes": {"x": 3}}, USAGE, "shapes: expected a list"),
        ("weights: int8\n", [1], USAGE, "expected a JSON object"),
        ("weights: int8\n", {"as": "tensors", "data": ["x.npy"]}, USAGE, "are for networks"),
        ("weights: int8\n", {"as": "tensors", "to": "qcdq"}, USAGE, "are for networks"),
        ("weights: int8\n", {"as": "tensors", "opset": 13}, USAGE, "are for networks"),
        ("weights: int8\n", {"as": "network", "key": "model"}, USAGE, "a key is for checkpoints"),
        ("weights: int8\n", {"tokens": 5}, USAGE, "no data are given"),
        ("weights: int8\n", {"device": "cpu"}, USAGE, "no data are given"),
        ("weights: int8\nactivations: int8\n", None, USAGE, "calibration data"),
    ]
    for recipe, options, expected, words in wrong:
        status, report, error = quantize(library, network, output, recipe, options)
        assert (status, report) == (expected, None) and words in error, (recipe, options, status, error)
    status, _, error = quantize(library, network, tmp_path / "tensors.onnx", "weights: int8\n", {"as": "tensors"})
    assert status == USAGE and "written as a packed file" in error and not (tmp_path / "tensors.onnx").exists()
    status, _, error = quantize(library, tmp_path / "absent.onnx", output, "weights: int8\n")
    assert status == ERROR and "absent.onnx" in error
    assert library.crumb_quantize(None, None, None, None, None, None) == USAGE
    (tmp_path / "old.crumb").write_bytes(b"kept")
    status, _, error = quantize(library, tmp_path / "old.crumb", tmp_path / "old.crumb", "weights: int8\n")
    assert status != OK and (tmp_path / "old.crumb").read_bytes() == b"kept"
    assert not output.exists()


def test_a_program_with_libtorch_beside_the_library(crumb_bin, library, network, tmp_path):
    """The library opens the engine that lies beside it, from a program that knows nothing of either."""
    if not (crumb_bin.parent / "libcrumb_engine.so").exists():
        pytest.skip("libcrumb_engine.so was not built")
    program = f"""
import ctypes, sys
library = ctypes.CDLL({str(crumb_bin.parent / "libcrumb_jobs.so")!r})
library.crumb_jobs_error.restype = ctypes.c_char_p
options = b'{{"data": ["{tmp_path / "x.npy"}"], "device": "cpu"}}'
status = library.crumb_quantize({encoded(network)!r}, {encoded(tmp_path / "t.crumb")!r}, b"weights: int8\\nactivations: uint8\\n", options, None, None)
print(status, library.crumb_jobs_error().decode())
"""
    environment = {key: value for key, value in os.environ.items() if key != "CRUMB_ENGINE"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert re.fullmatch("0 \n", done.stdout), (done.stdout, done.stderr)
    assert (tmp_path / "t.crumb").stat().st_size > 0
