"""scripts/mutate: what it changes in C++ text, and a whole run on a small repository."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOMS = ["formats/number", "quant", "analysis/accumulator", "graph/facts", "graph/qonnx", "export"]


@pytest.fixture(scope="module")
def points(of_scripts):
    return of_scripts("mutation.points")


@pytest.fixture(scope="module")
def reviewed(of_scripts):
    return of_scripts("mutation.reviewed")


def changes(points, text):
    return {(text[m.start : m.end], m.new, m.line(text)) for m in points.mutants_of("a.cpp", text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = a + b;", {("+", "-")}),
        ("x = a <= 3;", {("<=", "<"), ("<=", ">"), ("3", "4"), ("3", "2")}),
        ("if (a && !b) f();", {("&&", "||"), ("!", ""), ("a && !b", "!(a && !b)")}),
        ("while (int n = 0; n < m) f();",
         {("0", "1"), ("0", "-1"), ("<", "<="), ("<", ">="), ("n < m", "!(n < m)")}),
        ("return std::min(a, -b);", {("min", "max"), ("-", "")}),
        ("bool x = true;", {("true", "false")}),
        ("x |= 0xFFu;", {("|=", "&="), ("0xFFu", "0x100u"), ("0xFFu", "0xfeu")}),
        ("x = 0.5f;", {("0.5f", "1.5f"), ("0.5f", "-0.5f")}),
        ("x = 1e-3;", {("1e-3", "(1e-3 + 1)"), ("1e-3", "(1e-3 - 1)")}),
        ("x = 1'000u;", {("1'000u", "1001u"), ("1'000u", "999u")}),
        ("for (; i < n; ++i) {}", {("<", "<="), ("<", ">="), ("++", "--")}),
        ("x = ~a << b;", {("~", ""), ("<<", ">>")}),
        ("all.any_of(f); min(a, b);", {("any_of", "all_of")}),
    ],
)  # fmt: skip
def test_each_operator_and_constant_is_changed(points, text, expected):
    text = f"void f() {{\n  {text}\n}}\n"
    assert changes(points, text) == {(before, after, 2) for before, after in expected}


@pytest.mark.parametrize(
    "text",
    [
        "// a + b == 1, true",
        "/* a + b\n == 1 */",
        '#include "quant/x1.h"',
        "#if A == 1 && \\\n  B == 2",
        'f("a + 1 == \\" 2", \'\\\'\', \'+\', u8"true", R"x(1 + 1)" + 2)x");',
        "[[maybe_unused, deprecated(\"1 + 1\")]] T a;",
        "template <class T, std::vector<T>* P> void f(const T& a, T&& b, T* c) noexcept;",
        "auto& [a, b] = *c.d->e; f(&a, *b, [&](auto... c) {});",
        "bool operator==(const T&) const = default; T operator+(T) const; T& operator++(); bool operator!() const;",
        'text = "a" + b + "c"; text += "d";',
        "std::map<int, std::vector<std::array<T, N>>> a;",
        "struct min; max(a);",
        "int a1, b_2, x3y;",
    ],
)
def test_nothing_else_is_changed(points, text):
    assert changes(points, text + "\n") == set()


@pytest.mark.parametrize("room", ROOMS)
def test_the_draw_is_fixed_by_its_seed_and_each_change_by_its_lines(points, repo, room):
    everything = points.mutants_under(repo, room)
    assert len(everything) > 500
    assert points.drawn(everything, 7) == points.drawn(list(everything), 7) != points.drawn(everything, 8)
    assert sorted(points.drawn(everything, 7)) == everything
    texts = {file: (repo / file).read_text() for file in {mutant.file for mutant in everything}}
    for mutant in points.drawn(everything, 1)[:300]:
        text = texts[mutant.file]
        changed = mutant.apply(text)
        before, after = mutant.lines(text)
        assert changed != text and before != after
        assert len(changed) - len(text) == len(mutant.new) - (mutant.end - mutant.start)
        shown = " ".join(text.split("\n")[mutant.line(text) - 1].split())
        assert before.startswith(shown)


def test_every_reviewed_change_is_still_one(reviewed, repo):
    assert reviewed.stale(repo, reviewed.read(repo / "scripts/mutation/equivalent.txt")) == []


def test_a_reviewed_line_may_become_anything(reviewed, tmp_path):
    (tmp_path / "a.cpp").write_text("constexpr int kGrain = 64;  // rows\n")
    grain = {("a.cpp", "constexpr int kGrain = 64; // rows", "*"): "speed"}
    assert reviewed.stale(tmp_path, grain) == []
    assert reviewed.reason_of(grain, "a.cpp", "constexpr int kGrain = 64; // rows", "anything") == "speed"
    assert reviewed.reason_of(grain, "b.cpp", "constexpr int kGrain = 64; // rows", "anything") is None
    gone = {("a.cpp", "constexpr int kGrain = 65; // rows", "*"): "speed"}
    assert reviewed.stale(tmp_path, gone) == sorted(gone)


def test_reviewed_changes_need_a_reason(reviewed, tmp_path):
    path = tmp_path / "equivalent.txt"
    path.write_text("# why\na.cpp\n- x = 1;\n+ x = 2;\nnobody reads x\n\nb.cpp\n- y\n+ z\nsame\n  still\n")
    assert reviewed.read(path) == {("a.cpp", "x = 1;", "x = 2;"): "nobody reads x", ("b.cpp", "y", "z"): "same still"}
    for broken in ("a.cpp\n- x\n+ y\n", "a.cpp\n+ y\n- x\nwhy\n", "a.cpp\n- x\n+ y\nwhy\n\na.cpp\n- x\n+ y\nwhy\n"):
        path.write_text(broken)
        with pytest.raises(ValueError):
            reviewed.read(path)


BEFORE = """\
extern "C" int printf(const char*, ...);
extern "C" void _exit(int);
int turns = 0;
void turn() {
  if (++turns > 1000) _exit(3);  // a change made a loop endless
}
"""
EVERY_KIND = """\
namespace std {
template <class T> const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> const T& max(const T& a, const T& b) { return a < b ? b : a; }
}
struct Pair { int first = 3; bool ok() const { return first > 2; } };
int f(int a, int b, unsigned c, Pair p) {
  int sum = a + b * 2 - c / 3 % 4;  // a comment
  sum += a << 2;
  sum -= b >> 1;
  sum *= 3;
  if (a < b && !p.ok() || b >= 7) sum ^= 5;
  if (const int d = a & b; d != 0 && (a | c) == 7u) sum = -sum;
  while (sum > 100'000) sum /= 2, turn();
  for (int i = 0, j = 9; i <= j; ++i, --j) sum = sum + (~i ^ j), turn();
  const bool negative = sum < 0, small = !negative &&
      sum - 1 < 50;  // on two lines
  return std::min(sum, 1000 + a) + (small ? -p.first : std::max(a, b)) + true;
}
constexpr int kOnlyForTheCompiler = 40 + 1;
void run() {
  for (int a = -3; a < 4; ++a, turn()) {
    for (int b = -2; b < 9; b += 5, turn()) printf("%d ", f(a, b, 4u * b, Pair{a - b}) + kOnlyForTheCompiler);
  }
}
"""


def test_changes_that_are_built_together_are_what_each_is_alone(points, repo, tmp_path):
    from mutation.schema import schema

    mutants = dict(enumerate(points.mutants_of("a.cpp", EVERY_KIND)))
    first = {(mutant.start, mutant.end): k for k, mutant in reversed(mutants.items())}
    text, used = schema(EVERY_KIND, mutants)
    assert set(used) == set(first.values())  # one at each place
    assert text.count("\n") == EVERY_KIND.count("\n")
    parts = repo / "scripts/mutation"
    (tmp_path / "together.cpp").write_text(BEFORE + text + "int main() { run(); }\n")
    build = ["c++", "-std=c++20", "-w", "-O0"]
    together = [*build, "-include", parts / "selected.h", tmp_path / "together.cpp", parts / "selected.cpp", "-o"]
    subprocess.run([*together, tmp_path / "together"], check=True)
    each = [f"namespace alone{k} {{\n{mutants[k].apply(EVERY_KIND)}}}\n" for k in used]
    cases = "".join(f"    case {k}: alone{k}::run(); break;\n" for k in used)
    choice = f"int main(int n, char** a) {{\n  switch (atoi(a[1])) {{\n{cases}  }}\n}}\n"
    (tmp_path / "alone.cpp").write_text(BEFORE + 'extern "C" int atoi(const char*);\n' + "".join(each) + choice)
    subprocess.run([*build, tmp_path / "alone.cpp", "-o", tmp_path / "alone"], check=True)

    def output(*command, **environment):
        done = subprocess.run(command, capture_output=True, env={**os.environ, **environment}, timeout=60)
        return done.returncode, done.stdout

    unchanged = output(tmp_path / "together")
    marks = tmp_path / "marks"
    marks.write_bytes(bytes(len(mutants)))
    assert output(tmp_path / "together", CRUMB_REACHED=str(marks)) == unchanged
    reached = {k for k, mark in enumerate(marks.read_bytes()) if mark}
    alone_only = {k for k in used if EVERY_KIND.split("\n")[mutants[k].line(EVERY_KIND) - 1].startswith("constexpr int k")}
    assert len(alone_only) == 3 and not alone_only & reached
    differ = set()
    for k in sorted(set(used) - alone_only):
        alone = output(tmp_path / "alone", str(k))
        assert output(tmp_path / "together", CRUMB_MUTANT=str(k)) == alone, mutants[k]
        differ |= {k} if alone != unchanged else set()
    assert differ <= reached and len(used) > 70 and len(differ) > 50


SMALL = {
    ".gitignore": "/ignored\n",
    "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_STANDARD 20)
find_program(CCACHE ccache)
if(CCACHE)  # as Crumb has it: what a file includes is noted by relative paths then
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()
include_directories(${PROJECT_SOURCE_DIR})
add_library(crumb_formats STATIC formats/number/sum.cpp)
add_executable(crumb main.cpp)
target_link_libraries(crumb crumb_formats)
add_subdirectory(tests)
""",
    "main.cpp": "int main() { return 0; }\n",
    "formats/number/sum.h": "inline bool is_small(int a) { return a < 10; }\nint sum_to(int n);\nint unused(int a);\n",
    "formats/number/sum.cpp": """\
#include "formats/number/sum.h"
int sum_to(int n) {
  int sum = 1;
  for (long i = 2; i <= n; ++i) sum += i;
  return sum;
}
int unused(int a) { return a + 41; }
""",
    "tests/CMakeLists.txt": """\
add_library(crumb_test_support STATIC support.cpp)
add_executable(crumb_tests formats/number/sum_test.cpp)
target_link_libraries(crumb_tests crumb_test_support crumb_formats)
add_executable(crumb_qcdq_cases ../main.cpp)
add_executable(crumb_graph_facts ../main.cpp)
""",
    "tests/support.cpp": "int support;\n",
    "tests/formats/number/sum_test.cpp": """\
#include "formats/number/sum.h"
int main() { return sum_to(4) == 10 && is_small(9) && !is_small(10) ? 0 : 1; }
""",
}


