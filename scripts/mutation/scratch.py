"""A copy of the repository in the cache folder, built without LibTorch, where mutants are compiled and linked.

The copy is never changed: a mutated file stands in a folder of its worker's that is searched first. So nothing has to be
put back, whatever ends the run.
"""

import ctypes
import hashlib
import json
import math
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

# The copy is built as release is, so that ccache has it. What is mutated is compiled with little optimisation, which is
# quick, and with the library's own checks, which notice what reaches beyond a vector's end.
QUICK = ["-O1", "-D_GLIBCXX_ASSERTIONS", "-w"]
MEMORY = 6 << 30  # bytes of address space that a test may take
FILE = 2 << 30  # bytes of one file that it may write
# The programs that Python tests run, and the variables that name them.
PROGRAMS = {
    "crumb": "CRUMB_BIN",
    "tests/crumb_qcdq_cases": "CRUMB_QCDQ_CASES",
    "tests/crumb_graph_facts": "CRUMB_GRAPH_FACTS",
}
TESTS = "tests/crumb_tests"


class Failed(Exception):
    """A command that must not fail did."""


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("CRUMB_CACHE") or Path(base) / "crumb")


def python():
    """That of the tests (scripts/setup)."""
    path = cache_folder() / "python/bin/python"
    return path if path.is_file() else sys.executable


def limited(processor_seconds):
    """In the child: ends with its parent, and takes no more than it may."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if processor_seconds is not None:
        seconds = math.ceil(processor_seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))  # SIGXCPU, not SIGKILL
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(command, timeout, processor_seconds=None, **keywords):
    """(exit code, output); the code is None where it ran out of time. Whatever it started is ended with it."""
    keywords = {"stdin": subprocess.DEVNULL, "preexec_fn": lambda: limited(processor_seconds), **keywords}
    process = subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
        errors="replace",
        **keywords,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


class Scratch:
    def __init__(self, repo, say):
        self.repo, self.say = repo, say
        self.home = cache_folder() / "mutate" / hashlib.sha256(str(repo).encode()).hexdigest()[:12]
        self.tree, self.build = self.home / "tree", self.home / "tree/build"
        self.engine = None  # what executes networks
        self.home.mkdir(parents=True, exist_ok=True)

    def copy(self):
        """Makes the copy what the repository is: tracked files, and new ones that git does not ignore."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=self.repo, capture_output=True, check=True
        )
        names = {name for name in listed.stdout.decode().split("\0") if name and (self.repo / name).is_file()}
        self.tree.mkdir(exist_ok=True)
        for path in self.tree.rglob("*"):
            name = path.relative_to(self.tree).as_posix()
            if (path.is_file() or path.is_symlink()) and name not in names and not name.startswith("build/"):
                path.unlink()
        for name in sorted(names):
            source, target = self.repo / name, self.tree / name
            content = source.read_bytes()
            if target.is_file() and target.read_bytes() == content and os.access(target, os.X_OK) == os.access(source, os.X_OK):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        shared = self.home / "shared"
        if not shared.is_symlink() and (self.repo.parent / "shared").is_dir():
            shared.symlink_to((self.repo.parent / "shared").resolve())

    def hash(self, folder):
        """Of the files under a folder of the copy."""
        digest = hashlib.sha256()
        for path in sorted((self.tree / folder).rglob("*")):
            if path.is_file():
                digest.update(path.relative_to(self.tree).as_posix().encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()

    def configure(self):
        linker = ["-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=gold"] if shutil.which("ld.gold") else []
        self.must(["cmake", "-S", self.tree, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                   "-DCRUMB_TORCH=OFF", "-DCRUMB_TOGETHER=1", *linker])  # fmt: skip
        self.compile_lines = {}
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            words = shlex.split(entry["command"])
            words = [word for word in words if not word.startswith("-O") and word != "-DNDEBUG"]
            self.compile_lines[words[words.index("-o") + 1]] = (words, Path(entry["file"]))
        self.link_lines = {}
        for program in (*PROGRAMS, TESTS):
            last = self.must(["ninja", "-t", "commands", program]).strip().split("\n")[-1]
            self.link_lines[program] = shlex.split(last.removeprefix(": && ").removesuffix(" && :"))

    def must(self, command):
        code, output = run(command, None, cwd=self.build if self.build.is_dir() else self.home, preexec_fn=None)
        if code != 0:
            raise Failed(f"{shlex.join(map(str, command))}\n{output[-4000:]}")
        return output

    def make(self, targets, jobs):
        start = time.monotonic()
        self.must(["ninja", f"-j{jobs}", *targets])
        self.say(f"built {len(targets)} targets in {time.monotonic() - start:.0f} s")

    def find_engine(self):
        """The repository's own engine library, where it is of the copy's making: it calls the program's code, changed as
        that is, so that tests which execute networks run too."""
        engine = self.repo / "build/libcrumb_engine.so"
        if not engine.is_file():
            return None
        command = [self.build / "crumb", "passes", "tests/fuzz/corpus/graph/cnn.onnx", "-o", self.home / "folded.onnx"]
        env = {**os.environ, "CRUMB_ENGINE": str(engine)}
        code, _ = run([*command, "fold-constants"], 60, cwd=self.tree, env=env)
        return engine if code == 0 else None

    def test_objects(self, folder=""):
        prefix = f"tests/CMakeFiles/crumb_tests.dir/{folder.removeprefix('tests').lstrip('/')}"
        return [word for word in self.link_lines[TESTS] if word.startswith(prefix) and word.endswith(".o")]

    def dependents(self, file):
        """The objects that are built from a file, as far as they have been built."""
        if file.endswith(".cpp"):
            path = self.tree / file
            return [obj for obj, (_, source) in self.compile_lines.items() if source == path]
        wanted, found, current = str(self.tree / file), [], None
        for line in self.must(["ninja", "-t", "deps"]).split("\n"):
            if line and not line.startswith(" "):
                current = line.split(": #deps")[0]
            elif line.endswith(file) and current in self.compile_lines:  # ccache writes paths from the build folder
                if os.path.normpath(self.build / line.strip()) == wanted:
                    found.append(current)
        if not found:
            raise Failed(f"nothing that is built includes {file}")
        return found

    def near(self, file, room):
        """Those in the room and in its tests, or all where neither includes a header. What other rooms compiled in of one
        that they do include stays as it was."""
        own, all_of_them = self.test_objects(room.tests), self.dependents(file)
        return [obj for obj in all_of_them if f".dir/{room.name}/" in obj or obj in own] or all_of_them
