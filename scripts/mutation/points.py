"""The changes that a C++ file allows, one operator or constant each.

Files are read as tokens, so nothing in comments, texts, preprocessor lines or attributes is changed. Binary operators
are told from references, pointers and template brackets by their spaces, which the layout (scripts/format) fixes.
"""

import random
import re
from dataclasses import dataclass

CODE = {".h", ".cpp", ".inc"}

TOKEN = re.compile(
    r"""
    (?P<skip>//[^\n]*(?:\\\n[^\n]*)*|/\*.*?\*/
      |(?:u8|u|U|L)?R"(?P<raw>[^()\s\\]{0,16})\(.*?\)(?P=raw)"
      |(?:u8|u|U|L)?"(?:\\.|[^"\\\n])*"
      |(?<![0-9A-Za-z_])(?:u8|u|U|L)?'(?:\\.|[^'\\\n])+'
      |(?<![^\n])[ \t]*\#(?:[^\n\\]|\\\n|\\.)*
      |\[\[.*?\]\])
    |(?P<number>(?:0[xX][0-9a-fA-F'.]+(?:[pP][+-]?[0-9]+)?|(?:[0-9][0-9']*\.?[0-9']*|\.[0-9][0-9']*)(?:[eE][+-]?[0-9]+)?)
      [uUlLfFzZ]*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign><=>|<<=|>>=|->\*|\.\.\.|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)

BINARY = {
    "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="],
    "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["*"],
    "&&": ["||"], "||": ["&&"], "&": ["|"], "|": ["&"], "^": ["&"], "<<": [">>"], ">>": ["<<"],
    "+=": ["-="], "-=": ["+="], "*=": ["/="], "/=": ["*="], "%=": ["*="],
    "&=": ["|="], "|=": ["&="], "^=": ["&="], "<<=": [">>="], ">>=": ["<<="],
}  # fmt: skip
WORDS = {"true": ["false"], "false": ["true"]}
CALLS = {
    "min": ["max"], "max": ["min"], "floor": ["ceil"], "ceil": ["floor"],
    "any_of": ["all_of"], "all_of": ["any_of"], "none_of": ["any_of"],
    "lower_bound": ["upper_bound"], "upper_bound": ["lower_bound"],
}  # fmt: skip
BEFORE_UNARY = set("([{,=?:<>+-*/%&|;") | {"return", "&&", "||", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "<<"}


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int

    @property
    def end(self):
        return self.start + len(self.text)


@dataclass(frozen=True, order=True)
class Mutant:
    """text[start:end] becomes `new` in the file at this path from the root."""

    file: str
    start: int
    end: int
    new: str

    def apply(self, text):
        return text[: self.start] + self.new + text[self.end :]

    def line(self, text):
        return text.count("\n", 0, self.start) + 1

    def lines(self, text):
        """The lines that change, before and after: what a change is known by, wherever in the file they stand."""
        first = text.rfind("\n", 0, self.start) + 1
        last = text.find("\n", self.end)
        last = len(text) if last < 0 else last
        after = text[first : self.start] + self.new + text[self.end : last]
        return squeezed(text[first:last]), squeezed(after)


def squeezed(code):
    return " ".join(code.split())


def tokens(text):
    """The tokens, without spaces, comments, texts, preprocessor lines and attributes (which are kept as "skip")."""
    found = []
    for match in TOKEN.finditer(text):
        kind = match.lastgroup if match.lastgroup != "raw" else "skip"
        if match.group("skip") is not None:
            kind = "skip"
        if not match.group().isspace():
            found.append(Token(kind, match.group(), match.start()))
    return found


def is_spaced(text, token):
    return text[token.start - 1 : token.start].isspace() and text[token.end : token.end + 1].isspace()


def neighbours_of_number(literal):
    """One more and one less."""
    body = literal.rstrip("uUlLzZ") if literal[:2] in ("0x", "0X") else literal.rstrip("uUlLfFzZ")
    suffix, plain = literal[len(body) :], body.replace("'", "")
    is_hex = plain[:2] in ("0x", "0X")
    if is_hex and "." not in plain and "p" not in plain.lower():
        value, write = int(plain, 16), hex
    elif not is_hex and plain.isdigit():
        value, write = int(plain, 8 if len(plain) > 1 and plain[0] == "0" else 10), str
    elif not is_hex and "e" not in plain.lower():
        return [f"{float(plain) + step!r}{suffix}" for step in (1, -1)]
    else:
        return [f"({literal} + 1)", f"({literal} - 1)"]
    more = [write(value + 1) + suffix] if value < 2**64 - 1 else []
    less = [write(value - 1) + suffix] if value > 0 else ["-1"] * ("u" not in suffix.lower())
    return more + less


def closing(found, opening):
    """The index of the bracket that closes the one at this index; None where there is none."""
    depth = 0
    for i in range(opening, len(found)):
        if found[i].kind == "sign" and found[i].text in "([{":
            depth += 1
        elif found[i].kind == "sign" and found[i].text in ")]}":
            depth -= 1
            if depth == 0:
                return i
    return None


def condition_after(found, i):
    """(start, end) of the condition of the `if` or `while` at this index, without an initializer before it."""
    if i + 1 >= len(found) or found[i + 1].text != "(":
        return None
    end = closing(found, i + 1)
    if end is None or end == i + 2:
        return None
    start, depth = i + 2, 0
    for j in range(i + 2, end):
        depth += (found[j].text in "([{") - (found[j].text in ")]}") if found[j].kind == "sign" else 0
        if found[j].text == ";" and depth == 0:
            start = j + 1
    return found[start].start, found[end - 1].end


def mutants_of(file, text):
    """Every change of one file."""
    found = [token for token in tokens(text)]
    code = [token for token in found if token.kind != "skip"]
    texts = {token.start for token in found if token.kind == "skip" and token.text.endswith('"')}
    beside_text = {a.start for a, b in zip(found, found[1:], strict=False) if b.start in texts}
    beside_text |= {b.start for a, b in zip(found, found[1:], strict=False) if a.start in texts}
    made = []

    def change(token, replacements):
        made.extend(Mutant(file, token.start, token.end, new) for new in replacements)

    for i, token in enumerate(code):
        previous = code[i - 1].text if i > 0 else ""
        following = code[i + 1].text if i + 1 < len(code) else ""
        if previous == "operator":
            continue
        if token.kind == "number":
            change(token, neighbours_of_number(token.text))
        elif token.kind == "word":
            change(token, WORDS.get(token.text, []))
            if following == "(" and previous in ("::", ".", "->"):
                change(token, CALLS.get(token.text, []))
            span = condition_after(code, i) if token.text in ("if", "while") else None
            if span:
                made.append(Mutant(file, *span, f"!({text[slice(*span)]})"))
        elif token.start in beside_text and token.text in ("+", "+="):
            continue  # texts are joined: nothing else compiles
        elif token.text in BINARY and is_spaced(text, token):
            change(token, BINARY[token.text])
        elif token.text in ("++", "--"):
            change(token, ["--" if token.text == "++" else "++"])
        elif token.text in ("!", "~") or (token.text == "-" and previous in BEFORE_UNARY):
            change(token, [""])
    return made


def mutants_under(root, room):
    """Every change of a room, in an order that depends on the files only."""
    files = sorted(path for path in (root / room).rglob("*") if path.suffix in CODE and path.is_file())
    made = []
    for path in files:
        made += mutants_of(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
    return sorted(set(made))


def drawn(mutants, seed):
    """All of them, in the order of this seed."""
    shuffled = list(mutants)
    random.Random(seed).shuffle(shuffled)
    return shuffled
