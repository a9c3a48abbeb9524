"""How tests read a checkpoint by crumb."""

import pytest


@pytest.fixture
def values(crumb, tmp_path):
    """Every tensor of a checkpoint as crumb reads it: kept in a packed file, and from there to safetensors."""
    safetensors_torch = pytest.importorskip("safetensors.torch")

    def read(path, *options):
        packed, plain = tmp_path / "values.crumb", tmp_path / "values.safetensors"
        crumb("quantize", path, "-o", packed, "--weights", "keep", "--embeddings", "keep", *options)
        crumb("dequantize", packed, "-o", plain)
        return safetensors_torch.load_file(plain)

    return read


@pytest.fixture
def refusal(crumb):
    """What crumb says when it refuses a file."""

    def read(path, *options):
        return crumb("inspect", path, *options, status=1).stderr

    return read
