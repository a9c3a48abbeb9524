#!/usr/bin/env python3
"""Checks that includes run one way through the house, between rooms and between folders at every depth, that no room
holds more than a quarter of it, and that LibTorch stays out of the rooms that are free of it.

    scripts/check_includes.py [ROOT]             prints each fault; exit code 1 if there is one
    scripts/check_includes.py --figures [ROOT]   prints the lines and the share of each room, and what it includes

ROOT is the repository (default: the one this script lies in). Includes of ours are written from the root.
"""

import argparse
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path, PurePosixPath

ROOMS = Path(__file__).resolve().parents[1] / "cmake" / "rooms.txt"


def rooms(text):
    """{room: (its marks, the rooms that it may include)}, in the list's order; each room names those above it alone."""
    found = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        head, _, includes = line.partition(":")
        room, *marks = head.split()
        assert room not in found and set(marks) <= {"torch", "inside", "linked"}, line
        assert set(includes.split()) <= found.keys(), f"{line}: a room that is not above it"
        found[room] = (set(marks), includes.split())
    return found


LISTED = rooms(ROOMS.read_text(encoding="utf-8"))
# Which rooms each room may include, besides itself. What is not a room (tests, bench, examples) may include them all.
MAY_INCLUDE = {room: includes for room, (_, includes) in LISTED.items()}
TORCH = [room for room, (marks, _) in LISTED.items() if "torch" in marks]
TORCH_FREE = [room for room in MAY_INCLUDE if room not in TORCH]
# The command is flags, printing and exit codes over jobs/. What of it does work of its own yet includes more rooms, which this
# file lists: "cli/run/bench.cpp: graph runtime". It may only shrink.
COMMAND, COMMAND_MAY_INCLUDE = "cli", {"cli", "jobs", "base"}
EXCEPTIONS = "scripts/command_includes.txt"
MOST_SHARE = 0.25  # of the lines of all rooms together that one may hold
TORCH_HEADER = re.compile(r"(torch|ATen|c10|caffe2|torchgen)/")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', re.MULTILINE)
CODE = {".h", ".cpp", ".inc", ".hpp", ".c"}
OUTSIDE = ("tests", "bench", "examples")


def room_of(path):
    """The room that a path from the root lies in; None outside the house."""
    room, *inside = path.split("/")
    return room if inside and room in MAY_INCLUDE else None


def must_be_torch_free(path):
    return room_of(path.removeprefix("tests/")) in TORCH_FREE


class Tree:
    """The include lines of a repository."""

    def __init__(self, root):
        self.root = Path(root)
        self.files = [
            str(path.relative_to(self.root))
            for folder in sorted({*MAY_INCLUDE, *OUTSIDE})
            for path in sorted((self.root / folder).rglob("*"))
            if path.suffix in CODE and path.is_file()
        ]
        self._includes = {}

    def includes(self, path):
        """The (quote, name) pairs that a file includes."""
        if path not in self._includes:
            self._includes[path] = INCLUDE.findall((self.root / path).read_text(encoding="utf-8"))
        return self._includes[path]

    def ours(self, name):
        return (self.root / name).is_file()

    def way_to_torch(self, path, seen):
        """The chain of includes from a file to a LibTorch header, or None."""
        seen.add(path)
        for _, name in self.includes(path):
            if self.ours(name):
                way = None if name in seen else self.way_to_torch(name, seen)
                if way:
                    return [path, *way]
            elif TORCH_HEADER.match(name):
                return [path, name]
        return None

    def reachable(self, path):
        """A file and every file of ours that it includes, directly or not."""
        seen, todo = {path}, [path]
        while todo:
            for _, name in self.includes(todo.pop()):
                if name not in seen and self.ours(name):
                    seen.add(name)
                    todo.append(name)
        return seen

    def lines(self):
        """Of each room."""
        counts = Counter()
        for path in self.files:
            if room := room_of(path):
                counts[room] += (self.root / path).read_text(encoding="utf-8").count("\n")
        return counts

    def arrows(self):
        """{(folder, folder): an include that makes it}, a folder being its direct files; parent and child are one
        thing to the eye, and exempt from each other."""
        found = {}
        for path in filter(room_of, self.files):
            for _, name in self.includes(path):
                here, there = (str(PurePosixPath(file).parent) for file in (path, name))
                related = here == there or here == str(PurePosixPath(there).parent) or there == str(PurePosixPath(here).parent)
                if self.ours(name) and room_of(name) and not related:
                    found.setdefault((here, there), f'{path} includes "{name}"')
        return found


