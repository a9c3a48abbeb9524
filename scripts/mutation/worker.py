"""Changed files compiled and linked in front of the others, and tests run with what comes out."""

import os
import re
import resource
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from mutation.schema import schema
from mutation.scratch import PROGRAMS, QUICK, TESTS, Failed, python, run

COMPILE_SECONDS = 1800
NOTICED = ("doctest", "pytest", "timeout")
HERE = Path(__file__).resolve().parent
LAUNCHER = ["ccache"] if shutil.which("ccache") else []


@dataclass
class Unit:
    """Tests that run as one process."""

    kind: str  # "own", "doctest" or "pytest"
    path: str
    seconds: float = 0  # of processor time, unchanged
    reached: set = field(default_factory=set)  # the changes that it reaches

    def command(self, home):
        if self.kind == "pytest":
            return [python(), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", self.path]
        return [home / TESTS, "--abort-after=1", "--no-colors=true", f"--source-file=*/{self.path}"]


class Worker:
    """A folder with changed files, objects and programs."""

    def __init__(self, scratch, room, name, jobs):
        self.scratch, self.room, self.jobs = scratch, room, jobs
        self.home = scratch.home / name
        shutil.rmtree(self.home, ignore_errors=True)
        self.files, self.temporary = self.home / "files", self.home / "tmp"
        self.objects, self.extra = {}, []

    def start(self, texts):
        """Anew, with these texts of files, {path: text}."""
        for folder in (self.files, self.temporary, self.home / "objects"):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        self.objects, self.extra = {}, []
        for name, text in texts.items():
            path = self.files / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def compile(self, obj, flags=(), mutated=True):
        """(the object or None where it does not compile, what the compiler says)."""
        words, source = self.scratch.compile_lines[obj]
        target = self.home / "objects" / (obj.replace("/", "_") if mutated else "reference.o")
        changed = self.files / source.relative_to(self.scratch.tree)
        words = [*LAUNCHER, *(word for word in words if word not in ("-c", str(source)))]
        words[words.index("-o") + 1] = str(target)
        search = ["-iquote", self.files, f"-ffile-prefix-map={self.files}={self.scratch.tree}"] if mutated else []
        words += [*QUICK, *flags, *search, "-c", changed if mutated and changed.exists() else source]
        code, text = run(words, COMPILE_SECONDS, cwd=self.scratch.build, preexec_fn=None)
        return (target if code == 0 else None), text

    def compile_all(self, objects, flags=()):
        """The messages of those that do not compile, {object: text}; the others are linked from now on."""
        with ThreadPoolExecutor(self.jobs) as pool:
            made = dict(zip(objects, pool.map(lambda obj: self.compile(obj, flags), objects), strict=True))
        self.objects.update({obj: path for obj, (path, _) in made.items() if path})
        return {obj: text for obj, (path, text) in made.items() if not path}

    def is_same_code(self, mutant, text):
        """Whether this change alone gives the same object as the unchanged file."""
        if not mutant.file.endswith(".cpp"):
            return False
        self.start({mutant.file: mutant.apply(text)})
        [obj] = self.scratch.dependents(mutant.file)
        changed, reference = self.compile(obj)[0], self.compile(obj, mutated=False)[0]
        return changed is not None and reference is not None and reference.read_bytes() == changed.read_bytes()

    def link(self, programs):
        for program in programs:
            self.link_one(program)

    def link_one(self, program):
        """Changed objects stand in front, so that archives do not give theirs."""
        replaced = {obj: str(path) for obj, path in self.objects.items()}
        words = [replaced.pop(word, word) for word in self.scratch.link_lines[program]]
        linked = {word.rsplit("/", 1)[-1] for word in words if word.endswith(".a")}
        front = [replaced[obj] for obj in sorted(replaced) if f"lib{target_of(obj)}.a" in linked]
        at = words.index("-o")
        (self.home / program).parent.mkdir(parents=True, exist_ok=True)
        words = [*words[:at], *front, *self.extra, "-o", self.home / program, *words[at + 2 :]]
        must(words, cwd=self.scratch.build)

    def run(self, unit, limit=None, **environment):
        """ "passed", "failed" or "timeout", and which test failed first; `limit` in seconds of processor time."""
        self.temporary.mkdir(parents=True, exist_ok=True)
        env = {
            **os.environ,
            "TMPDIR": str(self.temporary),
            **{variable: str(self.home / program) for program, variable in PROGRAMS.items()},
            "CRUMB_SANITIZED_BIN": str(self.home / "no-sanitizers"),
            **({"CRUMB_ENGINE": str(self.scratch.engine)} if self.scratch.engine else {}),
            "CRUMB_SLOW": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            **environment,
        }
        wall = None if limit is None else 60 + 20 * limit
        code, output = run(unit.command(self.home), wall, cwd=self.scratch.tree, env=env, processor_seconds=limit)
        if code is None or code == -24:  # SIGXCPU
            return "timeout", unit.path
        return ("passed", "") if code == 0 else ("failed", first_failure(output))


class Together(Worker):
    """Programs with many changes, {number: mutant}, of which the environment selects one."""

    def __init__(self, scratch, room, jobs, numbered):
        super().__init__(scratch, room, "together", jobs)
        texts = {m.file: (scratch.tree / m.file).read_text(encoding="utf-8") for m in numbered.values()}
        made = {file: schema(text, {k: m for k, m in numbered.items() if m.file == file}) for file, text in texts.items()}
        self.start({file: text for file, (text, _) in made.items()})
        left = {k: numbered[k] for _, numbers in made.values() for k in numbers}
        pending = {obj for file in texts for obj in scratch.near(file, room)}
        flags = ["-include", HERE / "selected.h", "-Wno-narrowing"]
        while errors := self.compile_all(sorted(pending), flags):
            bad = named_in("\n".join(errors.values()), left, texts)
            for file in {left[k].file for k in bad}:
                kept = {k: m for k, m in left.items() if m.file == file and k not in bad}
                (self.files / file).write_text(schema(texts[file], kept)[0], encoding="utf-8")
            pending = set(errors).union(*(scratch.near(left[k].file, room) for k in bad))
            left = {k: m for k, m in left.items() if k not in bad}
        self.extra = [self.home / "selected.o"]
        must(["c++", "-std=c++20", "-O1", "-fPIC", "-c", HERE / "selected.cpp", "-o", self.extra[0]])
        self.link([TESTS, *PROGRAMS])
        self.live = set(left) & {k for program in (TESTS, *PROGRAMS) for k in self.compiled(program)}

    def compiled(self, program):
        """Which changes a program's code, and not only the compiler, evaluates."""
        out = self.home / "section"
        must(["objcopy", "-O", "binary", "-j", ".mutated", "--set-section-flags", ".mutated=alloc",
              self.home / program, out])  # fmt: skip
        return set(memoryview(out.read_bytes()).cast("I")) if out.is_file() else set()

    def measure(self, unit, count):
        """How long it takes, and which of `count` changes it reaches."""
        marks = self.home / "reached"
        marks.write_bytes(bytes(count))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        status, text = self.run(unit, CRUMB_REACHED=str(marks))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if status != "passed":
            raise Failed(f"{unit.path} of the unchanged copy: {status} {text}")
        unit.seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        unit.reached = {k for k, mark in enumerate(marks.read_bytes()) if mark}


def must(command, **keywords):
    code, text = run(command, COMPILE_SECONDS, preexec_fn=None, **keywords)
    if code != 0:
        raise Failed(f"{' '.join(map(str, command))[:400]}\n{text[-4000:]}")


def named_in(messages, left, texts):
    """The changes that the compiler's messages name, or those nearest to what they name."""
    for reach in (0, 3, 10**9):
        bad = set()
        for k, mutant in left.items():
            lines = {int(line) for line in re.findall(rf"{re.escape(mutant.file)}:(\d+)", messages)}
            if any(abs(line - mutant.line(texts[mutant.file])) <= reach for line in lines):
                bad.add(k)
        if bad:
            return bad
    raise Failed(f"the changes together do not compile:\n{messages[:4000]}")


def target_of(obj):
    """ "crumb_quant" of "CMakeFiles/crumb_quant.dir/quant/parallel.cpp.o"."""
    return obj.split(".dir/")[0].rsplit("/", 1)[-1]


def first_failure(output):
    """The line that names it."""
    lines = output.split("\n")
    for line in lines:
        if line.startswith(("FAILED ", "ERROR ")):
            return line[:200]
    for i, line in enumerate(lines):
        if line.startswith("TEST CASE:"):
            return line.removeprefix("TEST CASE:").strip()[:200]
        if "Assertion" in line and i > 0:
            return line.strip()[:200]
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")
