"""Every command that the README and the pages of docs/ show runs, and prints what they say (tests/docs/shown_commands.py).

A page's sessions run in order in one folder, in which are: all-MiniLM-L6-v2, SmolLM2-135M-Instruct.Q4_1.gguf, the texts of
scripts/setup tests (calib.txt, train.txt, valid.txt), net.onnx, a small network in floats, with samples x.npy and their classes
y.npy, the folders examples/, runtime/ and build/, and smollm2, what `crumb passes ... fold-norms` makes.
"""

import os
import re
import subprocess
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import shown_commands

ROOT = Path(__file__).resolve().parents[2]
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if "\n$ " in page.read_text()]
LATER = {"slow", "shortened", "not run"}  # marks of what an ordinary run leaves out
CUT = 16000  # bytes of each text, for commands that are shortened: some 4,000 tokens
QUICK = [page for page in PAGES if any(not s.marks & LATER for s in shown_commands.sessions(page.read_text()))]
SLOW = [page for page in PAGES if any(s.marks & {"slow", "shortened"} for s in shown_commands.sessions(page.read_text()))]


def make_network(crumb, folder):
    """net.onnx, x.npy and y.npy out of examples/digits: its network without the quantizers of activations."""
    import numpy as np
    import onnx

    lines = [line.split() for line in (ROOT / "examples/digits/digits.txt").read_text().splitlines() if not line.startswith("#")]
    rows = np.array(lines, np.float32)
    np.save(folder / "x.npy", rows[:, 1:].reshape(-1, 1, 8, 8))
    np.save(folder / "y.npy", rows[:, 0].astype(np.int64))
    crumb("export", ROOT / "examples/digits/digits_cnn.crumb", "-o", folder / "net.onnx", "--to", "float")
    model = onnx.load(folder / "net.onnx")  # x / s, clipped, rounded, times s: four nodes called NAME_quant_div, ..., NAME_quant
    nodes = {node.name: node for node in model.graph.node}
    goes = {nodes[name.removesuffix("_div")].output[0]: node.input[0] for name, node in nodes.items() if name.endswith("_quant_div")}
    assert len(goes) == 4
    kept = [node for name, node in nodes.items() if not re.search(r"_quant(_\w+)?$", name)]
    for node in kept:
        node.input[:] = [goes.get(name, name) for name in node.input]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    onnx.checker.check_model(model)
    onnx.save(model, folder / "net.onnx")


@pytest.fixture
def place(crumb, crumb_bin, minilm, smollm2, tmp_path):
    """place(text): the folder in which a page's commands run; what they name of it is there."""
    cache = Path(os.environ.get("CRUMB_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crumb")
    texts = [cache / "lm_text" / name for name in ["calib.txt", "train.txt", "valid.txt"]]
    if not all(text.is_file() for text in texts):
        pytest.skip("the texts are not there (scripts/setup tests)")

    def place(text):
        for path in [*texts, smollm2, ROOT / "examples", ROOT / "runtime", ROOT / "docs"]:
            (tmp_path / path.name).symlink_to(path)
        (tmp_path / "all-MiniLM-L6-v2").symlink_to(minilm)
        (tmp_path / "build").symlink_to(crumb_bin.parent)
        if re.search(r"\b(net\.onnx|[xy]\.npy)\b", text):
            make_network(crumb, tmp_path)
        if re.search(r" smollm2\b(?!\.)", text) and " -o smollm2 fold-norms" not in text:
            crumb("passes", smollm2, "-o", tmp_path / "smollm2", "fold-norms")
        return tmp_path

    return place


@contextmanager
def cut_texts(folder):
    """While it lasts, the texts of scripts/setup tests are their first lines."""
    whole = {path: path.readlink() for path in folder.glob("*.txt") if path.is_symlink()}
    for path, target in whole.items():
        lines = target.read_bytes()[:CUT].rpartition(b"\n")[0] + b"\n"
        path.unlink()
        path.write_bytes(lines)
    yield
    for path, target in whole.items():
        path.unlink()
        path.symlink_to(target)


def run(commands, crumb_bin, folder, marks):
    with cut_texts(folder) if "shortened" in marks else nullcontext():
        return faults_of(commands, crumb_bin, folder, marks)


def faults_of(commands, crumb_bin, folder, marks):
    environment = {**os.environ, "PATH": f"{crumb_bin.parent}:{os.environ['PATH']}", "LC_ALL": "C"}
    faults = []
    for command in commands:
        line = shown_commands.shortened(command.line) if "shortened" in marks else command.line
        done = subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=7200)  # fmt: skip
        notes = [line for line in done.stderr.splitlines() if line.startswith(("note: ", "warning: "))]
        fault = shown_commands.fault_of(command, done.stdout.splitlines(), marks)
        if fault and notes and command.printed:  # notes are shown, too, where a page has them
            fault = shown_commands.fault_of(command, notes + done.stdout.splitlines(), marks)
        if done.returncode != 0:
            fault = f"$ {line}\n  exit code {done.returncode}: {done.stderr[-2000:]}"
        faults += [fault] if fault else []
    return faults


# Of the table: a minute and more on a machine that has other work.
LONG = re.compile(r"--target|--data calib\.txt")


def table_commands():
    """What the README's table says to run."""
    return re.findall(r"^\|.*\| `(crumb [^`]*)` \|$", (ROOT / "README.md").read_text(), re.M)


