"""How the tests of this folder ask what is known of a file's values."""

import json
import os
import subprocess
from pathlib import Path

import onnx
import pytest


@pytest.fixture(scope="session")
def facts(crumb_bin):
    """facts("constants", model, path): the program's JSON of a model, which is written to the path (main.cpp)."""
    binary = Path(os.environ.get("CRUMB_GRAPH_FACTS", crumb_bin.parent / "tests" / "crumb_graph_facts"))
    assert binary.is_file(), f"{binary} has not been built"

    def call(what, model, path):
        onnx.save(model, path)
        done = subprocess.run([binary, what, path], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return call
