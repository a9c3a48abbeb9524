"""Runs a script of this folder with the packages of the environment clients/loaders."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest


def run(script, *arguments):
    cache = Path(os.environ.get("CRUMB_CACHE") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "crumb")
    found = sorted(cache.glob("clients/loaders/lib/python3*/site-packages"))
    if not found:
        pytest.skip("bitsandbytes and auto-round are not installed (scripts/setup tests)")
    environment = {**os.environ, "PYTHONPATH": str(found[0]), "TORCHDYNAMO_DISABLE": "1"}  # what it would compile is small
    command = [sys.executable, Path(__file__).parent / script, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def expect_values(found, expected):
    """The same tensors, in float32, bit for bit."""
    assert found.keys() == expected.keys()
    for name, meant in expected.items():
        assert str(found[name].dtype) == "torch.float32" and found[name].shape == meant.shape, name
        ours, theirs = found[name].numpy().view(np.uint32), meant.numpy().view(np.uint32)
        assert (ours == theirs).all(), f"{name} {list(meant.shape)}: {(ours != theirs).sum()} differ"
