"""What may stand next on a command line, and the scripts by which bash, zsh and fish ask for it, each in a pseudo-terminal."""

import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest
from help_pages import flags, verbs


def candidates(crumb, *words):
    """{candidate: help}, and whether names of files may stand there, too."""
    lines = crumb("complete", *words).stdout.splitlines()
    rows = dict(line.partition("\t")[::2] for line in lines if line != ":files")
    return rows, ":files" in lines


# --- What crumb says --------------------------------------------------------------------------------------------------


def test_verbs_and_flags_are_those_of_help(crumb):
    for verb in verbs(crumb):
        rows, _ = candidates(crumb, *verb[:-1], "")
        assert verb[-1] in rows
        rows, _ = candidates(crumb, *verb, "--")
        assert rows.keys() - {"--help"} == {flag.name for flag in flags(crumb, verb)}, verb


def test_every_value_is_completed_or_known_to_be_free(crumb):
    """A word in capitals stands for something: it is no candidate itself. What is in small letters is one."""
    seen = set()
    for verb in verbs(crumb):
        for flag in flags(crumb, verb):
            if not flag.value or flag.value.startswith("[") or (flag.name, flag.value) in seen:
                continue
            seen.add((flag.name, flag.value))
            rows, files = candidates(crumb, *verb, flag.name, "")
            words = set(flag.value.split("|"))
            chosen = {word for word in words if not re.search("[A-Z]", word)}
            assert chosen <= rows.keys(), (verb, flag)
            assert not {word for word in words if word == word.upper()} & rows.keys(), (verb, flag)
            if words & {"FILE", "FOLDER", "MODEL"}:
                assert files, (verb, flag)


CASES = [
    (["quan"], {"quantize"}),
    (["help", "quan"], {"quantize"}),
    (["train", "l"], {"lm"}),
    (["train", "task", "d"], {"digits"}),
    (["quantize", "m", "--weights", "mxfp8"], {"mxfp8_e4m3", "mxfp8_e5m2"}),
    (["quantize", "m", "--weights", "int4:gr"], {"int4:group="}),
    (["quantize", "m", "--weights", "int4:channel:scale="], {f"int4:channel:scale={kind}" for kind in ("f32", "f16", "bf16", "e8m0", "e4m3")}),
    (["quantize", "m", "--weights=nf"], {"--weights=nf4"}),
    (["quantize", "m", "--set", "*.bias=tern"], {"*.bias=ternary"}),
    (["quantize", "m", "--scheme", "W4"], {"W4A16", "W4A8", "W4A4"}),
    (["quantize", "m", "--stages", "awq,gpt"], {"awq,gptq"}),
    (["sweep", "m", "--formats", "int4,tern"], {"int4,ternary"}),
    (["train", "lm", "--schedule", "co"], {"cosine", "constant"}),
    (["export", "m", "--to", "hls"], {"hls4ml-project"}),
    (["passes", "m", "tidy", "unroll"], {"unroll-recurrent"}),
    (["quantize", "m", "--zstd", "o"], {"off"}),
    (["formats", "mxfp8"], {"mxfp8_e4m3", "mxfp8_e5m2"}),
    (["generate", "m", "--prompt", "a"], set()),
    (["nonsense", "--x"], set()),
    (["quantize", "--dry-run", "--dry"], set()),
    ([], set()),
]


@pytest.mark.parametrize(("words", "wanted"), CASES, ids=[" ".join(words) for words, _ in CASES])
def test_what_may_stand_next(crumb, words, wanted):
    rows, _ = candidates(crumb, *words)
    assert rows.keys() == wanted


def test_specs_that_are_completed_are_specs(crumb, tmp_path):
    """All that can be reached letter by letter is read: format, granularity, key=value."""
    rows, _ = candidates(crumb, "quantize", "m", "--weights", "int4:channel:search=")
    listed = re.search(r"search  [^:]*: ([\w ]*);", crumb("formats").stdout)[1].split()
    assert rows.keys() == {f"int4:channel:search={name}" for name in listed}


# --- What shells make of it -------------------------------------------------------------------------------------------

