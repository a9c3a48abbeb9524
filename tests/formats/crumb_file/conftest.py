"""How the tests of this folder ask our reader about many files at once."""

import os
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def verdicts(crumb_bin):
    """verdicts(paths) gives our reader's line for each (verdicts.cpp)."""
    binary = Path(os.environ.get("CRUMB_VERDICTS", crumb_bin.parent / "tests" / "crumb_verdicts"))
    assert binary.is_file(), f"{binary} has not been built"

    def ask(paths):
        lines = "".join(f"{path}\n" for path in paths).encode()
        done = subprocess.run([binary], input=lines, capture_output=True, timeout=3000)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        answers = done.stdout.decode(errors="replace").split("\n")[:-1]
        assert len(answers) == len(paths), answers[-1:]
        return answers

    return ask
