"""Who catches an Error to say where it happened keeps its kind (base/within.h): what a person stopped ends as that, and a wrong flag
as a wrong flag."""

import re

THROWN = re.compile(r"\bthrow Error\([^;]*\b(\w+)\.what\(\)[^;]*;")
CAUGHT = re.compile(r"catch \(const ([\w:]+)& (\w+)\)")


def losses(text):
    """What throws another Error of an Error's message alone."""
    for thrown in THROWN.finditer(text):
        caught = [found for found in CAUGHT.finditer(text, 0, thrown.start()) if found[2] == thrown[1]]
        if caught and caught[-1][1] == "Error" and ".kind()" not in thrown[0]:
            yield text.count("\n", 0, thrown.start()) + 1, thrown[0]


def test_kinds_are_kept(repo):
    sources = [path for path in repo.glob("[a-z]*/**/*.cpp") if not path.relative_to(repo).parts[0].startswith("build")]
    assert len(sources) > 500
    found = [f"{path.relative_to(repo)}:{line}: {what}" for path in sources for line, what in losses(path.read_text())]
    assert not found, "\n".join(found)


def test_a_kind_that_is_lost_is_found():
    way = "try {\n  f();\n} catch (const %s& error) {\n  throw Error(name +\n      error.what()%s);\n}\n"
    assert [line for line, _ in losses(way % ("Error", ""))] == [4]
    assert not list(losses(way % ("Error", ", error.kind()")))
    assert not list(losses(way % ("nlohmann::json::exception", "")))
