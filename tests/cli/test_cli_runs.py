"""Runs that end before they are done: --resume goes on byte for byte, refuses what is another run, and trusts nothing."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time
import zlib

import numpy as np
import pytest
from sample_checkpoints import digest, normal, write_folder, write_safetensors, write_shards

SLOW = os.environ.get("CRUMB_SLOW", "0") not in ("", "0")
MOMENTS = 20 if SLOW else 12
RECIPES = {
    "mse": ["--weights", "int4:group=32:search=mse"],
    "zstd": ["--weights", "int4:group=64:search=mse", "--zstd", "9"],
    "palette": ["--weights", "palette3:group=64"],
    "zero points and kept": ["--weights", "uint4:group=32:zero=int:search=mse", "--exclude", "layer.*[02468].weight"],
    "tensor scale": ["--weights", "nvfp4:search=mse", "--embeddings", "int8:tensor:search=mse"],
}


def model_tensors(layers=16):
    """Weights of one kind among kept ones, tiny ones, and one without values."""
    tensors = {"embed.weight": normal(512, 256), "empty": np.zeros((0, 4), np.float32)}
    for i in range(layers):
        tensors[f"layer.{i:02}.weight"] = normal(192, 512, seed=i, dtype=[np.float32, np.float16, np.float64][i % 3])
        tensors[f"layer.{i:02}.bias"] = normal(101, seed=i)
    tensors["positions"] = np.arange(300, dtype=np.int64)
    return tensors


class Case:
    """A run: what it gives undisturbed, and ways to disturb it."""

    def __init__(self, crumb_bin, folder, source, options):
        self.folder, self.source, self.options = folder, source, options
        self.crumb_bin = crumb_bin
        self.out = folder / "out.crumb"
        self.partial = folder / "out.crumb.partial"
        self.journal = folder / "out.crumb.partial.journal"
        start = time.monotonic()
        done = self.run()
        self.seconds = time.monotonic() - start
        assert done.returncode == 0, done.stderr
        self.report = comparable(done.stdout)
        self.whole = self.out.read_bytes()
        self.clear()

    def command(self, *more, options=None):
        return [self.crumb_bin, "quantize", self.source, "-o", self.out, *(self.options if options is None else options),
                *more, "--json"]  # fmt: skip

    def run(self, *more, options=None, **keywords):
        command = list(map(str, self.command(*more, options=options)))
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **keywords)

    def start(self, *more):
        return subprocess.Popen(self.command(*more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def kill_after(self, delay, *more):
        """Whether the run was killed before its end."""
        process = self.start(*more)
        time.sleep(delay)
        process.kill()
        process.communicate(timeout=60)
        return process.returncode != 0

    def kill_in_the_middle(self, *more, tensors=6):
        """Kills a run that has written so many tensors down."""
        process = self.start(*more)
        while process.poll() is None and lines_of(self.journal) <= tensors:
            time.sleep(0.0005)
        process.kill()
        process.communicate(timeout=60)
        assert self.partial.exists() and self.journal.exists(), "too quick to be killed: make the checkpoint larger"

    def leave_in_the_middle(self):
        """The state that kill_in_the_middle() leaves, once made and then copied."""
        if not hasattr(self, "left"):
            self.clear()
            self.kill_in_the_middle("--resume")
            self.left = self.partial.read_bytes(), self.journal.read_bytes()
        self.out.unlink(missing_ok=True)
        for path, content in zip((self.partial, self.journal), self.left, strict=True):
            path.write_bytes(content)
            path.chmod(0o1644)  # with the mark that a run leaves

    def clear(self):
        for path in (self.out, self.partial, self.journal):
            path.unlink(missing_ok=True)

    def assert_whole(self, done):
        assert done.returncode == 0, done.stderr
        assert self.out.read_bytes() == self.whole
        assert not self.partial.exists() and not self.journal.exists()
        assert comparable(done.stdout) == self.report


def comparable(text):
    """A report without what two runs never share."""
    report = json.loads(text)
    assert report.pop("seconds") > 0 and report.pop("peak_rss_bytes") > 0
    return report


def lines_of(path):
    try:
        return path.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = write_shards(tmp_path_factory.mktemp("runs") / "model", model_tensors(), 3)
    (folder / "config.json").write_text('{"architectures": ["Runs"]}')
    return folder


@pytest.fixture(scope="module")
def case(crumb_bin, model, tmp_path_factory):
    return Case(crumb_bin, tmp_path_factory.mktemp("case"), model, RECIPES["mse"])


@pytest.fixture
def own(crumb_bin, tmp_path):
    """A case whose input may be changed."""
    tensors = model_tensors(12)
    source = write_shards(tmp_path / "model", tensors, 2)
    (source / "config.json").write_text('{"architectures": ["Own"]}')
    return Case(crumb_bin, tmp_path, source, RECIPES["mse"])


# --- Killed and continued ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", RECIPES)
def test_killed_at_any_moment_and_continued_gives_the_same_file(crumb_bin, model, tmp_path, recipe):
    case = Case(crumb_bin, tmp_path, model, RECIPES[recipe])
    rng = random.Random(recipe)
    before = digest(model)
    killed = continued = 0
    for i in range(MOMENTS):
        case.clear()
        old = b"an older output" if i % 2 else None
        if old:
            case.out.write_bytes(old)
        was_killed = case.kill_after(rng.uniform(0, case.seconds), *(["--resume"] if i % 3 else []))
        if was_killed and case.out.exists():
            assert case.out.read_bytes() in (old, case.whole)
        killed += was_killed
        done = case.run("--resume")
        continued += "note: continuing after" in done.stderr
        assert ("note: continuing after" in done.stderr) != ("nothing to continue; starting afresh" in done.stderr)
        case.assert_whole(done)
    assert killed >= MOMENTS // 3 and continued >= 2
    assert digest(model) == before


def test_killed_again_and_again(case):
    rng = random.Random(5)
    longest = 0
    for _ in range(6):
        case.clear()
        deaths = 0
        while deaths < 8 and case.kill_after(rng.uniform(0.2, 0.6) * case.seconds, "--resume"):
            deaths += 1
        longest = max(longest, deaths)
        if not case.out.exists():
            case.assert_whole(case.run("--resume"))
        assert case.out.read_bytes() == case.whole
    assert longest >= 2


def test_with_nothing_to_continue_it_starts_afresh_and_says_so(case):
    case.clear()
    done = case.run("--resume")
    assert "nothing to continue" in done.stderr
    case.assert_whole(done)
    # Nor is there anything to continue once a run is complete.
    done = case.run("--resume")
    assert "nothing to continue" in done.stderr
    case.assert_whole(done)


def test_without_resume_what_is_left_is_discarded(case):
    case.leave_in_the_middle()
    done = case.run()
    assert "continu" not in done.stderr
    case.assert_whole(done)


def test_it_says_how_much_is_continued(case):
    case.leave_in_the_middle()
    lines = lines_of(case.journal) - 1
    assert lines >= 3
    done = case.run("--resume")
    assert f"continuing after {lines} tensors" in done.stderr
    case.assert_whole(done)


@pytest.mark.parametrize("options", [["--threads", "1"], ["--threads", "3"], ["--memory", "300MB"]])
def test_threads_and_memory_may_differ(case, options):
    case.leave_in_the_middle()
    done = case.run("--resume", *options)
    assert "continuing after" in done.stderr
    case.assert_whole(done)


# --- Refused ----------------------------------------------------------------------------------------------------------


def refused(case, *parts, options=None):
    """What is left stays, and so does an older output."""
    case.out.write_bytes(b"older")
    before = case.partial.read_bytes(), case.journal.read_bytes()
    done = case.run("--resume", options=options)
    assert done.returncode == 1 and done.stdout == "" and "cannot continue" in done.stderr, done.stderr
    for part in parts:
        assert part in done.stderr
    assert (case.partial.read_bytes(), case.journal.read_bytes()) == before
    assert case.out.read_bytes() == b"older"


def flip_byte(path, keep_time):
    info = path.stat()
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    if keep_time:
        os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def test_it_refuses_another_input(own, tmp_path):
    own.leave_in_the_middle()
    shard = next(own.source.glob("*-00002-of-*.safetensors"))
    flip_byte(shard, keep_time=False)
    refused(own, shard.name, "input")


@pytest.mark.parametrize("replaced", [False, True])
def test_it_refuses_another_input_of_the_same_size_and_time(own, replaced, tmp_path):
    own.leave_in_the_middle()
    shard = next(own.source.glob("*-00002-of-*.safetensors"))
    if replaced:
        other = tmp_path / "other"
        shutil.copy2(shard, other)
        flip_byte(other, keep_time=True)
        os.replace(other, shard)
    else:
        flip_byte(shard, keep_time=True)
    refused(own, shard.name, "input")


def test_it_refuses_a_touched_input(own):
    own.leave_in_the_middle()
    shard = next(own.source.glob("*-00001-of-*.safetensors"))
    os.utime(shard)
    refused(own, shard.name, "modified")


def test_it_refuses_a_changed_configuration(own):
    own.leave_in_the_middle()
    (own.source / "config.json").write_text('{"architectures": ["Owm"]}')
    refused(own, "config.json", "differs in its contents")
    (own.source / "config.json").unlink()
    refused(own, "input")


def test_it_refuses_a_new_file(own):
    own.leave_in_the_middle()
    (own.source / "vocab.txt").write_text("[PAD]\n")
    refused(own, "input", "vocab.txt")


def test_it_refuses_another_checkpoint(own, tmp_path):
    own.leave_in_the_middle()
    own.source = write_folder(tmp_path / "another")
    refused(own, "input")


@pytest.mark.parametrize(
    "options",
    [
        ["--weights", "int4:group=64:search=mse"],
        ["--weights", "int4:group=32"],
        [*RECIPES["mse"], "--zstd", "3"],
        [*RECIPES["mse"], "--set", "layer.03.weight=int8:channel"],
        [*RECIPES["mse"], "--exclude", "layer.03.weight"],
        [*RECIPES["mse"], "--embeddings", "keep"],
    ],
    ids=" ".join,
)
def test_it_refuses_another_recipe(case, options):
    case.leave_in_the_middle()
    refused(case, "the recipe differs", options=options)
    done = case.run("--resume")
    assert "continuing after" in done.stderr
    case.assert_whole(done)


def with_first_line(journal, change):
    """A journal that a run of another version might have written."""
    first, rest = journal.split(b"\n", 1)
    head = json.loads(first[9:])
    change(head)
    body = json.dumps(head, separators=(",", ":")).encode()
    return b"%08x %s\n%s" % (zlib.crc32(body), body, rest)


def test_it_refuses_another_version(case):
    case.leave_in_the_middle()
    case.journal.write_bytes(with_first_line(case.left[1], lambda head: head.update(version="0.0.1")))
    refused(case, "version", "0.0.1")
    # A change of nothing is continued: it is the version that was refused.
    case.journal.write_bytes(with_first_line(case.left[1], lambda head: None))
    done = case.run("--resume")
    assert "continuing after" in done.stderr
    case.assert_whole(done)


# --- Damage -----------------------------------------------------------------------------------------------------------


def never_wrong(case):
    done = case.run("--resume")
    if done.returncode == 0:
        case.assert_whole(done)
    else:
        assert done.returncode == 1 and done.stderr.startswith("crumb: "), done.stderr
    return "continuing after" in done.stderr


def damages(content, rng, count):
    """Truncated, grown, flipped, and replaced."""
    yield b""
    yield content[: len(content) // 2]
    yield content[:-1]
    yield content + b"\0" * 1000
    yield rng.randbytes(len(content))
    yield rng.randbytes(100)
    for _ in range(count):
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 1, 1, 2, 50])):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        yield bytes(damaged)


@pytest.mark.parametrize("recipe", ["mse", "zstd"])
@pytest.mark.parametrize("which", ["partial", "journal"])
def test_damage_never_makes_a_wrong_file(crumb_bin, model, tmp_path, which, recipe):
    case = Case(crumb_bin, tmp_path, model, RECIPES[recipe])
    case.leave_in_the_middle()
    content = case.left[0 if which == "partial" else 1]
    for damaged in damages(content, random.Random(which), 12 if SLOW else 6):
        case.leave_in_the_middle()
        getattr(case, which).write_bytes(damaged)
        never_wrong(case)


def test_damage_between_the_parts_never_makes_a_wrong_file(case):
    """Padding has no checksum, and the place of the header is written last."""
    case.leave_in_the_middle()
    partial, journal = case.left
    blobs = [blob for line in journal.splitlines()[1:] for blob in json.loads(line[9:])["blobs"]]
    gaps = [(a[0] + a[1], b[0]) for a, b in zip(blobs, blobs[1:], strict=False) if a[0] + a[1] < b[0]]
    assert gaps
    for place in [0, 70, blobs[0][0] - 1, gaps[0][0], gaps[-1][1] - 1]:
        damaged = bytearray(partial)
        damaged[place] ^= 0x40
        case.leave_in_the_middle()
        case.partial.write_bytes(damaged)
        never_wrong(case)


def test_a_lost_partial_or_journal_starts_afresh(case):
    for lost in (case.partial, case.journal):
        case.leave_in_the_middle()
        lost.unlink()
        done = case.run("--resume")
        assert "nothing to continue" in done.stderr
        case.assert_whole(done)


def test_a_journal_that_is_a_folder_or_a_link_is_no_way_out(case, tmp_path):
    case.leave_in_the_middle()
    case.journal.unlink()
    case.journal.mkdir()
    done = case.run("--resume")
    assert done.returncode == 1 and "journal" in done.stderr
    case.journal.rmdir()
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    case.journal.symlink_to(victim)
    done = case.run()
    assert done.returncode == 1 and "journal" in done.stderr
    assert victim.read_bytes() == b"precious"
    case.journal.unlink()
    case.clear()


def test_the_journal_is_never_an_input(crumb_bin, tmp_path):
    source = write_safetensors(tmp_path / "x.crumb.partial.journal", {"w.weight": normal(64, 64)})
    before = digest(source)
    command = [crumb_bin, "quantize", source, "-o", tmp_path / "x.crumb", "--weights", "int8"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 2 and b"one of the inputs" in done.stderr
    assert digest(source) == before


# --- Failures that are no kill ----------------------------------------------------------------------------------------


def test_ctrl_c_keeps_what_was_done_only_for_resume(case):
    kept = 0
    for resume in (False, True) * 4:
        case.clear()
        process = case.start(*(["--resume"] if resume else []))
        while process.poll() is None and lines_of(case.journal) <= 3:
            time.sleep(0.0005)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        if process.returncode == 0:
            continue
        assert process.returncode == 130
        assert case.partial.exists() == resume and case.journal.exists() == resume
        if resume:
            kept += 1
            done = case.run("--resume")
            assert "continuing after" in done.stderr
            case.assert_whole(done)
    assert kept


def limit_files(size):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


@pytest.mark.parametrize("resume", [False, True])
def test_a_full_disk_is_a_clear_error(case, resume):
    options = ["--resume"] if resume else []
    for share in (0.0, 0.1, 0.5, 0.9):
        case.clear()
        case.out.write_bytes(b"older")
        done = case.run(*options, preexec_fn=limit_files(int(len(case.whole) * share)))
        assert done.returncode == 1 and "File too large" in done.stderr and done.stdout == ""
        assert case.out.read_bytes() == b"older"
        assert case.partial.exists() == resume
        if resume:
            case.assert_whole(case.run("--resume"))
        else:
            assert not case.journal.exists()


def test_nan_weights_are_named_and_what_was_done_is_kept_only_for_resume(crumb, tmp_path):
    tensors = model_tensors(6)
    tensors["layer.04.weight"][100, 100] = np.nan
    write_safetensors(tmp_path / "m.safetensors", tensors)
    for options in ([], ["--resume"]):
        done = crumb("quantize", tmp_path / "m.safetensors", "-o", tmp_path / "o.crumb", "--weights", "int4:group=64",
                     *options, status=1)  # fmt: skip
        assert "layer.04.weight" in done.stderr and "NaN" in done.stderr
        left = {path.name for path in tmp_path.iterdir()} - {"m.safetensors"}
        assert left == ({"o.crumb.partial", "o.crumb.partial.journal"} if options else set())


def test_an_input_that_vanishes_or_shrinks_is_a_clear_error(own):
    shard = next(own.source.glob("*-00001-of-*.safetensors"))
    content = shard.read_bytes()
    seen = 0
    for spoil in (shard.unlink, lambda: os.truncate(shard, 5000), lambda: os.utime(shard)):
        for resume in (False, True):
            own.clear()
            shard.write_bytes(content)
            process = own.start(*(["--resume"] if resume else []))
            while process.poll() is None and lines_of(own.journal) <= 1:
                time.sleep(0.0005)
            spoil()
            out, err = process.communicate(timeout=60)
            if process.returncode == 0:
                continue
            seen += 1
            assert process.returncode == 1 and shard.name in err and "cannot read" in err and out == "", err
            assert own.partial.exists() == resume and own.journal.exists() == resume
            assert not own.out.exists()
    assert seen >= 2


@pytest.mark.parametrize("resume", [False, True])
def test_a_second_run_is_refused_and_disturbs_nothing(case, resume):
    refusals = 0
    for _ in range(20):  # a busy machine may start the second only when the first is done
        case.clear()
        first = case.start("--resume")
        while first.poll() is None and lines_of(case.journal) <= 2:
            time.sleep(0.0005)
        for _ in range(3):
            second = case.run(*(["--resume"] if resume else []))
            if second.returncode == 0:
                break
            assert second.returncode == 1 and "another run is writing it" in second.stderr
            refusals += 1
        out, err = first.communicate(timeout=60)
        assert first.returncode == 0, err
        assert comparable(out) == case.report
        assert case.out.read_bytes() == case.whole
        assert not case.partial.exists() and not case.journal.exists()
        if refusals:
            break
    assert refusals


def test_an_output_that_is_a_link_is_continued(case, tmp_path):
    """The partial file and its journal lie beside what the link points to."""
    target = tmp_path / "real.crumb"
    target.write_bytes(b"older")
    case.clear()
    case.out.symlink_to(target)
    process = case.start("--resume")
    journal = tmp_path / "real.crumb.partial.journal"
    while process.poll() is None and lines_of(journal) <= 3:
        time.sleep(0.0005)
    process.kill()
    process.communicate()
    assert journal.exists()
    done = case.run("--resume")
    assert done.returncode == 0 and "continuing after" in done.stderr
    assert case.out.is_symlink() and target.read_bytes() == case.whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["real.crumb"]
    case.clear()
