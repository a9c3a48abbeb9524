"""Random templates of the subset of Jinja that Crumb reads, and conversations for them. Expressions have types, which are
mixed seldom, so that most templates give a text."""

import random

TEXTS = ["", "a", "user", "system", "A b", " x ", "é中", "a,b,,c", "\n y\n", "<|x|>", "'q'", '"', "12", "-3.5", "👩‍🚀", "ab\tc",
         "Straße", "ﬁn ΑΣ", "\\n{{"]  # fmt: skip
# What variables hold, mostly.
VARIABLES = {"text": ["a", "b"], "number": ["x", "y"], "items": ["items"], "mapping": ["c"]}
NAMES = [name for names in VARIABLES.values() for name in names]
TEXT_METHODS = [
    "strip()", "lstrip()", "rstrip()", "strip('a ')", "upper()", "lower()", "title()", "capitalize()", "replace('a', 'bb')",
    "replace('', '-', 2)", "removeprefix('a')", "removesuffix('c')", "lstrip('<|')", "format(1, x=2)", "join(['p', 'q'])",
    "split('b')[-1]", "split(',')[0]", "replace('a', b)",
]  # fmt: skip
TEXT_FILTERS = [
    "trim", "upper", "lower", "title", "capitalize", "string", "replace('a', 'z')", "indent", "indent(2, true)", "trim('a')",
    "indent(width=3, blank=true)", "tojson", "tojson(ensure_ascii=true)", "default('d')", "d('e', true)", "reverse", "safe",
    "list|join('.')", "replace('a', 'b', 1)", "map('upper')|join", "first|string", "last|default('-')",
]  # fmt: skip
TEXT_TO_ITEMS = ["split()", "split(',')", "split(',', 1)", "rsplit(' ', 1)", "splitlines()", "splitlines(true)", "rsplit('a')"]
TEXT_TO_FLAG = ["startswith('a')", "endswith(('b', 'c'))", "isdigit()", "islower()", "isupper()", "isspace()", "endswith('')"]
TEXT_TO_NUMBER = ["find('b')", "count('a')", "rfind('a')", "count('')"]
ITEMS_FILTERS = [
    "list", "sort", "sort(reverse=true)", "unique|list", "reverse|list", "map('upper')|list", "map('length')|list", "select|list",
    "reject|list", "select('string')|list", "select('in', ['a', 1])|list", "map('string')|sort", "map('trim')|list",
    "sort(case_sensitive=true)", "reject('equalto', 'a')|list",
]  # fmt: skip
ITEMS_TO_TEXT = ["join", "join(',')", "join(', ')", "tojson", "tojson(indent=2)", "string", "first", "last", "map('upper')|join",
                 "min|string", "max|string", "tojson(separators=(',', ':'))", "unique|join", "map('length')|join('.')"]  # fmt: skip
MAPPING_TO_TEXT = ["tojson", "tojson(sort_keys=true)", "tojson(indent=1)", "string", "items|list|string", "dictsort|string",
                   "dictsort(true, 'value')|string", "list|join", "items|map('first')|join('+')"]  # fmt: skip
MESSAGES_TO_TEXT = [
    "map(attribute='role')|join('+')", "map(attribute='z', default='-')|join", "selectattr('role')|list|length|string",
    "selectattr('role', 'equalto', 'user')|list|tojson", "rejectattr('content', 'none')|list|string", "join(',', attribute='role')",
    "sort(attribute='role')|map(attribute='role')|join", "map(attribute='n', default=1)|sum|string", "length|string", "tojson",
    "selectattr('n', 'defined')|list|string", "unique(attribute='role')|list|length|string",
]  # fmt: skip
NUMBER_FILTERS = ["abs", "round", "round(1)", "round(1, 'ceil')", "round(method='floor')", "int", "float", "default(3)", "string|int"]
TESTS = [
    "defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true",
    "false", "lower", "upper", "callable", "in ['a', 2]", "eq 'a'", "equalto(1)", "ne none", "sameas true", "== 1",
]  # fmt: skip
SLICES = ["1:", ":2", "::-1", "1:3", "-2:", "::2", ":", ":-1", "3:1:-1", "-9:9"]


