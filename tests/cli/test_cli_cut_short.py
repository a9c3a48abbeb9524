"""Files that become shorter while crumb has them mapped: an error, not a signal.

A library in front of the system's mmap cuts a file right after it is mapped, so that the first byte that is read is gone:
every time, where another process would have to be quick.
"""

import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import helper
from safetensors.numpy import save_file
from sample_checkpoints import write_gguf

CUTTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Cuts the file $CUT to nothing as soon as it is mapped. */
void* mmap(void* where, size_t size, int access, int flags, int file, off_t offset) {
  void* (*map)(void*, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, "mmap");
  void* mapped = map(where, size, access, flags, file, offset);
  const char* victim = getenv("CUT");
  struct stat one, other;
  if (file >= 0 && victim && !fstat(file, &one) && !stat(victim, &other) && one.st_dev == other.st_dev &&
      one.st_ino == other.st_ino && truncate(victim, 0))
    abort();
  return mapped;
}
void* mmap64(void*, size_t, int, int, int, off_t) __attribute__((alias("mmap")));
"""


@pytest.fixture(scope="module")
def cutter(tmp_path_factory):
    compiler = shutil.which("cc") or pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("cutter")
    (folder / "cutter.c").write_text(CUTTER)
    command = [compiler, "-shared", "-fPIC", folder / "cutter.c", "-o", folder / "cutter.so", "-ldl"]
    subprocess.run(command, check=True)
    return folder / "cutter.so"


def cut(cutter, victim, *command):
    environment = {**os.environ, "LD_PRELOAD": str(cutter), "CUT": str(victim)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, cwd=victim.parent)


def test_a_program_that_knows_nothing_of_it_dies_of_the_signal(cutter, tmp_path):
    (tmp_path / "x").write_bytes(bytes(10))
    read = "import mmap; file = open('x'); print(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)[0])"
    assert cut(cutter, tmp_path / "x", sys.executable, "-c", read).returncode == -signal.SIGBUS


@pytest.mark.parametrize(
    "victim, command",
    [
        ("m.crumb", "verify m.crumb"),
        ("m.crumb", "inspect m.crumb"),
        ("m.crumb", "dequantize m.crumb -o made"),
        ("m.safetensors", "inspect m.safetensors"),
        ("m.safetensors", "quantize m.safetensors -o made --weights int4:channel"),
        ("r.yaml", "quantize m.safetensors -o made --recipe r.yaml"),
        ("m.npz", "inspect m.npz"),
        ("m.gguf", "inspect m.gguf"),
        ("m.gguf", "dequantize m.gguf -o made"),
        ("m.onnx", "inspect m.onnx"),
        ("m.onnx", "cost m.onnx"),
        ("m.onnx", "eval m.onnx --baseline m.onnx --data x.npy"),
        ("y.txt", "eval m.onnx --baseline m.onnx --data x.npy --labels y.txt"),
    ],
)
def test_a_file_that_is_cut_while_it_is_mapped_is_an_error(crumb, crumb_bin, cutter, tmp_path, victim, command):
    values = {"a.weight": np.arange(4096, dtype=np.float32).reshape(64, 64)}
    save_file(values, tmp_path / "m.safetensors")
    np.savez(tmp_path / "m.npz", **values)
    write_gguf(tmp_path / "m.gguf", values)
    (tmp_path / "r.yaml").write_text("version: 1\n")
    np.save(tmp_path / "x.npy", np.ones(2, np.float32))
    (tmp_path / "y.txt").write_text("1\n1\n")
    crumb("quantize", tmp_path / "m.safetensors", "-o", tmp_path / "m.crumb", "--weights", "int8")
    x, y = (helper.make_tensor_value_info(name, 1, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "graph", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), tmp_path / "m.onnx")
    there = set(tmp_path.iterdir())

    done = cut(cutter, tmp_path / victim, crumb_bin, *command.split())
    assert (tmp_path / victim).stat().st_size == 0
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "crumb: a file was cut short, or can no longer be read, while it was being read\n"
    assert set(tmp_path.iterdir()) == there
