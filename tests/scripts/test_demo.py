"""scripts/demo: its rows are commands that crumb takes, what is recorded is there, and all of it runs (slow)."""

import json
import re
import subprocess
import sys

import pytest

FIGURES = {"encoder": {"bytes", "rate", "seconds", "mean_cosine", "least_cosine", "spearman"},
           "language": {"bytes", "seconds", "perplexity", "float_perplexity", "kl", "same", "answers", "exact", "fast"}}  # fmt: skip


@pytest.fixture(scope="module")
def parts(repo):
    """parts(name): a module of scripts/demo_parts."""
    sys.path.insert(0, str(repo / "scripts/demo_parts"))
    yield __import__
    sys.path.pop(0)


@pytest.mark.parametrize("section", FIGURES)
def test_each_recorded_row_has_its_figures(parts, repo, section):
    recorded = json.loads((repo / "scripts/demo_parts/recorded.json").read_text())[section]
    rows = [row for row in parts(section).ROWS if row.recorded]
    assert {row.name for row in rows} == set(recorded)
    for row in rows:
        assert set(recorded[row.name]) - {"on"} == FIGURES[section] | {"made"}


@pytest.mark.parametrize("section", FIGURES)
def test_crumb_takes_the_commands(parts, crumb_bin, tmp_path, section):
    for row in parts(section).ROWS:
        for command in row.commands:
            done = subprocess.run([crumb_bin, *command.split()], cwd=tmp_path, capture_output=True, text=True)
            # Of an empty folder the file that is missing is all that is wrong.
            missing = parts(section).MODEL if command.startswith("quantize") else r"(train\.txt|train_sentences\.txt|" + parts(section).MODEL + ")"
            assert done.returncode != 0 and re.search(rf"(cannot open|no such|does not exist|cannot read)[^\n]*{missing}", done.stderr, re.I), done.stderr


def test_notes_come_once_and_a_failure_ends_the_demo(parts, tmp_path, capsys):
    fake = tmp_path / "crumb"
    fake.write_text('#!/bin/sh\necho "note: the same" >&2\necho "rounding 1/2 layers, 1 s left" >&2\nseq 1 20000\nexit "$1"\n')
    fake.chmod(0o755)
    crumb = parts("terminal").Crumb(fake, tmp_path)
    for _ in range(3):
        assert crumb("something", 0).splitlines()[-1] == "20000"
    crumb.say_notes()
    assert capsys.readouterr().out == "note: the same\n"
    with pytest.raises(SystemExit) as ended:
        crumb("something", 5)
    assert ended.value.code == 5 and "this failed" in capsys.readouterr().err


@pytest.mark.slow
def test_the_whole_demo(repo, tmp_path):
    done = subprocess.run([repo / "scripts/demo", tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for row in ["8     int8:channel", "4     int4:group=32   gptq", "3 *", "2 *", "of 200 digits are right", "Worth trying next"]:
        assert row in done.stdout
    assert done.stdout.count("What to take:") == 2
