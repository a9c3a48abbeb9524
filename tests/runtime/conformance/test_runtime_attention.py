"""The cases of Attention and RotaryEmbedding that LibTorch's engine is tested with, on the runtime's own kernels."""

import sys
from pathlib import Path

import pytest
from case_runner import REPO

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "libtorch" / "execute"))
import test_onnx_attention as drawn  # noqa: E402

CASES = [drawn.test_attention, drawn.test_attention_of_padded_caches, drawn.test_scores_before_the_cap, drawn.test_rotary_embedding]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_runtime_passes(case, tmp_path, monkeypatch, crumb):
    binary = REPO / "build" / "tests" / "crumb_runtime_cases"
    if not binary.is_file():
        pytest.skip(f"{binary.name} was not built (cmake --build --preset release)")
    known = crumb("run", "--operators").stdout.split()
    assert {"Attention", "RotaryEmbedding"} <= set(known)  # nothing is expanded
    monkeypatch.setenv("CRUMB_ONNX_CASES", str(binary))
    case(tmp_path)
