"""crumb-bench qat: it runs, and says of every row what it is."""

import json
import subprocess

import pytest

STEP_KEYS = {"case", "what", "threads", "against", "ours best ms", "ours median ms", "best ms", "median ms"}
KEYS = STEP_KEYS | {"times the float step", "ours GB/s", "GB/s", "times as fast"}


@pytest.fixture(scope="module")
def bench(crumb_bin, engine):
    path = crumb_bin.parent / "crumb-bench"
    if not path.is_file():
        pytest.skip(f"{path.name} was not built")
    return path


@pytest.mark.slow
def test_rows(bench):
    done = subprocess.run(
        [bench, "qat", "--threads", "1", "--repeats", "1", "--json"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert all(set(row) == KEYS for row in rows)
    assert all(row["threads"] == 1 and row["ours median ms"] > 0 and row["median ms"] > 0 for row in rows)
    steps = [row for row in rows if row["what"].startswith("step")]
    assert {(row["case"], row["what"]) for row in steps} == {
        (network, f"step, {hooks}")
        for network in ("cnn", "transformer")
        for hooks in ("attached W4A4", "attached W4A4, A2Q+", "captured W4A4")
    }
    for row in steps:
        assert row["against"] == "float"
        ratio = row["ours median ms"] / row["median ms"]
        assert row["times the float step"] == pytest.approx(ratio, rel=0.01)
        assert row["times as fast"] is None
    operators = [row for row in rows if row not in steps]
    assert {row["what"] for row in operators} == {"forward", "backward", "both"}
    names = {row["case"] for row in operators}
    own = "_fake_quantize_learnable_per_"
    for part, peers in (
        ("weights int4:channel", {"LibTorch's operators", own + "channel_affine"}),
        ("activations uint4:tensor", {"LibTorch's operators", own + "tensor_affine"}),
        ("A2Q+", {"LibTorch's operators"}),
    ):
        matching = {name for name in names if part in name}
        assert matching
        for name in matching:
            assert {row["against"] for row in operators if row["case"] == name} == peers
    for row in operators:
        assert row["ours GB/s"] > 0 and row["GB/s"] > 0 and row["times the float step"] is None
        assert row["times as fast"] == pytest.approx(row["median ms"] / row["ours median ms"], rel=0.02, abs=0.02)


def test_wrong_options(bench):
    done = subprocess.run([bench, "qat", "--spec", "int44"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "int44" in done.stderr
