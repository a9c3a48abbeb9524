"""A way to run case folders (model.onnx, test_data_set_*/{input,output}_*.pb) through Crumb's execution of graphs."""

from pathlib import Path

import pytest
from case_runner import case_runner


@pytest.fixture(scope="session")
def onnx_cases():
    """onnx_cases(folders, "--exact") gives a Verdict for each folder, on LibTorch."""
    return case_runner("crumb_onnx_cases", "it needs LibTorch")


@pytest.fixture
def assert_cases_pass(onnx_cases):
    """Fails with the first few folders that do not pass."""

    def check(folders, *flags):
        verdicts = onnx_cases(folders, *flags)
        wrong = {folder: verdict for folder, verdict in verdicts.items() if verdict.state != "passed"}
        shown = "\n".join(f"{v.state} {Path(folder).name}: {v.why}" for folder, v in list(wrong.items())[:8])
        assert not wrong, f"{len(wrong)} of {len(verdicts)} cases:\n{shown}"

    return check
