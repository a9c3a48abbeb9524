"""scripts/fuzz: what a target's end is taken for. Stand-ins play the targets."""

import importlib.machinery
import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "fuzz"
# It writes a finding when it fuzzes, and ends with $again when it is given one input.
STAND_IN = """#!/bin/bash
for word in "$@"; do case $word in -artifact_prefix=*) prefix=${word#*=} ;; esac; done
[[ -n ${prefix:-} ]] || exit AGAIN
for kind in KINDS; do
  touch "$prefix$kind-1"
  printf 'SUMMARY: libFuzzer: %s\\nTest unit written to %s\\nBase64: AAAA\\n' "$kind" "$prefix$kind-1" >&2
done
exit 70
"""


@pytest.fixture
def fuzz(tmp_path):
    loader = importlib.machinery.SourceFileLoader("fuzz", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("fuzz", loader))
    loader.exec_module(module)
    module.ROOT, module.BUILD, module.SEEDS = tmp_path, tmp_path / "build-fuzz", tmp_path / "seeds"
    return module


@pytest.mark.parametrize(
    ("kinds", "again", "passes"),
    [("timeout", 0, True), ("oom", 0, True), ("timeout slow-unit", 0, True), ("timeout", 1, False), ("oom", 1, False),
     ("crash", 0, False), ("timeout crash", 0, False), ("", 0, False)],
)  # fmt: skip
def test_only_what_happens_again_is_a_finding(fuzz, tmp_path, capsys, kinds, again, passes):
    program = tmp_path / "build-dev/tests/fuzz/fuzz_x"
    program.parent.mkdir(parents=True)
    program.write_text(STAND_IN.replace("AGAIN", str(again)).replace("KINDS", kinds))
    program.chmod(0o755)
    assert fuzz.run("dev", "x", []) == passes
    said = capsys.readouterr().out
    assert ("not again:" in said) == passes and ("FOUND: x:" in said) != passes
    if kinds and not passes:
        assert "FOUND: x: Base64: AAAA" in said
