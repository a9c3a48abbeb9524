#!/usr/bin/env python3
"""Checks that includes run upward through the house, and that LibTorch stays out of the rooms that are free of it.

    scripts/check_includes.py [ROOT]      prints each wrong include; exit code 1 if there is one

ROOT is the repository (default: the one this script lies in). Includes of ours are written from the root.
"""

import re
import sys
from pathlib import Path

GRAPH, TORCH, TRANSFORMER = "graph", "libtorch", "models/transformer"
MODELS = [GRAPH, TORCH, TRANSFORMER]

# Which rooms each room may include, besides itself. What is not a room (tests, bench, examples) may include them all.
MAY_INCLUDE = {
    "formats": [],
    "quant": ["formats"],
    "runtime": ["formats", "quant"],
    GRAPH: ["quant", "formats"],
    TORCH: [GRAPH, "quant", "formats"],
    TRANSFORMER: [GRAPH, TORCH, "quant", "formats"],
    "qat": [*MODELS, "quant", "formats"],
    "ptq": [*MODELS, "quant", "formats"],
    "eval": [*MODELS, "quant", "formats", "runtime"],
    "export": [GRAPH, "quant", "formats"],
    "cli": ["formats", "quant", "runtime", *MODELS, "qat", "ptq", "eval", "export"],
}
TORCH_FREE = ["formats", "quant", "runtime", GRAPH, "export", "cli"]
TORCH_HEADER = re.compile(r"(torch|ATen|c10|caffe2|torchgen)/")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', re.MULTILINE)
CODE = {".h", ".cpp", ".inc", ".hpp", ".c"}
OUTSIDE = ("tests", "bench", "examples")


def room_of(path):
    """The room that a path from the root lies in; None outside the house."""
    for room in sorted(MAY_INCLUDE, key=len, reverse=True):
        if path.startswith(room + "/"):
            return room
    return None


def must_be_torch_free(path):
    return room_of(path.removeprefix("tests/")) in TORCH_FREE


class Tree:
    """The include lines of a repository."""

    def __init__(self, root):
        self.root = Path(root)
        folders = sorted({room.split("/")[0] for room in MAY_INCLUDE} | set(OUTSIDE))
        self.files = [
            str(path.relative_to(self.root))
            for folder in folders
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


def faults(root):
    """One sentence for each wrong include."""
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
    return found


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = faults(root)
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
