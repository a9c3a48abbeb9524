"""A way to run case folders (model.onnx, test_data_set_*/{input,output}_*.pb) through Crumb's execution of graphs."""

import os
import subprocess
from collections import namedtuple
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]

Verdict = namedtuple("Verdict", "state why")  # state: passed, failed, unsupported, refused


@pytest.fixture(scope="session")
def onnx_cases():
    """onnx_cases(folders, "--exact") gives a Verdict for each folder.

    The binary is $CRUMB_ONNX_CASES, else build/tests/crumb_onnx_cases; skips where it was not built (no LibTorch).
    """
    binary = Path(os.environ.get("CRUMB_ONNX_CASES", REPO / "build" / "tests" / "crumb_onnx_cases"))
    if not binary.is_file():
        pytest.skip(f"{binary.name} was not built (it needs LibTorch)")

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


@pytest.fixture
def assert_cases_pass(onnx_cases):
    """Fails with the first few folders that do not pass."""

    def check(folders, *flags):
        verdicts = onnx_cases(folders, *flags)
        wrong = {folder: verdict for folder, verdict in verdicts.items() if verdict.state != "passed"}
        shown = "\n".join(f"{v.state} {Path(folder).name}: {v.why}" for folder, v in list(wrong.items())[:8])
        assert not wrong, f"{len(wrong)} of {len(verdicts)} cases:\n{shown}"

    return check