def circle_in(arrows):
    """The shortest circle through the first folder that lies on one, as a list of arrows; empty if there is none."""
    after = defaultdict(list)
    for here, there in sorted(arrows):
        after[here].append(there)
    for start in sorted(after):
        ways, todo = {start: []}, [start]
        while todo:
            here = todo.pop(0)
            for there in after[here]:
                if there == start:
                    return [*ways[here], (here, there)]
                if there not in ways:
                    ways[there] = [*ways[here], (here, there)]
                    todo.append(there)
    return []


def circles(tree):
    """One sentence for each circle of folders; circles that share an arrow count once."""
    arrows, found = tree.arrows(), []
    while circle := circle_in(arrows):
        names = " -> ".join([*(here for here, _ in circle), circle[0][0]])
        found.append(f"a circle of folders: {names}: {'; '.join(arrows.pop(arrow) for arrow in circle)}")
    return found


def too_large(tree):
    lines = tree.lines()
    total = sum(lines.values())
    few = total < 10_000  # a share says nothing yet
    return [
        f"{room}: {count} of {total} lines lie here, expected at most {MOST_SHARE:.0%} in one room"
        for room, count in sorted(lines.items())
        if count > MOST_SHARE * total and not few
    ]


def faults(root):
    """One sentence for each fault."""
    tree = Tree(root)
    found = []
    for path in tree.files:
        room = room_of(path)
        for quote, name in tree.includes(path):
            if quote == '"' and not tree.ours(name):
                found.append(f'{path}: includes "{name}", which is no path from the root of the repository')
            target = room_of(name) if tree.ours(name) else None
            if room and target and target != room and target not in MAY_INCLUDE[room]:
                allowed = ", ".join(MAY_INCLUDE[room]) or "nothing of ours"
                found.append(f'{path}: {room} includes "{name}" of {target}, but may include only: {allowed}')
            if room and tree.ours(name) and name.split("/")[0] in OUTSIDE:
                found.append(f'{path}: {room} includes "{name}", which is not part of the library')
        if must_be_torch_free(path) and (way := tree.way_to_torch(path, set())):
            found.append(f"{path}: must be free of LibTorch, but reaches it: {' -> '.join(way)}")
    return found + circles(tree) + too_large(tree) + list(outgrown(tree))


def further_rooms(tree):
    """{file of the command: the rooms that it includes beyond those that a command needs}."""
    further = defaultdict(set)
    for path in tree.files:
        if room_of(path) == COMMAND:
            rooms = {room_of(name) for _, name in tree.includes(path) if tree.ours(name)}
            if rooms := rooms - COMMAND_MAY_INCLUDE - {None}:
                further[path] = rooms
    return further


def outgrown(tree):
    """One sentence for each room that a file of the command includes and EXCEPTIONS does not list, or the other way round."""
    listed = defaultdict(set)
    if (tree.root / EXCEPTIONS).is_file():
        for line in (tree.root / EXCEPTIONS).read_text(encoding="utf-8").splitlines():
            path, _, rooms = line.partition(": ")
            listed[path] = set(rooms.split())
    found = further_rooms(tree)
    for path in sorted({*listed, *found}):
        if more := sorted(found[path] - listed[path]):
            yield f"{path}: includes {', '.join(more)}; new work is a job of jobs/, which the command calls"
        if less := sorted(listed[path] - found[path]):
            yield f"{path}: does not include {', '.join(less)} any more: take it out of {EXCEPTIONS}"


def figures(root):
    tree = Tree(root)
    lines = tree.lines()
    total = sum(lines.values())
    for room in (room for room in MAY_INCLUDE if room in lines):
        seen = {room_of(name) for path in tree.files if room_of(path) == room for _, name in tree.includes(path)}
        above = [other for other in MAY_INCLUDE if other in seen - {room}]
        yield f"{room:9} {lines[room]:6} lines {lines[room] / total:6.1%}   {' '.join(above)}"
    yield f"{'all':9} {total:6} lines, {len(tree.arrows())} arrows between folders, {len(circles(tree))} circles"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("root", nargs="?", default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--figures", action="store_true")
    options = parser.parse_args()
    if options.figures:
        print("\n".join(figures(options.root)))
        return 0
    found = faults(options.root)
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