class Program:
    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.loops = 0
        self.macros = []
        self.may_mix = self.draw.random() < 0.15

    def pick(self, *choices):
        return self.draw.choice(choices)

    def quoted(self):
        text = self.draw.choice(TEXTS)
        quote = self.pick("'", '"')
        for old, new in (("\\", "\\\\"), (quote, "\\" + quote), ("\n", "\\n"), ("\t", self.pick("\\t", "\t")), ("é", self.pick("é", "\\xe9", "\\u00e9"))):  # fmt: skip
            text = text.replace(old, new)
        return quote + text + quote

    def text(self, depth):
        d = self.draw
        if depth <= 0:
            return d.choice([self.quoted(), self.quoted(), *VARIABLES["text"], "message.role", "message['content']", "bos_token",
                             "messages[0].content", "messages[-1]['role']"])  # fmt: skip
        kind = d.randint(0, 13)
        if kind <= 1:
            return f"{self.text(depth - 1)} {self.pick('+', '~')} {self.text(depth - 1)}"
        if kind == 2:
            return f"{self.any(depth - 1)} ~ {self.any(depth - 1)}"
        if kind == 3:
            return f"({self.text(depth - 1)}).{d.choice(TEXT_METHODS)}"
        if kind == 4:
            return f"({self.text(depth - 1)})|{d.choice(TEXT_FILTERS)}"
        if kind == 5:
            return f"({self.text(depth - 1)})[{d.choice(SLICES)}]"
        if kind == 6:
            return f"({self.items(depth - 1)})|{d.choice(ITEMS_TO_TEXT)}"
        if kind == 7:
            return f"({self.mapping(depth - 1)})|{d.choice(MAPPING_TO_TEXT)}"
        if kind == 8:
            return f"messages{self.pick('', '[1:]', '[:-1]', '[::-1]')}|{d.choice(MESSAGES_TO_TEXT)}"
        if kind == 9:
            return f"{self.text(depth - 1)} if {self.flag(depth - 1)}{self.pick('', ' else ' + self.text(depth - 1))}"
        if kind == 10:
            return f"({self.any(depth - 1)})|{self.pick('string', 'tojson', 'default(b)|string', 'd|string')}"
        if kind == 11:
            return f"({self.text(depth - 1)} {self.pick('or', 'and')} {self.text(depth - 1)})"
        if kind == 12 and self.macros:
            name, count = d.choice(self.macros)
            return f"{name}({', '.join(self.any(0) for _ in range(d.randint(0, count)))})"
        return self.text(depth - 1)

    def number(self, depth):
        d = self.draw
        if depth <= 0:
            numbers = ["0", "1", "2", "7", "12_0", "1.5", "0.25", "1e3", "2.0", "1e20", "0.1", "1e-7", *VARIABLES["number"], "n", "messages|length"]
            return d.choice(numbers + ["loop.index", "loop.revindex0", "loop.index0", "loop.length"] * (self.loops > 0))
        kind = d.randint(0, 7)
        if kind <= 2:
            return f"{self.number(depth - 1)} {self.pick('+', '-', '*')} {self.number(depth - 1)}"
        if kind == 3:
            return f"({self.number(depth - 1)}) {self.pick('/', '//', '%', '**')} {self.pick('2', '3', '1.5', '7')}"
        if kind == 4:
            return f"({self.number(depth - 1)})|{d.choice(NUMBER_FILTERS)}"
        if kind == 5:
            return f"({self.text(depth - 1)}).{d.choice(TEXT_TO_NUMBER)}"
        if kind == 6:
            return f"({self.pick(self.items, self.text, self.mapping)(depth - 1)})|{self.pick('length', 'count')}"
        return self.pick("-", "+", "- -") + self.number(depth - 1)

    def flag(self, depth):
        d = self.draw
        if depth <= 0:
            flags = ["true", "false", "True", "add_generation_prompt", "tools", "c", "items", "a", "x", "message.tool_calls"]
            return d.choice(flags + ["loop.first", "loop.last", "loop.changed(message.role)", "loop.previtem is defined"] * (self.loops > 0))
        kind = d.randint(0, 9)
        if kind == 0:
            return f"{self.any(depth - 1)} {self.pick('==', '!=')} {self.any(depth - 1)}"
        if kind == 1:
            return f"{self.number(depth - 1)} {self.pick('<', '<=', '>', '>=')} {self.number(depth - 1)}{self.pick('', ' < 9', ' != 1')}"
        if kind == 2:
            return f"{self.text(depth - 1)} {self.pick('<', '<=', '>', '>=', 'in', 'not in')} {self.text(depth - 1)}"
        if kind == 3:
            return f"{self.text(depth - 1)} {self.pick('in', 'not in')} {self.pick(self.items, self.mapping)(depth - 1)}"
        if kind == 4:
            return f"({self.any(depth - 1)}) is {self.pick('', 'not ')}{d.choice(TESTS)}"
        if kind == 5:
            return f"{self.pick('x', 'y', 'n', '7')} is {self.pick('', 'not ')}{self.pick('odd', 'even', 'divisibleby 3', 'divisibleby(2)', 'gt 1', 'le 3', 'lessthan 2')}"
        if kind == 6:
            return f"({self.text(depth - 1)}).{d.choice(TEXT_TO_FLAG)}"
        if kind == 7:
            return "not " + self.flag(depth - 1)
        if kind == 8:
            return f"{self.flag(depth - 1)} {self.pick('and', 'or')} {self.flag(depth - 1)}"
        return f"({self.flag(depth - 1)})"

    def items(self, depth):
        d = self.draw
        if depth <= 0:
            return d.choice(["items", "['a', 'B', 'é']", "[]", "['x']", "('p', 'q')", "[b, a]"])
        kind = d.randint(0, 7)
        if kind == 0:
            return f"({self.text(depth - 1)}).{d.choice(TEXT_TO_ITEMS)}"
        if kind == 1:
            return f"(({self.items(depth - 1)})|{d.choice(ITEMS_FILTERS)})"
        if kind == 2:
            return f"({self.items(depth - 1)})[{d.choice(SLICES)}]"
        if kind == 3:
            return f"(({self.items(depth - 1)})|list + [{self.any(depth - 1)}])"
        if kind == 4:
            return "[" + ", ".join(self.text(depth - 1) for _ in range(d.randint(0, 3))) + "]"
        if kind == 5:
            return f"(({self.items(depth - 1)})|list * {self.pick('2', '0', '-1')})"
        if kind == 6:
            return f"({self.mapping(depth - 1)})|{self.pick('list', 'dictsort', 'items|list')}"
        return f"{self.pick('range(3)', 'range(1, 6, 2)', 'range(4, 0, -1)')}|list"

    def mapping(self, depth):
        d = self.draw
        if depth <= 0:
            return d.choice(["c", "{}", "message", "messages[0]", "{'b': 1, 'a': none}", "dict(a=1, b='x')", "{'k': {'z': [1.5, true]}}"])
        if d.random() < 0.5:
            return self.mapping(depth - 1)
        return "{" + ", ".join(f"{self.quoted()}: {self.any(depth - 1)}" for _ in range(d.randint(0, 3))) + "}"

    def any(self, depth):
        d = self.draw
        if self.may_mix and d.random() < 0.05:
            return d.choice(["none", "nothing", "message.nothing", "ns", "c.keys()", "loop", "range(2)", "(1,)", "m0", "a.split", "items.append(1)"])
        kind = d.randint(0, 11)
        if kind == 0:
            return d.choice(["none", "message.nothing", "nothing", "c.get('x')", "c.get('role', 7)", "items[0]", "items[9]", "a[0]", "c.a", "ns.v",
                             "(1, 2)", "c['b']", "messages[0].n"])  # fmt: skip
        return [self.text, self.text, self.text, self.number, self.flag, self.items, self.mapping][kind % 7](depth)

    def data(self):
        pieces = [" ", "\n", "  ", "text", "<|im|>", "\n\n", "é", "{ ", "} ", "% ", "# ", "{ {\n", "\r\n", "\t", "- ", "\u00a0"]
        return "".join(self.draw.choices(pieces, k=self.draw.randint(0, 4)))

    def tag(self, text):
        begin = "{%" + self.draw.choice(["", "", "-", "+"]) + self.pick(" ", "", "\n ")
        return begin + text + self.pick(" ", "", " ") + self.draw.choice(["", "", "-", "+"]) + "%}"

    def body(self, depth):
        return "".join(self.data() + self.statement(depth) for _ in range(self.draw.randint(1, 3))) + self.data()

    def value_for(self, name, depth):
        kind = next(kind for kind, names in VARIABLES.items() if name in names)
        return getattr(self, kind)(depth)

    def statement(self, depth):
        d = self.draw
        kind = d.randint(0, 15) if depth > 0 else d.randint(0, 6)
        name = d.choice(NAMES)
        if kind <= 2:
            return "{{" + self.pick("", "-") + " " + self.any(3) + " " + self.pick("", "-") + "}}"
        if kind == 3:
            return self.tag(f"set {name} = {self.value_for(name, 2)}")
        if kind == 4:
            return self.tag(f"set ns.{self.pick('v', 'w')} = {self.any(1)}")
        if kind == 5:
            return "{#" + self.pick("", "-") + " c\n" + self.pick("", "-", "+") + "#}"
        if kind == 6:
            if self.loops and d.random() < 0.5:
                return self.tag("if " + self.flag(1)) + self.tag(self.pick("break", "continue")) + self.tag("endif")
            other = d.choice(NAMES)
            return self.tag(f"set {name}, {other} = {self.value_for(name, 1)}, {self.value_for(other, 1)}")
        if kind <= 9:
            text = self.tag("if " + self.flag(2)) + self.body(depth - 1)
            if d.random() < 0.3:
                text += self.tag("elif " + self.flag(2)) + self.body(depth - 1)
            if d.random() < 0.5:
                text += self.tag("else") + self.body(depth - 1)
            return text + self.tag("endif")
        if kind <= 12:
            target, what = d.choice([("message", "messages"), ("message", "messages[1:]"), ("a, x", "(('k', 1), ('l', 2))"), ("x", "range(4)"),
                                     ("a, b", "message.items()"), ("a", self.items(1)), ("b", "a"), ("a", self.mapping(1)), ("a, b", "c|items"),
                                     ("message", "messages|selectattr('role', 'ne', 'system')"), ("x", "none")])  # fmt: skip
            if what == "none" and not self.may_mix:
                what = "[3, 1, 2]|sort"
            condition = f" if {self.flag(1)}" if d.random() < 0.25 else ""
            self.loops += 1
            text = self.tag(f"for {target} in {what}{condition}") + self.body(depth - 1)
            self.loops -= 1
            if d.random() < 0.2:
                text += self.tag("else") + self.body(depth - 1)
            return text + self.tag("endfor")
        if kind == 13:
            chain, name = self.pick("", "", " | upper", " | trim | title", " | replace(' ', '_')"), self.pick("a", "b")
            loops, self.loops = self.loops, 0
            text = self.tag(f"set {name}{chain}") + self.body(depth - 1) + self.tag("endset")
            self.loops = loops
            return text
        loops, self.loops = self.loops, 0
        if kind == 14:
            text = self.tag(f"filter {self.pick('upper', 'trim', 'indent(2)', 'replace(a, b)')}") + self.body(depth - 1) + self.tag("endfilter")
        else:
            text = self.tag("generation") + self.body(depth - 1) + self.tag("endgeneration")
        self.loops = loops
        return text

    def macro(self):
        name, count = f"m{len(self.macros)}", self.draw.randint(0, 3)
        parameters = self.draw.sample(NAMES, count)
        defaults = self.draw.randint(0, count)
        signature = ", ".join(p if i < count - defaults else f"{p}={self.value_for(p, 1)}" for i, p in enumerate(parameters))
        text = self.tag(f"macro {name}({signature})") + self.body(1) + self.tag("endmacro")
        self.macros.append((name, count))
        return text

    def template(self):
        set_all = "{% set a = 'A' %}{% set b = messages[0].content|string %}{% set items = ['u', 'v'] %}{% set c = {'a': 1} %}{% set x, y = 3, 0.5 %}"
        text = self.pick("", set_all, set_all, set_all, set_all) + self.pick("{% set ns = namespace(v=0) %}", "{% set ns = namespace(v='x', w=none) -%}\n")
        text += "{% set message = messages[-1] %}" if self.draw.random() < 0.8 else ""
        for _ in range(self.draw.choice([0, 0, 1, 2])):
            text += self.data() + self.macro()
        return text + self.body(2) + self.body(1)

    def conversation(self):
        d = self.draw
        messages = [{"role": self.pick("user", "assistant", "system"), "content": d.choice(TEXTS)} for _ in range(d.randint(1, 4))]
        for message in messages:
            if d.random() < 0.2:
                message["n"] = d.randint(0, 3)
            if d.random() < 0.05:
                message["content"] = [{"type": "text", "text": d.choice(TEXTS)}]
        return messages


def case(seed):
    """A template, messages and variables."""
    program = Program(seed)
    template = program.template()
    variables = {"n": program.draw.randint(-2, 5)} if program.draw.random() < 0.9 else {}
    if program.draw.random() < 0.3:
        variables["x"] = program.draw.choice([3, -1.5, 8, True])
    return {
        "template": template,
        "messages": program.conversation(),
        "add_generation_prompt": program.draw.random() < 0.5,
        "tokens": {"bos_token": "<s>", "eos_token": "</s>"},
        "extra": variables,
    }