@pytest.fixture
def small(repo, tmp_path):
    """A repository of one room, with one function that no test calls."""
    root = tmp_path / "small"
    for name, text in SMALL.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    shutil.copy(repo / "scripts/mutate", root / "mutate")
    (root / "scripts").mkdir()
    shutil.move(root / "mutate", root / "scripts/mutate")
    shutil.copytree(repo / "scripts/mutation", root / "scripts/mutation", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "scripts/mutation/equivalent.txt").write_text(
        "formats/number/sum.cpp\n- int unused(int a) { return a + 41; }\n+ int unused(int a) { return a + 42; }\n"
        "a reason\n"
    )
    subprocess.run(["git", "init", "-q", root], check=True)
    return root


def command(small, *flags):
    return [sys.executable, small / "scripts/mutate", "formats/number", "--own", "--seed", "3", "--jobs", "1", *flags]


def environment(small):
    return {**os.environ, "CRUMB_CACHE": str(small.parent / "cache")}


def test_a_run_finds_what_no_test_notices_and_goes_on_where_it_was_killed(small):
    before = {path: path.read_bytes() for path in sorted(small.rglob("*")) if path.is_file() and ".git/" not in str(path)}
    env = environment(small)
    first = subprocess.Popen(command(small), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def lines():
        found = [path.read_text() for path in (small.parent / "cache").glob("mutate/*/results/*.jsonl")]
        return [json.loads(line) for line in found[0].split("\n") if line][1:] if found else []

    deadline = time.monotonic() + 300
    while len(lines()) < 3 and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = lines()
    assert len(kept) >= 3
    done = subprocess.run(command(small), env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert lines()[: len(kept)] == kept
    assert {path: path.read_bytes() for path in before} == before
    assert all(Path(path).is_file() for path in before)

    by_change = {(line["file"].removeprefix("formats/number/"), line["before"], line["after"]): line["status"]
                 for line in lines()}  # fmt: skip
    unused = {key: status for key, status in by_change.items() if "unused" in key[1]}
    assert sorted(unused.values()) == ["equivalent", "survived", "survived"]  # the reviewed one is not run
    others = {key: status for key, status in by_change.items() if "unused" not in key[1]}
    assert set(others.values()) == {"doctest", "timeout"}, others
    assert others[("sum.h", "inline bool is_small(int a) { return a < 10; }",
                   "inline bool is_small(int a) { return a <= 10; }")] == "doctest"  # fmt: skip
    assert "== equivalent: 1" in done.stdout and "== survived: 2" in done.stdout
    last = done.stdout.strip().split("\n")[-1]
    assert last.startswith(f"formats/number, seed 3: {len(others)} of {len(others) + 2} noticed"), last

    # A test for it, and only what survived is run again.
    test = small / "tests/formats/number/sum_test.cpp"
    test.write_text(test.read_text().replace("sum_to(4) == 10", "sum_to(4) == 10 && unused(1) == 42"))
    again = subprocess.run(command(small, "--again"), env=env, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert "== survived: 0" in again.stdout and "100.0 %" in again.stdout


def test_the_second_change_of_a_place_is_built_alone(small):
    done = subprocess.run(command(small), env=environment(small), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [results] = (small.parent / "cache").glob("mutate/*/results/*.jsonl")
    assert {json.loads(line)["how"] for line in results.read_text().splitlines()[1:]} == {"together", "alone"}


def test_a_test_that_fails_unchanged_is_an_error(small):
    test = small / "tests/formats/number/sum_test.cpp"
    test.write_text(test.read_text().replace("== 10 ", "== 11 "))
    done = subprocess.run(command(small), env=environment(small), capture_output=True, text=True)
    assert done.returncode == 1 and "of the unchanged copy: failed" in done.stderr
