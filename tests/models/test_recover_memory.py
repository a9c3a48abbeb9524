"""Recovery holds no float copy of its base: a step's peak memory is that of the codes, the adapter and what crosses layers."""

import numpy as np
import pytest
from llama_shaped import LETTERS, peak_of, write_llama

pytestmark = pytest.mark.usefixtures("engine")


def recovery(crumb, crumb_bin, work, name, length, **shape):
    weights = write_llama(work / name, **shape)
    crumb("quantize", work / name, "-o", work / f"{name}.crumb", "--weights", "int2h:group=32", "--embeddings", "int4:group=32")
    rng = np.random.default_rng(1)
    (work / "text.txt").write_text("".join(rng.choice(list(LETTERS[:-1]), 4 * length)))
    kept = ["--teacher-logits", work / f"{name}.logits", "--top-k", 16]
    how = ["--data", work / "text.txt", "--length", length, "--batch", 1, "--steps", 1, "--threads", 1, "--recompute", "--rank", 4]
    crumb("recover", work / f"{name}.crumb", "--baseline", work / name, *kept, *how, "-o", work / "first")
    # Where the heap's blocks are depends on the length of paths, and sometimes two matrices stay between small blocks: a copy
    # that is held is there in every run.
    peaks = [
        peak_of(crumb_bin, work, "recover", work / f"{name}.crumb", *kept, *how, "-o", work / f"{name}_{'o' * length}")
        for length in (3, 40)
    ]
    return weights, min(peaks)


def test_no_float_copy_of_the_base_is_held(crumb, crumb_bin, tmp_path):
    small, least = recovery(crumb, crumb_bin, tmp_path, "small", 32, hidden=64, inner=128, layers=2, vocabulary=64)
    large, peak = recovery(crumb, crumb_bin, tmp_path, "large", 32, hidden=1024, inner=3072, layers=10, vocabulary=2048)
    assert large - small > 100e6
    # Codes, scales, an adapter with its gradients and two moments, and some matrices that are decoded at a time.
    assert peak - least < 0.4 * 4 * (large - small), (peak, least)


@pytest.mark.slow
def test_a_billion_weights_recover_in_four_gigabytes(crumb, crumb_bin, tmp_path):
    weights, peak = recovery(crumb, crumb_bin, tmp_path, "billion", 128, hidden=2048, inner=5632, layers=22, vocabulary=32000)
    assert weights > 1e9
    assert peak < 4e9, peak
