"""What the demo's parts print with, and how they call crumb."""

import dataclasses
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path


class Status:
    """One line that says what is being done: on a terminal the next one is written over it, elsewhere it is not shown."""

    shown = sys.stdout.isatty()

    @classmethod
    def say(cls, text):
        if cls.shown:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{text[:width]}", end="", flush=True)

    @classmethod
    def clear(cls):
        if cls.shown:
            print("\r\033[K", end="", flush=True)


def say(text=""):
    Status.clear()
    print(text, flush=True)


def paragraph(text, indent=""):
    say(textwrap.fill(" ".join(text.split()), 100, initial_indent=indent, subsequent_indent=indent))


PROGRESS = re.compile(r"^\w[\w ]* \d+/\d+ ")  # "rounding 6/36 layers, 0.83 layers/s, 36 s left"


@dataclasses.dataclass
class Crumb:
    """The command. It keeps the notes that it prints, each once, and shows its progress behind what is being done."""

    binary: Path
    folder: Path  # in which it runs
    notes: list = dataclasses.field(default_factory=list)

    def __call__(self, doing, *arguments):
        """Runs the command and returns what it printed; where it fails, its message ends the demo, with its exit code."""
        Status.say(f"{doing} ...")
        printed = []
        command = [str(self.binary), *map(str, arguments)]
        with tempfile.TemporaryFile("w+") as output:
            with subprocess.Popen(command, cwd=self.folder, stdout=output, stderr=subprocess.PIPE, text=True) as child:
                for line in child.stderr:
                    if PROGRESS.match(line):
                        Status.say(f"{doing}: {line.strip()}")
                    else:
                        printed.append(line)
            output.seek(0)
            said = output.read()
        if child.returncode != 0:
            Status.clear()
            sys.stderr.write("".join(printed))
            sys.stderr.write(f"demo: this failed: {' '.join(command)}\n")
            sys.exit(child.returncode if child.returncode > 0 else 1)
        for line in printed:
            if line.startswith("note: ") and line[6:].strip() not in self.notes:
                self.notes.append(line[6:].strip())
        return said

    def say_notes(self):
        """Each note of what ran so far, once."""
        for note in self.notes:
            paragraph(f"note: {note}")
        self.notes.clear()


def installed(package, pattern):
    """The file of a Python package that matches. The package is not imported: that would need more than is installed."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        sys.exit(f"demo: the Python package {package} is not installed (scripts/setup demo installs it)")
    return next(Path(spec.submodule_search_locations[0]).rglob(pattern))


def link(target, path):
    """A symbolic link, in the place of an earlier one."""
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def print_row(widths, cells):
    """A line of a table: the first cells, which have negative widths, to the left."""
    line = "".join(f"{cell:<{-width}}" if width < 0 else f"{cell:>{width}}" for width, cell in zip(widths, cells, strict=True))
    say(line.rstrip())


def duration(seconds):
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
