"""Runs case folders (model.onnx, test_data_set_*/{input,output}_*.pb) through a program that executes them."""

import os
import subprocess
from collections import namedtuple
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]

Verdict = namedtuple("Verdict", "state why")  # state: passed, failed, unsupported, refused


def case_runner(name, lacking):
    """run(folders, *flags) gives a Verdict for each folder, by build/tests/NAME, or what $NAME in capitals says instead;
    the test is skipped where that was not built: `lacking` says why."""
    binary = Path(os.environ.get(name.upper(), REPO / "build" / "tests" / name))
    if not binary.is_file():
        pytest.skip(f"{binary.name} was not built ({lacking})")

    def run(folders, *flags) -> dict:
        verdicts = {}
        folders = [str(folder) for folder in folders]
        for start in range(0, len(folders), 500):
            part = folders[start : start + 500]
            done = subprocess.run([binary, *flags, *part], capture_output=True, text=True, timeout=1200)
            for line in done.stdout.splitlines():
                state, folder, why = line.split("\t", 2)
                verdicts[folder] = Verdict(state, why)
            missing = [folder for folder in part if folder not in verdicts]
            assert done.returncode == 0 and not missing, (
                f"{binary.name} ended with {done.returncode}, before {missing[:1]}: {done.stderr[-2000:]}"
            )
        return verdicts

    return run
