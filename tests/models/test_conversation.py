"""`crumb generate --chat`: turns from a pipe, and on a terminal, where Ctrl-C ends an answer and not the program."""

import json
import os
import pty
import select
import signal
import subprocess
import time

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.numpy")
tiny = pytest.importorskip("tiny_decoders")
TEMPLATE = "{% for m in messages %}{{ m.role[0] }}{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}a{% endif %}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("conversation")
    tiny.make("llama", path)
    (path / "chat_template.jinja").write_text(TEMPLATE)
    config = json.loads((path / "config.json").read_text())
    config["eos_token_id"] = 259
    (path / "config.json").write_text(json.dumps(config))
    tensors = safetensors.load_file(path / "model.safetensors")
    tensors["lm_head.weight"][259] = 0  # others' logits deviate by 4, so that one is above 0: answers go on
    safetensors.save_file(tensors, path / "model.safetensors", {"format": "pt"})
    return path


def test_turns_from_a_pipe_are_those_of_whole_conversations(crumb, folder):
    how = ["--tokens", 6, "--chat"]
    said = crumb("generate", folder, *how, input="Hi\n\nAnd?\n", stdin=None).stdout
    first = json.loads(crumb("generate", folder, *how, "--prompt", "Hi", "--json").stdout)["text"]
    whole = f"uHi\na{first}\nuAnd?\na"  # what the template makes of it
    second = json.loads(crumb("generate", folder, "--tokens", 6, "--prompt", whole, "--json").stdout)["text"]
    assert said == f"{first}\n{second}\n"
    told = crumb("generate", folder, *how, "--system", "Be brief", "--prompt", "Hi", "--json").stdout
    as_text = crumb("generate", folder, "--tokens", 6, "--prompt", "sBe brief\nuHi\na", "--json").stdout
    assert json.loads(told)["ids"] == json.loads(as_text)["ids"]


class Terminal:
    def __init__(self, *command):
        self.main, other = pty.openpty()
        self.process = subprocess.Popen([str(part) for part in command], stdin=other, stdout=other, stderr=other, start_new_session=True)
        os.close(other)
        self.seen = b""

    def say(self, text):
        os.write(self.main, text)

    def read_for(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.main], [], [], 0.05)[0]:
                self.seen += os.read(self.main, 65536)

    def wait_for(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition(self.seen):
                return
            if select.select([self.main], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.main, 65536)
                except OSError:  # the other end is closed
                    break
        assert condition(self.seen), self.seen[-500:]


def test_ctrl_c_ends_an_answer_and_the_conversation_goes_on(crumb_bin, folder):
    terminal = Terminal(crumb_bin, "generate", folder, "--chat", "--tokens", 10_000_000, "--shift")
    try:
        terminal.wait_for(lambda seen: seen.endswith(b"> "))
        terminal.say(b"Hi\n")
        terminal.read_for(1)  # it answers, be it with tokens that have no text
        for _ in range(2):
            before = len(terminal.seen)
            terminal.process.send_signal(signal.SIGINT)
            terminal.wait_for(lambda seen, before=before: seen[before:].endswith(b"\n> ") or seen.endswith(b"\r\n> "))
            assert terminal.process.poll() is None
            terminal.say(b"More\n")
            terminal.read_for(1)
        terminal.process.send_signal(signal.SIGINT)
        before = len(terminal.seen)
        terminal.wait_for(lambda seen: seen.endswith(b"\r\n> "))
        terminal.process.send_signal(signal.SIGINT)  # at the prompt it ends the program
        assert terminal.process.wait(timeout=60) == 0
    finally:
        terminal.process.kill()
        os.close(terminal.main)


def test_ctrl_c_while_nobody_reads_the_terminal(crumb_bin, folder):
    """What is shown waits for its reader then; that wait ends neither the output nor the program."""
    terminal = Terminal(crumb_bin, "generate", folder, "--chat", "--tokens", 10_000_000, "--shift")
    try:
        terminal.wait_for(lambda seen: seen.endswith(b"> "))
        for text in (b"Hi\n", b"More\n"):
            terminal.say(text)
            time.sleep(1.5)
            before = len(terminal.seen)
            terminal.process.send_signal(signal.SIGINT)
            terminal.wait_for(lambda seen, before=before: len(seen) > before and seen.endswith(b"\r\n> "))
            assert terminal.process.poll() is None
    finally:
        terminal.process.kill()
        os.close(terminal.main)


def test_ctrl_c_at_the_prompt_ends_the_program_however_soon_it_comes(crumb_bin, folder):
    for _ in range(40):
        terminal = Terminal(crumb_bin, "generate", folder, "--chat")
        try:
            terminal.wait_for(lambda seen: seen.endswith(b"> "))
            terminal.process.send_signal(signal.SIGINT)
            assert terminal.process.wait(timeout=60) == 0
        finally:
            terminal.process.kill()
            os.close(terminal.main)


def test_ctrl_c_that_leaves_a_piped_question_without_an_answer_says_so(crumb_bin, folder):
    """While the model is opened, and while the pipe is waited for: where it comes is drawn, and it never passes for success."""
    command = [str(part) for part in (crumb_bin, "generate", folder, "--chat", "--tokens", 2)]
    interrupted = 0
    for moment in range(12):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(0.05 * moment)
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        said, complaint = process.communicate(b"Hi\n", timeout=60)
        assert process.returncode in (130, -signal.SIGINT), said  # the latter before it has its signal handler
        assert said == b""
        if process.returncode == 130:
            assert complaint == b"crumb: interrupted\n"
            interrupted += 1
    assert interrupted >= 4


def test_one_answer_that_is_interrupted_says_so_and_saves_its_cache(crumb, crumb_bin, folder, tmp_path):
    how = ["--prompt", "Hi", "--shift", "--save-cache", tmp_path / "cache"]
    command = [crumb_bin, "generate", folder, *how, "--tokens", "10000000"]
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(200)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and b"interrupted" in said
    crumb("generate", folder, *how, "--tokens", 1, "--load-cache", tmp_path / "cache")


def test_a_model_without_a_template_is_named(crumb, folder, tmp_path):
    for file in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / file).write_bytes((folder / file).read_bytes())
    refused = crumb("generate", tmp_path, "--chat", "--prompt", "Hi", status=1)
    assert "no chat template" in refused.stderr
    assert "--system is for --chat" in crumb("generate", tmp_path, "--prompt", "a", "--system", "b", status=2).stderr
