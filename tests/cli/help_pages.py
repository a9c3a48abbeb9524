"""The help of every verb, taken apart."""

import re
from dataclasses import dataclass


@dataclass
class Flag:
    """`value`: the words for its value, "" for none; `text` as one line."""

    name: str
    value: str
    text: str
    group: str
    is_required: bool


def verbs(crumb, verb=()):
    """All that can be called, as lists of words: ["quantize"], ["train", "lm"], ..."""
    page = crumb(*verb, "--help").stdout
    if not page.split("\n")[1].endswith("VERB ..."):
        return [list(verb)]
    below = re.findall(r"^  ([a-z]\w*) ", page.split("\n\nEach ")[0], re.MULTILINE)
    return [found for name in below for found in verbs(crumb, [*verb, name])]


def flags(crumb, verb):
    """All flags of its help, positionals left out."""
    page = crumb(*verb, "--help").stdout
    found, group = [], ""
    for line in page.split("\n"):
        if title := re.fullmatch(r"(\S.*):", line):
            group = title[1]
        elif entry := re.match(r"  (?:-\w,)?(--[\w-]+)(?: (\S+))?( REQUIRED)?(?:  +(.*))?$", line):
            found.append(Flag(entry[1], entry[2] or "", entry[4] or "", group, bool(entry[3])))
        elif line.startswith(" " * 30) and found:
            found[-1].text = f"{found[-1].text} {line.strip()}".strip()
    return found
