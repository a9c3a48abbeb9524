"""ONNX's conformance suite on the runtime: every case that it takes passes; what it does not take is said by name."""

import collections
import re
from pathlib import Path

import onnx
import pytest
from case_runner import case_runner

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
LEAST = {"node": 1397, "simple": 6, "pytorch-operator": 35, "pytorch-converted": 82}  # cases that pass today

RANDOM = "test_bernoulli"  # the numbers of another generator


@pytest.fixture(scope="module")
def cases():
    return case_runner("crumb_runtime_cases", "cmake --build --preset release")


@pytest.mark.parametrize("suite", LEAST)
def test_suite(suite, cases, capsys):
    folders = sorted(path for path in (DATA / suite).glob("*") if (path / "model.onnx").is_file())
    folders = [path for path in folders if not path.name.startswith(RANDOM)]
    if not folders:
        pytest.skip(f"the onnx package has no test data for {suite}")
    verdicts = cases(folders)
    states = collections.Counter(verdict.state for verdict in verdicts.values())
    lacking = collections.Counter(
        name for v in verdicts.values() if v.state == "unsupported" for name in re.findall(r"\(([\w.:]+)\)", v.why)
    )
    with capsys.disabled():
        print(f"\n{suite} on the runtime: {dict(states)}; lacking most: {lacking.most_common(12)}")
    wrong = [f"{Path(folder).name}: {v.why}" for folder, v in verdicts.items() if v.state == "failed"]
    assert not wrong, f"{len(wrong)} of {len(verdicts)} cases fail:\n" + "\n".join(wrong[:20])
    assert states["passed"] >= LEAST[suite]
