"""scripts/same_outputs runs every verb and every pass that there is, and names those that it lacks."""

import sys

import pytest

pytest.importorskip("numpy")
pytest.importorskip("onnx")


@pytest.fixture
def lines(repo, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(repo / "scripts"))
    from outputs.commands import commands, missing

    yield list(commands(tmp_path, quick=False)), missing
    for name in [name for name in sys.modules if name.split(".")[0] == "outputs"]:
        del sys.modules[name]


def test_all_verbs_and_passes_are_run(crumb_bin, lines):
    assert list(lines[1](crumb_bin, lines[0], has_minilm=False)) == []


def test_what_has_no_line_is_named(crumb_bin, lines):
    fewer = [line for line in lines[0] if line[0] != "perplexity" and "opset-17" not in line]
    assert set(lines[1](crumb_bin, fewer, has_minilm=True)) == {
        "no line runs the verb embed, and LEFT_OUT has no reason",
        "no line runs the verb perplexity, and LEFT_OUT has no reason",
        "no line runs the pass opset-17",
    }
