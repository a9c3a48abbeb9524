"""Comparison of what two programs compute from one network."""

from pathlib import Path

import numpy as np
import pytest

# Bounds that hold for every order of sums at once multiply from one float convolution to the next, and add up behind all
# values that are near a boundary.
KNOWN_TO = {
    "espcn_nn_resize_quant": 0.02,
    "espcn_subpixel_quant": 0.02,
    "espcn_nn_resize_float": 0.01,
    "espcn_subpixel_float": 0.05,
}

# Two programs differ by far less: a value of espcn's first layer that gets the other code reaches 18 x 18 elements of
# three channels, 0.5 % of the image, and there may be two.
LARGEST_SHARE = 0.01


@pytest.fixture
def check_agree(check_computes, tmp_path):
    """check_agree(model, x, found, want): both are what the ONNX file computes from x, and almost everywhere the same."""

    def check(model, x, found, want):
        for y in (found, want):
            check_computes(model, x, y, tmp_path, KNOWN_TO.get(Path(model).stem, 1e-3))
        off = np.abs(found - want) > 1e-5 * np.abs(want).max()
        assert off.mean() <= LARGEST_SHARE

    return check
