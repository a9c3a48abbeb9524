"""$CRUMB_ISA and $CRUMB_THREADS: what kernels may use. Results do not depend on it, and what means nothing is refused."""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

SPECS = ["int4:group=32", "int2:channel", "nf4:group=64", "e2m1:group=16", "int8:tensor:search=mse"]


@pytest.mark.parametrize("spec", SPECS)
def test_files_do_not_depend_on_the_instruction_set(crumb, tmp_path, spec):
    random = np.random.default_rng(len(spec))
    save_file({"w": random.normal(size=(67, 320)).astype(np.float32)}, tmp_path / "w.safetensors")
    made = {}
    for isa in ["portable", "avx2", "avx512", "vnni", "amx", ""]:
        out, back = tmp_path / f"{isa}.crumb", tmp_path / f"{isa}.safetensors"
        environment = {**os.environ, "CRUMB_ISA": isa}
        crumb("quantize", tmp_path / "w.safetensors", "-o", out, "--weights", spec, env=environment)
        crumb("dequantize", out, "-o", back, env=environment)
        made[isa] = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (out, back)]
    assert len({tuple(hashes) for hashes in made.values()}) == 1, made


def test_what_is_no_instruction_set_is_refused_before_anything_is_done(crumb, tmp_path):
    done = crumb("formats", env={**os.environ, "CRUMB_ISA": "sse9"}, status=2)
    assert "portable, avx2, avx512, vnni or amx" in done.stderr and "sse9" in done.stderr and not done.stdout


@pytest.mark.parametrize("count", ["0", "-1", "two", "1.5", "4097", "1 "])
def test_what_is_no_number_of_threads_is_refused_before_anything_is_done(crumb, count):
    done = crumb("formats", env={**os.environ, "CRUMB_THREADS": count}, status=2)
    assert "CRUMB_THREADS" in done.stderr and f"'{count}'" in done.stderr and not done.stdout


def test_as_many_threads_are_used_as_it_says(crumb):
    digits = Path(__file__).parents[2] / "examples/digits/digits_cnn.crumb"
    for wanted, flags, used in [("3", [], 3), ("3", ["--threads", "2"], 2)]:
        done = crumb("bench", digits, "--seconds", 0.05, "--json", *flags, env={**os.environ, "CRUMB_THREADS": wanted})
        assert json.loads(done.stdout)["threads"] == used
