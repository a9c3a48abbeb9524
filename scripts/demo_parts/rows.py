"""What a table of the demo has: networks in formats, each made by the commands that a person would type.

What takes longer than the demo may last is not made: its figures lie in recorded.json, by section and row, each with the
seconds that its commands took, `on` where that is no processor, and `made`: when, on what and, where that differs, on which text
they were measured; null is what nobody measured. `scripts/demo --full` makes these rows and leaves a new recorded.json in its folder."""

import dataclasses
import datetime
import json
import os
import platform
import time
from pathlib import Path

from terminal import duration, paragraph, say

RECORDED = Path(__file__).with_name("recorded.json")


@dataclasses.dataclass(frozen=True)
class Row:
    bits: str
    format: str
    how: str
    packed: str  # the file that the last command makes, in the demo's folder
    commands: tuple  # of crumb: VERB ARGUMENTS, run in the demo's folder
    recorded: bool = False  # whether its figures come from recorded.json unless everything is made

    @property
    def name(self):
        return f"{self.format} by {self.how}"


def machine():
    """The processor and how many threads there are."""
    names = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return f"{len(os.sched_getaffinity(0))} threads of {names[0] if names else platform.machine()}"


class Figures:
    """The figures of a section's rows: recorded ones, and those that are measured now."""

    def __init__(self, section, rows, full):
        self.section, self.rows, self.full = section, rows, full
        self.recorded = json.loads(RECORDED.read_text())[section]
        self.of = {}  # by row

    def is_made(self, row):
        return self.full or not row.recorded

    def mark(self, row):
        return "" if self.is_made(row) else " *"

    def add(self, row, measured=None):
        """What was measured of a row that is made, else what is recorded."""
        self.of[row] = measured if self.is_made(row) else self.recorded[row.name]
        return self.of[row]

    def say_where_recorded_begin(self, row, also=""):
        """A line of a table before the first row that is not made now."""
        if row is next((row for row in self.rows if not self.is_made(row)), None):
            say(f"--- not made now, but recorded on other machines{also} ---")

    def keep(self, folder):
        """With --full: what was measured of rows that are recorded otherwise, as recorded.json of the folder has it."""
        file = folder / RECORDED.name
        known = json.loads(file.read_text()) if file.exists() else {}
        made = f"{datetime.datetime.now(datetime.timezone.utc).date()}, {machine()}"
        known[self.section] = {row.name: self.of[row] | {"made": made} for row in self.rows if row.recorded}
        file.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")

    def say_commands(self, folder):
        """Below a table: the commands that make each row, and what was not made now."""
        say(f"\nIn {folder}, by")
        for row in self.rows:
            for command in row.commands:
                say(f"{self.mark(row):<3}crumb {command}")
        for row in self.rows:
            if not self.is_made(row):
                paragraph(f"* {row.name}: not made now, it takes {self.time(row)}. Figures of {self.of[row]['made']}.")
        if not self.full:
            paragraph("scripts/demo --full makes these rows, too. train.txt and calib.txt are what scripts/lm_text.py lays out of Debian's "
                      "packages, train_sentences.txt sentences of the first.")  # fmt: skip

    def time(self, row):
        return " ".join([duration(self.of[row]["seconds"]), *([self.of[row]["on"]] if "on" in self.of[row] else [])])


def shown(value, form="{}"):
    """A figure of a table; "-" where nobody measured it."""
    return "-" if value is None else form.format(value)


def make(crumb, row):
    """Runs the row's commands; the seconds that they took."""
    start = time.monotonic()
    for command in row.commands:
        crumb(f"{row.name}: crumb {command.split()[0]}", *command.split())
    return time.monotonic() - start
