"""What help says of every flag: the unit or form of its value and its default, in one group with its like."""

import re

import pytest
from help_pages import flags, verbs

FREE = {"MODEL", "FILE", "FOLDER", "DATA", "SPEC", "GLOB", "TEXT", "NAME", "SIZE", "IDS", "CONDITION"}  # what is not given is not there


@pytest.fixture(scope="module")
def pages(crumb):
    return {" ".join(verb): flags(crumb, verb) for verb in verbs(crumb)}


def test_train_has_a_verb_for_each_thing_that_is_trained(pages):
    assert {"train task", "train graph", "train lm", "train embed"} <= pages.keys() and "train" not in pages


def test_every_value_has_a_form_or_a_unit(pages):
    bare = [f"{verb} {flag.name} {flag.value}" for verb, all_flags in pages.items() for flag in all_flags
            if re.fullmatch(r"\[?(TEXT:.*|INT.*|UINT.*|FLOAT.*)\]?", flag.value) or (flag.value == "TEXT" and flag.name not in ("--prompt", "--system", "--stop"))]  # fmt: skip
    assert not bare


def test_numbers_and_choices_have_a_default(pages):
    """It stands in parentheses at the end, or the flag says what it does where it is given."""
    missing = []
    for verb, all_flags in pages.items():
        for flag in all_flags:
            text = re.sub(r" \[(not )?with .*\]$", "", flag.text)
            is_free = flag.is_required or not flag.value or set(re.split(r"[|=\[\],.]+", flag.value)) & FREE
            if not is_free and not re.search(r"\([^()]*(\([^()]*\)[^()]*)*\)(; once for each)?$", text):
                missing.append(f"{verb} {flag.name} {flag.value}: {text}")
    assert not [line for line in missing if not any(known in line for known in KNOWN)], "\n".join(missing)


# What is given, or is not there.
KNOWN = ("convert --to", "--scheme", "--shape", "--input-range", "run --accumulator", "verify --accumulator", "train graph --loss", "lint --for")


def test_groups_stand_together_and_no_line_is_wide(crumb, pages):
    for verb, all_flags in pages.items():
        groups = [flag.group for flag in all_flags]
        assert [group for at, group in enumerate(groups) if at == 0 or groups[at - 1] != group] == list(dict.fromkeys(groups)), verb
        assert "Options" not in groups, verb
        for line in crumb(*verb.split(), "--help").stdout.split("\n\nExample")[0].split("\n"):
            assert len(line) <= 110 or not line.startswith("  "), (verb, line)  # of verbs and flags


def test_flags_say_nothing_of_other_verbs(pages):
    for verb in ("train lm", "train embed", "train task", "train graph"):
        for flag in pages[verb]:
            assert not re.match(r"Of (lm|embed|MODEL|digits and)\b|For training:", flag.text), (verb, flag)
    names = {verb: {flag.name for flag in all_flags} for verb, all_flags in pages.items()}
    assert "--epochs" not in names["train lm"] and "--teacher" not in names["train embed"] and "--steps" not in names["train task"]
    assert "--data" not in names["train task"] and "--network" not in names["train graph"] and "--data-dir" not in names["train graph"]


OLD = [
    (["train", "digits"], ["train", "task", "digits"]),
    (["train", "-o", "{out}", "--seed", "1", "jets"], ["train", "task", "-o", "{out}", "--seed", "1", "jets"]),
    (["train", "none.onnx", "--data", "x.npy"], ["train", "graph", "none.onnx", "--data", "x.npy"]),
    (["train", "--valid", "digits", "x.npy", "none.onnx"], ["train", "graph", "--valid", "digits", "x.npy", "none.onnx"]),
    (["train", "--model", "digits", "lm"], ["train", "lm", "--model", "digits"]),
    (["train", "--steps", "-1", "embed"], ["train", "embed", "--steps", "-1"]),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), OLD, ids=[" ".join(old) for old, _ in OLD])
def test_old_spellings_do_the_same_with_a_note(crumb, tmp_path, old, new):
    """Both are refused alike (a folder that is a file, flags that are missing), the old one behind a note."""
    (tmp_path / "taken").write_text("")
    extra = [] if "-o" in old else ["-o", tmp_path / "taken"]
    expand = lambda words: [str(word).format(out=tmp_path / "taken") for word in words]  # noqa: E731
    before, now = (crumb(*expand(words), *extra, status=None) for words in (old, new))
    assert before.returncode == now.returncode != 0 and not now.stderr.startswith("note: ")
    note, rest = before.stderr.split("\n", 1)
    assert note.startswith("note: crumb train ") and f"crumb train {new[1]}" in note and rest == now.stderr


def test_help_of_an_old_spelling_is_that_of_the_new(crumb):
    assert crumb("train", "digits", "--help").stdout == crumb("train", "task", "--help").stdout
    assert crumb("help", "train", "lm").stdout == crumb("train", "lm", "--help").stdout


@pytest.mark.parametrize(("given", "said"), [
    (["train"], "see crumb train --help"),
    (["train", "lm", "--stepz", "3"], "did you mean '--steps'? (see crumb train lm --help)"),
    (["train", "task", "digit", "-o", "d"], "unknown task 'digit', did you mean 'digits'?"),
    (["train", "digt", "-o", "d"], "did you mean 'digits'?"),
])  # fmt: skip
def test_what_is_mistyped(crumb, given, said):
    assert said in crumb(*given, status=2).stderr
