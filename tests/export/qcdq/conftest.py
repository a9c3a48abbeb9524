"""How the tests of this folder convert files."""

import os
import subprocess
from pathlib import Path

import onnx
import pytest


@pytest.fixture(scope="session")
def convert(crumb_bin):
    """convert("to", model or path, out, "--opset=21") writes out and gives the report's lines by kind."""
    binary = Path(os.environ.get("CRUMB_QCDQ_CASES", crumb_bin.parent / "tests" / "crumb_qcdq_cases"))
    assert binary.is_file(), f"{binary} has not been built"

    def call(way, source, out, *options, error=False):
        if not isinstance(source, (str, Path)):
            path = out.with_suffix(".in.onnx")
            onnx.save(source, path)
            source = path
        done = subprocess.run([binary, way, source, out, *options], capture_output=True, text=True, timeout=300)
        if error:
            assert done.returncode == 1, done
            return done.stderr
        assert done.returncode == 0, done.stderr
        onnx.checker.check_model(onnx.load(out))
        report = {}
        for line in done.stdout.splitlines():
            kind, node = line.split("\t")
            report.setdefault(kind, []).append(node)
        return report

    return call
