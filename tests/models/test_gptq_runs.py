"""Runs of `crumb quantize --method gptq` that end before they are done go on with --resume byte for byte, refuse what is another
run, and trust nothing; and none holds the network in floats."""

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from llama_shaped import LETTERS, peak_of, write_llama

HOW = ["--weights", "int3:group=32", "--embeddings", "int8:channel", "--threads", "1"]
STAGES = {
    "gptq": ["--method", "gptq"],
    "plain": ["--stages", "gptq:float_inputs=off:sweeps=0:even=on"],
    "fisher": ["--stages", "fisher,gptq", "--set", "*proj.weight=palette3:channel"],
}


def write_text(path, count):
    rng = np.random.default_rng(1)
    path.write_text("".join(rng.choice(list(LETTERS[:-1]), count)))
    return path


class Run:
    """A command with an output, and ways to end it."""

    def __init__(self, crumb_bin, out, model, text, how):
        self.bin, self.out, self.model, self.text, self.how = crumb_bin, out, model, text, how
        self.state = out.with_name(f"{out.name}.partial.layers")
        self.partial = out.with_name(f"{out.name}.partial")
        self.journal = out.with_name(f"{out.name}.partial.journal")

    def command(self, *more):
        return list(map(str, [self.bin, "quantize", self.model, "-o", self.out, *self.how, "--data", self.text, "--json", *more]))

    def run(self, *more, **keywords):
        return subprocess.run(self.command(*more), capture_output=True, text=True, check=False, **keywords)

    def files(self):
        return sorted(self.state.glob("*.crumb"))

    def end_when(self, stations, rng, *more, by=signal.SIGKILL):
        """Ends a run at some moment after it has finished so many stations more; whether it was still on its way."""
        process = subprocess.Popen(self.command(*more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wanted = len(self.files()) + stations
        while process.poll() is None and len(self.files()) < wanted:
            time.sleep(0.0005)
        time.sleep(rng.uniform(0, 0.01))  # a station takes some milliseconds
        process.send_signal(by)
        process.wait(timeout=60)
        return process.returncode != 0

    def clear(self):
        for path in [*self.state.glob("*"), self.out, self.partial, self.journal]:
            path.unlink(missing_ok=True)


class Case(Run):
    """A run, and what it gives undisturbed."""

    def __init__(self, crumb_bin, folder, model, stages):
        super().__init__(crumb_bin, folder / "out.crumb", model, write_text(folder / "text.txt", 8 * 64), [*HOW, *stages])
        done = self.run()
        assert done.returncode == 0, done.stderr
        assert not self.state.exists()
        self.whole, self.report = self.out.read_bytes(), comparable(done.stdout)
        self.out.unlink()

    def leave(self, stations):
        """The state of a run that was killed after so many stations."""
        self.clear()
        assert self.end_when(stations, random.Random(0), "--resume"), "too quick to be killed"

    def assert_whole(self, done):
        assert done.returncode == 0, done.stderr
        assert self.out.read_bytes() == self.whole
        assert comparable(done.stdout) == self.report
        assert not self.state.exists() and not self.partial.exists() and not self.journal.exists()


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def comparable(text):
    """A report without what two runs never share."""
    report = json.loads(text)
    report.pop("seconds")
    report.pop("peak_rss_bytes", None)
    return report


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gptq_runs") / "model"
    write_llama(folder, hidden=64, inner=160, layers=3, vocabulary=64, positions=64)
    return folder


@pytest.fixture(scope="module")
def case(crumb_bin, model, tmp_path_factory):
    return Case(crumb_bin, tmp_path_factory.mktemp("case"), model, STAGES["gptq"])


@pytest.mark.parametrize("stages", ["gptq", "plain", "fisher"])
def test_killed_at_any_moment_and_continued_gives_the_same_file(crumb_bin, model, tmp_path, stages, request):
    if stages == "fisher":
        request.getfixturevalue("engine")
    case = Case(crumb_bin, tmp_path, model, STAGES[stages])
    rng = random.Random(stages)
    for i in range(5):
        deaths = 0
        for _ in range(20):
            if deaths == 0:
                case.clear()  # also behind one that finished before it could be killed
            if case.end_when(rng.randrange(0, 5), rng, *(["--resume"] if i % 3 or deaths else [])):
                deaths += 1
            if deaths == 3 or (deaths > 0 and case.out.exists()):
                break
        assert deaths > 0
        left = len(case.files())
        if case.out.exists():
            assert case.out.read_bytes() == case.whole
        done = case.run("--resume")
        assert ("note: continuing after" in done.stderr) == (left > 0), done.stderr
        case.assert_whole(done)


@pytest.mark.parametrize("other", [[], ["--stages", "rotate"]])
def test_what_was_left_does_not_outlive_a_run_that_has_no_such_files(case, other):
    """Codes of tensors alone, and a network without stages that round."""
    case.leave(2)
    command = [*case.command()[:5], *HOW, *other]
    if not other:  # which --resume is for
        before = {path: path.read_bytes() for path in case.files()}
        done = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "cannot continue" in done.stderr and "without --resume" in done.stderr, done.stderr
        assert "the run that was ended rounds layers on samples" in done.stderr
        assert before == {path: path.read_bytes() for path in case.files()} and before
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not case.state.exists() and not case.partial.exists() and not case.journal.exists() and case.out.exists()
    case.out.unlink()
    case.assert_whole(case.run("--resume"))


def test_what_a_run_of_tensors_alone_left_does_not_outlive_one_that_rounds(case):
    case.clear()
    command = [*case.command()[:5], *HOW, "--resume"]

    def little():
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=little)
    assert done.returncode != 0 and case.journal.exists() and case.partial.exists()
    left = case.journal.read_bytes(), case.partial.read_bytes()
    done = case.run("--resume")
    assert done.returncode == 1 and "cannot continue" in done.stderr and "without --resume" in done.stderr, done.stderr
    assert "the run that was ended quantizes tensors one by one" in done.stderr
    assert (case.journal.read_bytes(), case.partial.read_bytes()) == left
    case.assert_whole(case.run())
    assert not case.journal.exists()


def test_a_finished_run_that_was_not_written_is_only_written(case):
    case.clear()
    whole = len(case.whole)

    def less_than_the_output():
        resource.setrlimit(resource.RLIMIT_FSIZE, (whole - 1, whole - 1))

    done = case.run("--resume", preexec_fn=less_than_the_output)
    assert done.returncode != 0 and not case.out.exists()
    layers = sum(weight["spec"] is not None for weight in case.report["weights"])  # the table, too, which no sample chooses
    done = case.run("--resume")
    assert f"continuing after {layers} layers" in done.stderr
    case.assert_whole(done)


def test_without_resume_what_is_left_is_discarded(case):
    case.leave(4)
    done = case.run()
    assert "continu" not in done.stderr
    case.assert_whole(done)


def test_with_nothing_to_continue_it_starts_afresh_and_says_so(case):
    case.clear()
    done = case.run("--resume")
    assert "nothing to continue; starting afresh" in done.stderr
    case.assert_whole(done)


@pytest.mark.parametrize("resume", [False, True])
def test_ctrl_c_keeps_what_was_done_only_for_resume(case, resume):
    case.clear()
    assert case.end_when(4, random.Random(1), *(["--resume"] if resume else []), by=signal.SIGINT)
    assert (len(case.files()) >= 4) == resume
    assert case.state.exists() == resume


def test_damage_never_makes_a_wrong_file(case):
    rng = random.Random(7)
    case.leave(6)
    kept, journal = {path: path.read_bytes() for path in case.files()}, case.journal.read_bytes()
    for path in [*rng.sample(sorted(kept), 4), case.journal]:
        content = bytearray(kept.get(path, journal))
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        case.state.mkdir(exist_ok=True)
        case.state.chmod(0o1755)  # with the mark that a run leaves
        for other, whole in [*kept.items(), (case.journal, journal)]:
            other.write_bytes(content if other == path else whole)
        case.journal.chmod(0o1644)
        done = case.run("--resume")
        assert path != case.journal or "nothing to continue" in done.stderr
        case.assert_whole(done)
    # One that is missing: what is behind it does not count.
    case.state.mkdir(exist_ok=True)
    case.state.chmod(0o1755)
    for path, whole in [*list(kept.items())[1:], (case.journal, journal)]:
        path.write_bytes(whole)
    done = case.run("--resume")
    assert "nothing to continue" in done.stderr
    case.assert_whole(done)


def test_other_runs_are_refused(case, tmp_path):
    case.leave(3)
    before = {path: path.read_bytes() for path in case.files()}
    other = write_text(tmp_path / "other.txt", 9 * 64)
    for more, said in (
        (["--tokens", "256"], "the recipe differs"),
        (["--set", "lm_head.weight=int4:group=32"], "the recipe differs"),
        (["--data", other], "the input"),
    ):
        done = case.run("--resume", *more)
        assert done.returncode == 1 and "cannot continue" in done.stderr and said in done.stderr, done.stderr
        assert {path: path.read_bytes() for path in case.files()} == before
    os.utime(case.text)
    done = case.run("--resume")
    assert done.returncode == 1 and "'text.txt'" in done.stderr and "was modified" in done.stderr, done.stderr
    done = case.run()
    case.assert_whole(done)


def test_only_what_rounds_on_samples_is_resumed(case):
    command = [str(case.bin), "quantize", str(case.model), "-o", str(case.out), *HOW, "--stages", "equalize", "--resume"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--resume is for checkpoints" in done.stderr and "gptq" in done.stderr


# --- Memory -----------------------------------------------------------------------------------------------------------


LIGHT = ["--weights", "int3:group=64", "--embeddings", "int8:channel", "--stages", "gptq:sweeps=0", "--threads", "2"]


def large_run(crumb_bin, work, name, **shape):
    """A checkpoint of random weights to be rounded on 8 sequences of 64 tokens, and the number of its weights."""
    weights = write_llama(work / name, positions=64, **shape)
    run = Run(crumb_bin, work / f"{name}.crumb", work / name, write_text(work / f"{name}.txt", 8 * 64), LIGHT)
    return run, weights


def peak_bytes(run):
    """Of resident memory."""
    return peak_of(run.bin, run.out.parent, *run.command()[1:])


def test_no_float_copy_of_the_network_is_held(crumb_bin, tmp_path):
    run, small = large_run(crumb_bin, tmp_path, "small", hidden=512, inner=512, layers=2, vocabulary=64)
    least = peak_bytes(run)
    run, large = large_run(crumb_bin, tmp_path, "large", hidden=512, inner=512, layers=14, vocabulary=64)
    assert large - small > 15e6
    # A copy in floats has 4 bytes a weight. Scales stay, and pages of finished layers' files and what the allocator keeps may.
    assert peak_bytes(run) - least < 0.3 * 4 * (large - small)


@pytest.mark.slow
def test_eight_gigabytes_stay_in_two_blocks_and_one_gigabyte(crumb_bin, tmp_path):
    """A checkpoint of 8 GB, or as large as there is room for, killed again and again on its way; takes hours."""
    shape = {"hidden": 2048, "inner": 5632, "vocabulary": 32000}
    room = min(8e9, 0.6 * shutil.disk_usage(tmp_path).free)
    block = 2 * 2048 * 2048 + 2 * 2048 * 256 + 3 * 2048 * 5632
    layers = int((room / 2 - 2 * 32000 * 2048) / block)
    assert layers > 4, "there is no room for a large checkpoint"
    run, weights = large_run(crumb_bin, tmp_path, "large", **shape, layers=layers)
    peak = peak_bytes(run)
    assert peak < 2 * 4 * block + 1e9, (weights, peak)
    whole = digest(run.out)
    run.clear()
    rng = random.Random(8)
    for _ in range(5):
        if not run.end_when(rng.randrange(1, 4 * layers // 5), rng, "--resume"):
            break
    done = run.run("--resume")
    assert done.returncode == 0 and "continuing after" in done.stderr, done.stderr
    assert digest(run.out) == whole