START = {
    "bash": (["--norc", "--noprofile", "-i"], "bind 'set enable-bracketed-paste off'; source {script}"),
    "zsh": (["-f", "-i"], "unsetopt zle_bracketed_paste prompt_cr prompt_sp; PS1='> '; fpath=({folder} $fpath); autoload -U compinit; compinit -u -D"),
    "fish": (["--no-config", "-i"], "function fish_prompt; echo '> '; end; source {script}"),
}


class Terminal:
    """A shell that a person types into."""

    def __init__(self, shell, folder, environment):
        arguments, start = START[shell]
        self.child, self.fd = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            os.execvpe(shell, [shell, *arguments], environment)
        script = {"bash": "crumb", "zsh": "_crumb", "fish": "crumb.fish"}[shell]
        self.said = ""
        self.line_after(start.format(folder=folder, script=folder / script) + "; echo RE''ADY\r", "READY")

    def line_after(self, keys, pattern):
        """Types, and gives what the first line that is `pattern` is."""
        os.write(self.fd, keys.encode())
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if not select.select([self.fd], [], [], 1)[0]:
                continue
            try:
                self.said += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                break
            plain = re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>]|\x1b\][^\x07]*\x07|\r|\x0f", "", self.said)
            if found := re.search(rf"^(?:> ?)?({pattern})\s*$", plain, re.MULTILINE):
                self.said = ""
                return found[1].rstrip()
        raise AssertionError(f"{pattern} did not come: {self.said!r}")

    def completed(self, begun):
        """What a tab makes of the command line. It is run as an argument of echo, at last."""
        return self.line_after(begun + "\t\x01echo R:\x05\r", "R:.*")[2:]

    def close(self):
        os.close(self.fd)
        os.waitpid(self.child, 0)


@pytest.fixture(scope="module", params=START)
def terminal(request, crumb, crumb_bin, tmp_path_factory):
    shell = request.param
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed: scripts/setup tests")
    folder = tmp_path_factory.mktemp(shell)
    name = {"bash": "crumb", "zsh": "_crumb", "fish": "crumb.fish"}[shell]
    (folder / name).write_text(crumb("completion", shell).stdout)
    (folder / "models").mkdir()
    (folder / "models" / "tiny.onnx").write_text("")
    path = f"{crumb_bin.parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(folder), "TERM": "xterm", "PS1": "> ", "LANG": "C.UTF-8", "XDG_DATA_HOME": str(folder), "COLUMNS": "200"}
    found = Terminal(shell, folder, environment)
    yield found
    found.close()


TYPED = [
    ("crumb quanti", "crumb quantize"),
    ("crumb train emb", "crumb train embed"),
    ("crumb quantize m --sch", "crumb quantize m --scheme"),
    ("crumb quantize m --weights int4:chan", "crumb quantize m --weights int4:channel"),
    ("crumb quantize m --weights int4:channel:search=perc", "crumb quantize m --weights int4:channel:search=percentile"),
    ("crumb quantize m --weights=nf", "crumb quantize m --weights=nf4"),
    ("crumb quantize m --scheme gguf:q8", "crumb quantize m --scheme gguf:q8_0"),
    ("crumb export m --to hls4", "crumb export m --to hls4ml-project"),
    ("crumb lint --for onnxr", "crumb lint --for onnxruntime"),
    ("crumb formats tern", "crumb formats ternary"),
    ("crumb quantize models/ti", "crumb quantize models/tiny.onnx"),
    ("crumb train lm --schedule lin", "crumb train lm --schedule linear"),
]


def test_a_shell_completes_verbs_flags_formats_and_files(terminal):
    for begun, wanted in TYPED:
        assert terminal.completed(begun) == wanted


def test_bash_by_its_variables_alone(crumb, crumb_bin, tmp_path):
    """As programs ask it that complete for others."""
    script = tmp_path / "crumb"
    script.write_text(crumb("completion", "bash").stdout)
    line = "crumb quantize m --method g"
    ask = f"""source {script}; COMP_LINE='{line}'; COMP_POINT={len(line)}; COMP_WORDS=({line}); COMP_CWORD=4; _crumb; printf '%s\\n' "${{COMPREPLY[@]}}" """
    environment = {**os.environ, "PATH": f"{crumb_bin.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, env=environment, timeout=60)
    assert done.stdout.split() == ["gptq", "gpfq"], done.stderr
