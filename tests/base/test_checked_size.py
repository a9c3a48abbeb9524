"""Sizes from outside go through base/checked_size.h: what a reviewer would grep for."""

import re

READERS = ["formats", "graph/onnx", "graph/packed", "graph/tensor.cpp", "text", "quant/recipe"]


def test_overflow_is_looked_for_in_one_place(repo):
    found = []
    for reader in READERS:
        path = repo / reader
        for file in [path] if path.is_file() else sorted([*path.rglob("*.h"), *path.rglob("*.cpp")]):
            if file == repo / "base/checked_size.h":
                continue
            for number, line in enumerate(file.read_text().splitlines(), 1):
                if re.search(r"__builtin_\w+_overflow|\b(std::)?(ato[il]+|strtou?l+)\(", line):
                    found.append(f"{file.relative_to(repo)}:{number}: {line.strip()}")
    assert not found, "use base/checked_size.h and std::from_chars:\n" + "\n".join(found)
