"""Commands that a page shows, and what it says they print.

A block between ``` whose lines begin with "$ " is a session: each command, then what it prints. "..." stands for lines that
are left out. A comment of HTML before a block says how it runs:

    <!-- slow -->               by scripts/test --slow alone
    <!-- trained -->            figures of a network that was trained, which differ from processor to processor: only those from
                                0 to 1 (accuracies) are compared, to 0.02; the text, and which figures there are, in any case
    <!-- seconds last -->       the last column of tables but for notes is seconds
    <!-- shortened: REASON -->  by scripts/test --slow alone, with fewer steps and tokens (shortened() below) and the beginnings of
                                texts; of what is printed the words are compared, and where figures stand, not which
    <!-- not run: REASON -->    not at all

Words may be put together: <!-- slow, trained -->. Seconds ("0.16 s"), tokens a second and microseconds are never compared;
everything else is, figure by figure.
"""

import re
from dataclasses import dataclass, field

MARKS = {"slow", "trained", "seconds last", "shortened", "not run"}
REASONED = {"shortened", "not run"}
SHORT = {"--steps": "2", "--warm-up": "1", "--tokens": "1024"}
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
TIME = re.compile(r"\b\d+(?:\.\d+)? (s\b|min\b|ms\b|microseconds\b|tokens/s|tokens per second)")


@dataclass
class Command:
    line: str
    printed: list = field(default_factory=list)


@dataclass
class Session:
    at: int  # line of the page
    marks: set
    reason: str
    commands: list


def sessions(text):
    """The sessions of a page in Markdown, in order."""
    found, lines, mark, at = [], text.split("\n"), "", 0
    while at < len(lines):
        comment = re.fullmatch(r"<!-- (.*) -->", lines[at].strip())
        if comment:
            mark = comment[1]
        elif lines[at].startswith("```"):
            end = next(i for i in range(at + 1, len(lines)) if lines[i].startswith("```"))
            block = lines[at + 1 : end]
            if block and block[0].startswith("$ "):
                found.append(session_of(block, mark, at + 1))
            mark, at = "", end
        elif lines[at].strip():
            mark = ""
        at += 1
    return found


def session_of(block, mark, at):
    name, _, reason = mark.partition(": ")
    marks = {name} if name in REASONED else {word for word in mark.split(", ") if word}
    assert marks <= MARKS and (not marks & REASONED or reason), f"line {at}: <!-- {mark} --> is none of {sorted(MARKS)}"
    commands = []
    for line in block:
        if line.startswith("$ "):
            commands.append(Command(line[2:]))
        elif commands[-1].line.endswith("\\"):
            commands[-1].line = commands[-1].line[:-1] + line.strip()
        else:
            commands[-1].printed.append(line)
    return Session(at, marks, reason, commands)


def shortened(line):
    """A command that takes hours, as one that takes minutes."""
    return re.sub(r"(--[a-z-]+) \d+", lambda found: f"{found[1]} {SHORT[found[1]]}" if found[1] in SHORT else found[0], line)


def same_line(shown, printed, marks):
    """Whether a printed line is the one that the page shows, but for what is never compared."""
    shown, printed = (" ".join(TIME.sub(r"T \1", line).split()) for line in (shown, printed))
    if "seconds last" in marks:
        shown, printed = (re.sub(r" \d+\.\d+( [a-z].*)?$", r" T\1", line) for line in (shown, printed))
    if not marks & {"trained", "shortened"}:
        return shown == printed
    if NUMBER.sub("N", shown) != NUMBER.sub("N", printed):
        return False
    if "shortened" in marks:
        return True
    pairs = zip(map(float, NUMBER.findall(shown)), map(float, NUMBER.findall(printed)), strict=True)
    return all(abs(a - b) <= 0.02 for a, b in pairs if 0 < a < 1)


def fault_of(command, printed, marks):
    """What is wrong with what a page shows of a command, or None. Lines that stand together on the page were printed together;
    others stand between them only where "..." does."""
    if not command.printed:
        return None
    pieces = [[]]
    for line in command.printed:
        if line.strip() == "...":
            pieces.append([])
        else:
            pieces[-1].append(line)
    at = 0
    for index, piece in enumerate(pieces):
        first, last = at, len(printed) - len(piece)
        if index == 0:  # begins where the output begins
            last = min(last, 0)
        if index == len(pieces) - 1 and piece:  # ends where it ends
            first = max(first, len(printed) - len(piece))
        matches = {start: alike(piece, printed[start:], marks) for start in range(first, last + 1)}
        found = next((start for start, count in matches.items() if count == len(piece)), None)
        if found is None:
            return difference(command, piece, printed, max(matches, key=matches.get, default=at), marks)
        at = found + len(piece)
    if at < len(printed) and pieces[-1]:
        return f"$ {command.line}\n  shown:   the end\n  printed: {printed[at]}"
    return None


def alike(piece, printed, marks):
    """How many lines of a piece are those that are printed, from the first on."""
    pairs = list(zip(piece, printed, strict=False))
    return next((i for i, pair in enumerate(pairs) if not same_line(*pair, marks)), len(pairs))


def difference(command, piece, printed, start, marks):
    at = alike(piece, printed[start:], marks)
    shown = piece[at] if at < len(piece) else "the end"
    found = printed[start + at] if start + at < len(printed) else "the end"
    return f"$ {command.line}\n  shown:   {shown}\n  printed: {found}"
