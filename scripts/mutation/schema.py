"""Many changes in one text, of which the environment selects one at run time (selected.h), so that they are compiled once.

An operator or a number is changed where it stands; what needs its operands (&&, ||, !, unary -, ++, std::min, ...) is
written twice, `on<k>() ? changed : original`, from the tokens that bound the expression.
"""

from dataclasses import dataclass

from mutation.points import BINARY, CALLS, closing, tokens

NAMES = {
    "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne", "+": "plus", "-": "minus", "*": "times",
    "/": "over", "%": "mod", "&": "and", "|": "or", "^": "xor", "<<": "shl", ">>": "shr",
}  # fmt: skip
ENDS_LOGICAL = {",", ";", "=", "?", ":", "+=", "-=", "*=", "/=", "|=", "&=", "return", "co_return", "case"}


@dataclass
class Edit:
    """text[start:end] becomes `before` + text[start:end] with the edits inside + `after`."""

    start: int
    end: int
    before: str
    after: str


def schema(text, numbered):
    """The text with these changes, {number: mutant}; and the numbers of those that are in it."""
    found = [token for token in tokens(text) if token.kind != "skip"]
    at = {token.start: i for i, token in enumerate(found)}
    edits, used, sites = [], [], set()
    for number, mutant in sorted(numbered.items()):
        site = (mutant.start, mutant.end)
        edit = None if site in sites else edit_for(text, found, at, number, mutant)
        if edit and all(nests(edit, other) for other in edits):
            edits.append(edit)
            sites.add(site)
            used.append(number)
    edits.sort(key=lambda edit: (edit.start, -edit.end))
    return render(text, 0, len(text), edits), used


def nests(a, b):
    return a.end <= b.start or b.end <= a.start or (a.start <= b.start and b.end <= a.end) or (
        b.start <= a.start and a.end <= b.end)  # fmt: skip


def render(text, start, end, edits):
    parts, position = [], start
    while edits:
        first, *edits = edits
        inner = [edit for edit in edits if edit.end <= first.end and edit.start < first.end]
        edits = edits[len(inner) :]
        parts += [text[position : first.start], first.before, render(text, first.start, first.end, inner), first.after]
        position = first.end
    return "".join([*parts, text[position:end]])


def edit_for(text, found, at, number, mutant):
    """None where the change cannot be selected at run time."""
    i = at[mutant.start]
    token = found[i]
    old, new = text[mutant.start : mutant.end], mutant.new
    on = f"::mutated::on<{number}>()"

    def twice(first, last, cast=False):
        """The expression from one token to another, changed or not."""
        start, end = found[first].start, found[last].end
        changed = plain(text, start, mutant.start) + new + plain(text, mutant.end, end)
        changed = f"static_cast<bool>({changed})" if cast else changed
        opening = f"({on} ? ({changed}) : " + ("static_cast<bool>(" if cast else "(")
        return Edit(start, end, opening, "))")

    if new.startswith("!(") and new.endswith(f"({old})"):
        end = closing(found, i - 1)
        if end is None or any(t.text == "=" for t in found[i:end]):
            return None  # a declaration, perhaps
        return Edit(mutant.start, mutant.end, f"::mutated::flip<{number}>(static_cast<bool>(", "))")
    if token.kind == "number" or old in ("true", "false"):
        return Edit(mutant.start, mutant.end, f"::mutated::pick<{number}>(", f", {new})")
    if old in CALLS:
        return call(found, i, twice)
    if old in ("&&", "||"):
        first, last = logical(found, i)
        return twice(first, last, cast=True)
    if old in ("!", "~", "++", "--") or (old == "-" and new == ""):
        last = operand_end(found, i + 1)
        return None if last is None else twice(i, last, cast=old == "!")
    if old in BINARY and old.removesuffix("=") in NAMES and old not in NAMES:
        name = f"{NAMES[old[:-1]]}_{NAMES[new[:-1]]}_is"
    elif old in NAMES:
        name = f"{NAMES[old]}_{NAMES[new]}"
    else:
        return None
    return Edit(mutant.start, mutant.end, "", f" ::mutated::{name}<{number}>{{}} {old}")


def plain(text, start, end):
    """Without comments, on one line."""
    piece, parts = text[start:end], []
    position = 0
    for token in tokens(piece):
        if token.kind == "skip" and token.text.startswith("/"):
            parts.append(piece[position : token.start])
            position = token.end
    parts.append(piece[position:])
    return " ".join("".join(parts).split("\n"))


def call(found, i, twice):
    """std::min(...), whole."""
    if found[i - 1].text != "::" or found[i + 1].text != "(":
        return None
    first = i
    while first >= 2 and found[first - 1].text == "::" and found[first - 2].kind == "word":
        first -= 2
    last = closing(found, i + 1)
    return None if last is None or found[first - 1].text in (".", "->", "::") else twice(first, last)


def logical(found, i):
    """The first and the last token of the expression of && and || around an operator."""
    first, depth = i, 0
    while first > 0:
        word = found[first - 1].text
        if word in (")", "]", "}"):
            depth += 1
        elif word in ("(", "[", "{"):
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and word in ENDS_LOGICAL:
            break
        first -= 1
    last, depth = i, 0
    while last + 1 < len(found):
        word = found[last + 1].text
        if word in ("(", "[", "{"):
            depth += 1
        elif word in (")", "]", "}"):
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and word in ENDS_LOGICAL:
            break
        last += 1
    return first, last


def operand_end(found, i):
    """The last token of what a unary operator before the token at this index takes; None where that is not plain."""
    while found[i].text in ("!", "~", "-", "*", "&", "++", "--"):
        i += 1
    if found[i].text == "(":
        i = closing(found, i)
    elif found[i].kind not in ("word", "number"):
        return None
    while i is not None and i + 1 < len(found):
        following = found[i + 1]
        if following.text in ("(", "["):
            i = closing(found, i + 1)
        elif following.text in (".", "->", "::"):
            i += 2
        elif following.text == "<" and following.start == found[i].end:
            return None  # a template's arguments
        elif following.text in ("++", "--"):
            i += 1
        elif following.text == "{" and following.start == found[i].end:
            i = closing(found, i + 1)
        else:
            break
    return i
