"""The changes that a person found to change nothing that can be observed: scripts/mutation/equivalent.txt.

    base/threads/parallel.cpp
    - if (count == 0) return;
    + if (count <= 0) return;
    counts are unsigned

A blank line between them; lines that begin with # are comments. A change is known by its file and by the lines before
and after, spaces squeezed, so the list stays valid while other lines come and go; "+ *" stands for whatever the line
becomes. One that no change in its file matches any more is stale, and an error.
"""

from mutation.points import mutants_of


def read(path):
    """{(file, before, after): reason}."""
    found = {}
    lines = [line for line in path.read_text(encoding="utf-8").split("\n") if not line.startswith("#")]
    for block in "\n".join(lines).split("\n\n"):
        if not block.strip():
            continue
        parts = block.strip().split("\n", 3)
        if len(parts) < 4 or not parts[1].startswith("- ") or not parts[2].startswith("+ "):
            raise ValueError(f"{path}: expected a file, '- before', '+ after' and a reason, found:\n{block}")
        key = (parts[0], parts[1][2:], parts[2][2:])
        if key in found:
            raise ValueError(f"{path}: twice: {parts[0]}: {parts[2]}")
        found[key] = " ".join(parts[3].split())
    return found


def reason_of(reviewed, file, before, after):
    """None where nobody found that it changes nothing."""
    return reviewed.get((file, before, after)) or reviewed.get((file, before, "*"))


def stale(root, reviewed):
    """Those that no change matches."""
    known = set()
    for file in {key[0] for key in reviewed}:
        if (root / file).is_file():
            text = (root / file).read_text(encoding="utf-8")
            for before, after in {mutant.lines(text) for mutant in mutants_of(file, text)}:
                known |= {(file, before, after), (file, before, "*")}
    return sorted(key for key in reviewed if key not in known)
