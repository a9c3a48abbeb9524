"""The README's picture is drawn from reports of crumb sweep, which say what the command says now."""

import json
import subprocess

import pytest


def test_the_picture_is_that_of_the_reports(repo, tmp_path):
    drawn = tmp_path / "drawn.svg"
    subprocess.run([repo / "scripts/picture", "-o", drawn], check=True, capture_output=True)
    committed = repo / "docs/pictures/quality_and_size.svg"
    assert drawn.read_text() == committed.read_text(), "scripts/picture draws it anew"
    for name in ["encoder", "language"]:
        rows = json.loads((repo / f"docs/pictures/{name}.json").read_text())["rows"]
        assert len(rows) >= 5 and not any(row["failed"] for row in rows)
        assert all(row["format"].split(":")[0] in drawn.read_text() for row in rows if row["format"] != "float32")


@pytest.mark.slow
def test_the_encoders_cells_are_what_they_were(repo, crumb, minilm, tmp_path):
    """Those of four bits: codes and sums are the same on every processor (docs/runtime.md), scores to the last bits of a sum of floats."""
    import os
    from pathlib import Path

    cache = Path(os.environ.get("CRUMB_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crumb")
    text = cache / "lm_text/calib.txt"
    if not text.is_file():
        pytest.skip("the texts are not there (scripts/setup tests)")
    crumb("sweep", minilm, "--formats", "int4:group=32", "--methods", "rounding,gptq", "--data", text, "--tokens", 8192,
          "--valid", repo / "examples/sentences.txt", "--metric", "cosine", "--against", "bytes", "-o", tmp_path / "s")  # fmt: skip

    def cells(path):
        return {(row["format"], row["method"]): row for row in json.loads(path.read_text())["rows"]}

    now, then = cells(tmp_path / "s/sweep.json"), cells(repo / "docs/pictures/encoder.json")
    assert len(now) == 3
    for name, row in now.items():
        assert row["bytes"] == then[name]["bytes"]
        assert row["scores"]["cosine"] == pytest.approx(then[name]["scores"]["cosine"], abs=1e-9)
