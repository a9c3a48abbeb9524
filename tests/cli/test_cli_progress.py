"""Progress on a terminal: one line that is written over, what is done of how much, how fast, how long yet; and nothing of it at the end."""

import os
import pty
import re
import subprocess


def test_training_says_how_far_it_is(crumb_bin, engine, tmp_path):
    master, slave = pty.openpty()
    with subprocess.Popen([crumb_bin, "train", "task", "jets", "--float-epochs", "3", "--epochs", "3", "-o", tmp_path / "jets"],
                          stdout=subprocess.DEVNULL, stderr=slave) as process:  # fmt: skip
        os.close(slave)
        said = b""
        try:
            while part := os.read(master, 65536):
                said += part
        except OSError:  # the other side is closed
            pass
    os.close(master)
    assert process.returncode == 0
    states = said.decode().split("\r\x1b[K")
    bars = [state for state in states if state.startswith("[")]
    assert bars and states[-1] == ""
    for state in bars:
        assert re.match(r"\[(#*\.*)\] training \(\w[\w ]*\) \d+/3 epochs, ", state), state
        assert len(state[1 : state.index("]")]) == 24
    assert re.search(r", loss \S+, (test \S+, )?\S+ %/s, \S+ (s|min) left$", bars[-1]), bars[-1]
