"""No two headers of one namespace define the same thing: the linker would take either for both, without a word."""

import re
from collections import defaultdict

NAMESPACE = re.compile(r"^namespace (crumb[\w:]*) \{|^\}  // namespace (crumb[\w:]*)$")
# At the beginning of a line nothing is indented, so it is the namespace's own.
DEFINED = re.compile(
    r"^inline (?:static )?constexpr [^=;{]*?\b(\w+)(?:\[\w*\]|\)\(\))* ?[={]|^(?:struct|class|enum class) (\w+)\b(?!::)[^;]*\{"
)


def definitions(text):
    """(namespace, name) of each variable and type that a header defines."""
    text = re.sub(r"\n {4,}", " ", text)  # lines that go on
    space = []
    for line in text.split("\n"):
        if found := NAMESPACE.match(line):
            if found[1]:
                space.append(found[1])
            elif space:
                space.pop()
        elif space and (found := DEFINED.match(line)):
            yield space[-1], found[1] or found[2]


def test_each_name_is_defined_once(repo):
    where = defaultdict(set)
    for path in repo.glob("[a-z]*/**/*.h"):
        name = path.relative_to(repo).as_posix()
        if not name.startswith(("build", "tests/", "bench/", "examples/")):
            for key in definitions(path.read_text()):
                where[key].add(name)
    assert len(where) > 400
    assert {key: sorted(files) for key, files in where.items() if len(files) > 1} == {}


def test_what_counts_as_a_definition():
    text = """\
namespace crumb::a {
struct Declared;
struct Outer::Inside {
  int kInside = 1;
};
struct Defined {
  int kInside = 1;
};
inline constexpr int kOne = 1, kTwo = 2;
inline constexpr std::span<const Row> (*kTable[])() = {
    one, two};
inline int function(int a) {
  return a;
}
}  // namespace crumb::a
"""
    assert set(definitions(text)) == {("crumb::a", "Defined"), ("crumb::a", "kOne"), ("crumb::a", "kTable")}
