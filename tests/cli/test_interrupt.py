"""Ctrl-C, kill -9 and two runs at once: inputs and older outputs stay as they are, and an output is whole or not there."""

import os
import random
import signal
import subprocess
import time

import pytest
from sample_checkpoints import digest, normal, write_shards

MOMENTS = 20 if os.environ.get("CRUMB_SLOW", "0") not in ("", "0") else 12
LONG = 0.4  # seconds that a run must take at least for its moments to be hit
LOADED = 0.02  # seconds after which the program has its signal handler, on a machine that is not busy


class Long:
    """A run that takes long, on this machine: its command, what it gives undisturbed, and how long that took."""

    def __init__(self, crumb_bin, folder, layers):
        self.folder = folder
        self.out = folder / "out.crumb"
        tensors = {f"layer.{i:03}.weight": normal(256, 1024, seed=i) for i in range(layers)}
        self.source = write_shards(folder / "model", tensors, 3)
        self.command = [crumb_bin, "quantize", self.source, "-o", self.out, "--weights", "int4:group=32:search=mse"]
        self.inputs = digest(self.source)
        start = time.monotonic()
        subprocess.run(self.command, check=True, stdout=subprocess.DEVNULL)
        self.seconds = time.monotonic() - start
        self.whole = self.out.read_bytes()
        self.out.unlink()

    def start(self):
        def heed_hangups():  # whoever runs the tests may have been told not to (nohup), which is inherited
            signal.signal(signal.SIGHUP, signal.SIG_DFL)

        return subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_hangups)

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def delays(self, seed, count=MOMENTS):
        """Moments from the first to the last of a run, as long as runs are by then."""
        rng = random.Random(seed)
        yield from (0.0, LOADED)
        for _ in range(count - 2):
            yield rng.uniform(LOADED, self.seconds)

    def was_done_after(self, seconds):
        """Runs are quicker where other work on the machine has ended."""
        self.seconds = max(LOADED, min(self.seconds, seconds))


@pytest.fixture(scope="module")
def long(crumb_bin, tmp_path_factory):
    for layers in (32, 64, 128, 256, 512):
        run = Long(crumb_bin, tmp_path_factory.mktemp("interrupt"), layers)
        if run.seconds > LONG:
            return run
    raise AssertionError(f"{layers} MiB are quantized in {run.seconds} s: too quick to be interrupted")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_at_any_moment_leaves_what_was_there(long, number):
    interrupted = 0
    count = MOMENTS if number == signal.SIGINT else 5
    for i, delay in enumerate(long.delays(int(number), count)):
        old = b"an older output" if i % 2 else None
        long.out.write_bytes(old) if old else long.out.unlink(missing_ok=True)
        process = long.start()
        time.sleep(delay)
        process.send_signal(number)
        start = time.monotonic()
        out, err = process.communicate(timeout=60)
        assert time.monotonic() - start < 2
        if process.returncode == 0:  # it was done before the signal came
            assert long.out.read_bytes() == long.whole
            long.was_done_after(delay)
            continue
        interrupted += 1
        if delay <= LOADED and process.returncode == -number:
            pass  # it was still being loaded
        else:
            assert process.returncode == 130 and err.endswith("crumb: interrupted\n") and out == ""
        assert (long.out.read_bytes() if old else long.out.exists()) == (old or False)
        assert long.names() == (["model", "out.crumb"] if old else ["model"])
    assert interrupted >= count // 3
    assert digest(long.source) == long.inputs


def test_a_hangup_that_is_to_be_ignored_is(long):
    long.out.unlink(missing_ok=True)
    process = subprocess.Popen(["nohup", *long.command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)  # fmt: skip
    time.sleep(long.seconds / 2)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == 0 and long.out.read_bytes() == long.whole


def test_kill_at_any_moment_leaves_what_was_there(long):
    killed = 0
    for i, delay in enumerate(long.delays(3)):
        old = b"an older output" if i % 2 else None
        long.out.write_bytes(old) if old else long.out.unlink(missing_ok=True)
        process = long.start()
        time.sleep(delay)
        process.kill()
        process.communicate(timeout=60)
        if process.returncode == 0:
            assert long.out.read_bytes() == long.whole
            continue
        killed += 1
        # The new file whole, the old one, or none.
        if long.out.exists():
            assert long.out.read_bytes() in (old, long.whole)
        else:
            assert old is None
        assert set(long.names()) <= {"model", "out.crumb", "out.crumb.partial", "out.crumb.partial.journal"}
    assert killed >= MOMENTS // 3
    assert digest(long.source) == long.inputs
    # What a killed run left behind is no obstacle.
    process = long.start()
    time.sleep(long.seconds / 2)
    process.kill()
    process.communicate()
    subprocess.run(long.command, check=True, stdout=subprocess.DEVNULL)
    assert long.out.read_bytes() == long.whole
    assert long.names() == ["model", "out.crumb"]


def test_a_second_run_into_the_same_output_is_refused(long):
    for _ in range(3):
        long.out.unlink(missing_ok=True)
        first = long.start()
        while not (long.folder / "out.crumb.partial").exists():
            assert first.poll() is None
            time.sleep(0.001)
        time.sleep(0.01)
        second = long.start()
        out, err = second.communicate(timeout=60)
        assert second.returncode == 1 and "another run is writing it" in err and "out.crumb" in err and out == ""
        first.communicate(timeout=60)
        assert first.returncode == 0
        assert long.out.read_bytes() == long.whole
        assert long.names() == ["model", "out.crumb"]


def test_many_runs_at_once_leave_one_whole_file(long):
    runs = [long.start() for _ in range(6)]
    codes = []
    for run in runs:
        _, err = run.communicate(timeout=120)
        codes.append(run.returncode)
        assert run.returncode == 0 or "another run" in err
    assert 0 in codes and set(codes) <= {0, 1}
    assert long.out.read_bytes() == long.whole


def test_a_second_ctrl_c_ends_it_at_once(long):
    process = long.start()
    time.sleep(min(0.1, long.seconds / 4))
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.001)
    process.communicate(timeout=10)
    assert process.returncode in (130, -signal.SIGINT, 0)
    assert digest(long.source) == long.inputs


@pytest.mark.parametrize("verb", ["verify", "dequantize", "compare"])
def test_ctrl_c_ends_other_verbs_too(crumb_bin, long, tmp_path, verb):
    subprocess.run(long.command, check=True, stdout=subprocess.DEVNULL)
    before = digest(long.out)
    arguments = {"verify": [], "dequantize": ["-o", tmp_path / "out.safetensors"], "compare": [long.source]}[verb]
    codes = set()
    for i in range(6):
        process = subprocess.Popen([crumb_bin, verb, long.out, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(LOADED + 0.01 * i)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
        codes.add(process.returncode)
        assert os.listdir(tmp_path) in ([], ["out.safetensors"])
        (tmp_path / "out.safetensors").unlink(missing_ok=True)
    assert codes <= {0, 130, -signal.SIGINT}
    assert digest(long.out) == before
