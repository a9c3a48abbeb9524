"""One mutant at a time: compile, link, and run tests until one notices."""

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

from mutation.scratch import PROGRAMS, QUICK, TESTS, run

COMPILE_SECONDS = 600
NOTICED = ("doctest", "pytest", "timeout")


class Worker:
    """What one thread uses: a folder with mutated files, objects and programs."""

    def __init__(self, scratch, room, number, jobs):
        self.scratch, self.room, self.jobs = scratch, room, jobs
        self.home = scratch.home / f"worker{number}"
        shutil.rmtree(self.home, ignore_errors=True)
        self.files, self.temporary = self.home / "files", self.home / "tmp"
        self.objects = {}

    def clean(self):
        for folder in (self.files, self.temporary, self.home / "objects"):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        self.objects = {}

    def compile(self, obj, mutated=True):
        """The object, or None where it does not compile."""
        words, source = self.scratch.compile_lines[obj]
        target = self.home / "objects" / (obj.replace("/", "_") if mutated else "reference.o")
        changed = self.files / source.relative_to(self.scratch.tree)
        words = [word for word in words if word not in ("-c", str(source))]
        words[words.index("-o") + 1] = str(target)
        search = ["-iquote", self.files, f"-ffile-prefix-map={self.files}={self.scratch.tree}"] if mutated else []
        words += [*QUICK, *search, "-c", changed if mutated and changed.exists() else source]
        code, _ = run(words, COMPILE_SECONDS, cwd=self.scratch.build, preexec_fn=None)
        return target if code == 0 else None

    def compile_all(self, objects):
        """Whether all compile; those that are linked from now on."""
        with ThreadPoolExecutor(self.jobs) as pool:
            made = dict(zip(objects, pool.map(self.compile, objects), strict=True))
        self.objects.update(made)
        return all(made.values())

    def is_same_code(self):
        """Whether the one object that was compiled is what the unchanged file gives."""
        if len(self.objects) != 1:
            return False
        [(obj, path)] = self.objects.items()
        reference = self.compile(obj, mutated=False)
        return reference is not None and reference.read_bytes() == path.read_bytes()

    def link(self, program, output, leave_out=(), archives=None):
        """Mutated objects stand in front, so that archives do not give theirs."""
        replaced = {obj: str(path) for obj, path in self.objects.items()}
        words = []
        for word in self.scratch.link_lines[program]:
            if word in leave_out or (archives is not None and self.is_foreign(word, archives)):
                continue
            words.append(replaced.pop(word, word))
        linked = {word.rsplit("/", 1)[-1] for word in words if word.endswith(".a")}
        front = [replaced[obj] for obj in sorted(replaced) if f"lib{target_of(obj)}.a" in linked]
        at = words.index("-o")
        path = self.home / output
        path.parent.mkdir(parents=True, exist_ok=True)
        words = [*words[:at], *front, "-o", path, *words[at + 2 :]]
        code, text = run(words, COMPILE_SECONDS, cwd=self.scratch.build, preexec_fn=None)
        if code != 0:
            raise RuntimeError(f"linking {program} failed:\n{text[-4000:]}")
        return path

    @staticmethod
    def is_foreign(word, archives):
        name = word.rsplit("/", 1)[-1]
        return name.startswith("libcrumb_") and name not in ["libcrumb_test_support.a"] + [f"lib{a}.a" for a in archives]

    def environment(self):
        return {
            **os.environ,
            "TMPDIR": str(self.temporary),
            "CRUMB_BIN": str(self.home / "crumb"),
            "CRUMB_QCDQ_CASES": str(self.home / "tests/crumb_qcdq_cases"),
            "CRUMB_SLOW": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, command, seconds):
        """"passed", "failed" or "timeout"; and which test failed first."""
        code, output = run(command, seconds, cwd=self.scratch.tree, env=self.environment())
        if code is None:
            return "timeout", ""
        return ("passed", "") if code == 0 else ("failed", first_failure(output))

    # The steps: each gives a function that is called with seconds.

    def own_doctests(self):
        """The room's own, those of the mutated file first; None where it has none."""
        ours = self.scratch.test_objects(self.room.tests)
        if not ours:
            return None
        others = set(self.scratch.test_objects()) - set(ours)
        program = self.link(TESTS, "own_tests", leave_out=others, archives=self.room.archives)
        return [program, "--abort-after=1", "--no-colors=true"]

    def other_doctests(self):
        ours = self.scratch.test_objects(self.room.tests)
        program = self.link(TESTS, "other_tests", leave_out=ours)
        return [program, "--abort-after=1", "--no-colors=true"]

    def python_tests(self):
        for program in PROGRAMS:
            self.link(program, program)
        return [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *self.room.python]


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