def check(page, crumb_bin, place, wanted):
    text = page.read_text()
    chosen = [session for session in shown_commands.sessions(text) if wanted(session.marks)]
    table = table_commands() if page.name == "README.md" else []
    ran = [command.line for session in chosen for command in session.commands]
    folder = place("\n".join([*ran, *table]))
    faults = [fault for session in chosen for fault in run(session.commands, crumb_bin, folder, session.marks)]
    rest = [line for line in table if line not in ran and (wanted({"slow"}) or not LONG.search(line))]
    faults += run([shown_commands.Command(line) for line in rest], crumb_bin, folder, set())
    assert not faults, f"{page.name}:\n" + "\n".join(faults)


@pytest.mark.parametrize("page", QUICK, ids=lambda page: page.name)
def test_what_is_shown_is_what_is_printed(page, crumb_bin, engine, place):
    check(page, crumb_bin, place, lambda marks: not marks & LATER)


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW, ids=lambda page: page.name)
def test_what_is_shown_and_takes_long_is_what_is_printed(page, crumb_bin, engine, place):
    check(page, crumb_bin, place, lambda marks: "not run" not in marks)


def test_the_table_is_read():
    commands = table_commands()
    assert len(commands) >= 10 and 2 <= sum(bool(LONG.search(line)) for line in commands) <= 4


def test_a_readme_that_one_can_read():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200


def test_links_lead_somewhere():
    """Files of the repository, and headings within pages."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    gone = []
    for page in pages:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
            path, _, heading = target.partition("#")
            if re.match(r"\w+:", target):
                continue
            file = page.parent / path if path else page
            if not file.exists() or (heading and heading not in anchors(file)):
                gone.append(f"{page.relative_to(ROOT)}: {target}")
    assert not gone


def anchors(page):
    """Headings as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).strip().replace(" ", "-") for heading in headings}


def test_the_index_has_every_page():
    index = (ROOT / "docs/README.md").read_text()
    assert not [page.name for page in (ROOT / "docs").glob("*.md") if page.name != "README.md" and f"]({page.name})" not in index]


class TestSessions:
    """The comparison itself: what differs is seen, what may differ is not."""

    PAGE = "text\n\n<!-- seconds last -->\n```\n$ crumb a\none 1.5 in 0.2 s\n...\nlast 7\n```\n\n<!-- not run: no tool -->\n```\n$ b\n```\n```\n$ c\n```\n"

    def test_blocks_are_found_with_their_marks(self):
        first, second, third = shown_commands.sessions(self.PAGE)
        assert (first.marks, second.marks, third.marks) == ({"seconds last"}, {"not run"}, set())
        assert second.reason == "no tool" and [command.line for command in first.commands] == ["crumb a"]

    def test_what_takes_hours_is_shortened(self):
        page = "<!-- shortened: hours -->\n```\n$ a --steps 800 --seed 7 --tokens 32768\n12 steps in 3 hours\n```\n"
        [session] = shown_commands.sessions(page)
        [command] = session.commands
        assert (session.marks, session.reason) == ({"shortened"}, "hours")
        assert shown_commands.shortened(command.line) == "a --steps 2 --seed 7 --tokens 1024"
        assert shown_commands.fault_of(command, ["2 steps in 0.1 hours"], session.marks) is None
        assert shown_commands.fault_of(command, ["2 stops in 0.1 hours"], session.marks) is not None

    def test_an_unknown_mark_is_an_error(self):
        with pytest.raises(AssertionError, match="none of"):
            shown_commands.sessions("<!-- sloww -->\n```\n$ a\n```\n")

    @pytest.mark.parametrize(("printed", "right"), [
        (["one 1.5 in 9.9 s", "last 7"], True), (["one 1.5 in 9.9 s", "x", "y", "last 7"], True),
        (["one 1.6 in 0.2 s", "last 7"], False), (["one 1.5 in 0.2 s", "last 8"], False), (["one 1.5 in 0.2 s"], False),
        (["x", "one 1.5 in 0.2 s", "last 7"], False), (["one 1.5 in 0.2 s", "last 7", "more"], False), ([], False),
        (["one 1.5 in 0.2 s", "last 7", "x", "last 7"], True)])  # fmt: skip
    def test_what_is_printed_is_compared(self, printed, right):
        [command] = shown_commands.sessions(self.PAGE)[0].commands
        assert (shown_commands.fault_of(command, printed, set()) is None) == right

    @pytest.mark.parametrize(("shown", "printed", "right"), [
        (["...", "a", "b", "..."], "abaxb", True), (["...", "a", "b", "..."], "axb", False), (["...", "a", "c"], "abac", True),
        (["...", "a", "c"], "abacx", False), (["a", "...", "a", "..."], "ax", False), (["a", "b"], "ab", True), (["a", "b"], "a", False),
        (["..."], "abc", True), ([], "abc", True), (["a"], "ab", False), (["a", "..."], "ba", False)])  # fmt: skip
    def test_lines_that_stand_together_are_printed_together(self, shown, printed, right):
        command = shown_commands.Command("a", shown)
        assert (shown_commands.fault_of(command, list(printed), set()) is None) == right

    @pytest.mark.parametrize(("printed", "right"), [("accuracy 0.98 of 360", True), ("accuracy 0.93 of 360", False),
                                                    ("accuracy 0.98 of 999", True), ("precision 0.98 of 360", False)])  # fmt: skip
    def test_trained_figures(self, printed, right):
        assert shown_commands.same_line("accuracy 0.9777 of 360", printed, {"trained"}) == right
        assert not shown_commands.same_line("accuracy 0.9777 of 360", printed, set())

    def test_seconds_of_tables(self):
        assert shown_commands.same_line("int4 0.5  1.3", "int4 0.5  9.9", {"seconds last"})
        assert not shown_commands.same_line("int4 0.5  1.3", "int4 0.6  1.3", {"seconds last"})
