"""Adapters through Crumb: adapter_cases([{"in": ..., "as": ..., "out": ...}, ...]) gives what main.cpp beside this prints."""

import json
import os
import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def adapter_cases():
    program = Path(os.environ.get("CRUMB_ADAPTER_CASES", REPO / "build/tests/crumb_adapter_cases"))
    assert program.is_file(), f"{program} has not been built: cmake --preset release && cmake --build build"

    def run(cases):
        lines = "".join(json.dumps(case, default=str) + "\n" for case in cases)
        done = subprocess.run([program], input=lines, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(cases)
        return answers

    return run
