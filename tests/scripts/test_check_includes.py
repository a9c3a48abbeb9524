"""The check of the house finds what it must, and only that."""

import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest


def check(repo, root):
    script = repo / "scripts" / "check_includes.py"
    return subprocess.run([sys.executable, script, root], capture_output=True, text=True)


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


RIGHT = {
    "formats/a.h": "#include <vector>",
    "quant/b.h": '#include "formats/a.h"',
    "libtorch/c.h": '#include <torch/torch.h>\n#include "quant/b.h"',
    "cli/main.cpp": '#include "quant/b.h"',
    "scripts/command_includes.txt": "cli/main.cpp: quant",
    "tests/formats/a_test.cpp": '#include "formats/a.h"\n#include "quant/b.h"',
    "tests/libtorch/c_test.cpp": '#include "libtorch/c.h"',
}


def test_a_right_tree_passes(repo, tmp_path):
    write(tmp_path, RIGHT)
    done = check(repo, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        ("formats/x.h", '#include "quant/b.h"', "formats includes"),
        ("formats/x.h", "#include <quant/b.h>", "formats includes"),
        ("quant/x.cpp", '  #  include "cli/x.h"', "quant includes"),
        ("quant/x.cpp", '#include "libtorch/c.h"', "quant includes"),
        ("quant/x.cpp", '#include "tests/help.h"', "not part of the library"),
        ("quant/x.cpp", '#include "b.h"', "no path from the root"),
        ("quant/x.cpp", "#include <ATen/ATen.h>", "must be free of LibTorch"),
        ("cli/x.h", '#include "libtorch/c.h"', "cli/x.h -> libtorch/c.h -> torch/torch.h"),
        ("tests/quant/x_test.cpp", '#include "tests/help.h"', "tests/help.h -> libtorch/c.h -> torch/torch.h"),
        ("runtime/x.cpp", "#include <c10/util/Half.h>", "must be free of LibTorch"),
        ("cli/x.cpp", '#include "quant/b.h"', "includes quant; new work is a job"),
        ("cli/main.cpp", '#include "quant/b.h"\n#include "formats/a.h"', "includes formats; new work is a job"),
        ("cli/main.cpp", "", "does not include quant any more"),
    ],
)
def test_a_wrong_include_is_found(repo, tmp_path, path, text, says):
    write(tmp_path, {**RIGHT, "cli/x.h": "", "tests/help.h": '#include "libtorch/c.h"', path: text})
    done = check(repo, tmp_path)
    assert done.returncode == 1
    assert path in done.stderr
    assert says in done.stderr


FOLDERS = ["graph", "graph/a", "graph/a/deep", "graph/b", "graph/c", "quant", "quant/a"]


def one_way(random, folders):
    """(from, to) arrows that only go up a drawn order, and those between parents and children, either way."""
    order = random.sample(folders, len(folders))
    up = [(here, there) for i, here in enumerate(order) for there in order[:i] if random.random() < 0.5]
    rooms = [(here, there) for here, there in up if not (here.startswith("quant") and there.startswith("graph"))]
    family = [(here, there) for here in folders for there in folders if there.rpartition("/")[0] == here]
    return rooms + [random.choice([(here, there), (there, here)]) for here, there in family]


def tree_of(arrows):
    """Each arrow is an include of a header of its own, so that files make no circle where folders do."""
    files = {}
    for i, (here, there) in enumerate(arrows):
        files[f"{there}/of_{i}.h"] = ""
        files[f"{here}/at_{i}.cpp"] = f'#include "{there}/of_{i}.h"'
    return files


def is_family(here, there):
    return here.rpartition("/")[0] == there or there.rpartition("/")[0] == here


def reaches(arrows, start, goal):
    """An own walk over what counts as an arrow."""
    seen, todo = set(), [start]
    while todo:
        here = todo.pop()
        for a, b in arrows:
            if a == here and b not in seen:
                seen.add(b)
                todo.append(b)
    return goal in seen


@pytest.mark.parametrize("seed", range(40))
def test_circles_of_folders_are_found_and_nothing_else(repo, tmp_path, seed):
    random = Random(seed)
    arrows = one_way(random, FOLDERS)
    if seed % 2:  # one that may close a circle, within a room or below it
        here, there = random.sample(FOLDERS[:5], 2)
        arrows.append((here, there))
    write(tmp_path, tree_of(arrows))
    done = check(repo, tmp_path)
    counted = [(a, b) for a, b in arrows if a != b and not is_family(a, b)]
    circle = any(reaches(counted, b, a) for a, b in counted)
    assert (done.returncode == 1) == circle, done.stderr
    assert ("a circle of folders" in done.stderr) == circle


def test_a_circle_names_its_folders_and_the_includes(repo, tmp_path):
    write(tmp_path, tree_of([("graph/a", "graph/b"), ("graph/b", "graph/c"), ("graph/c", "graph/a")]))
    says = check(repo, tmp_path).stderr
    assert "graph/a -> graph/b -> graph/c -> graph/a" in says
    assert all(f"at_{i}.cpp includes" in says for i in range(3))


@pytest.mark.parametrize(("lines", "is_fault"), [(5_000, False), (5_001, True)])
def test_a_room_above_a_quarter_is_found(repo, tmp_path, lines, is_fault):
    rest = {f"{room}/x.cpp": "\n" * 2999 for room in ("base", "formats", "quant", "cli", "export")}
    write(tmp_path, {**rest, "graph/x.cpp": "\n" * (lines - 1)})
    done = check(repo, tmp_path)
    assert (done.returncode, "graph: " in done.stderr) == (int(is_fault), is_fault), done.stderr


def test_every_room_is_known_where_rooms_are_listed(repo, of_scripts):
    """clang-tidy looks into the headers of all rooms; what scripts/test runs is there; mutation's rooms are."""
    rooms = of_scripts("check_includes").MAY_INCLUDE
    [headers] = re.findall(r"^HeaderFilterRegex: '(.*)'$", (repo / ".clang-tidy").read_text(), re.MULTILINE)
    assert [room for room in rooms if not re.fullmatch(headers, f"/somewhere/{room}/x.h")] == []
    named = set(re.findall(r"(?<![\w/.$-])tests/[\w/.]+", (repo / "scripts/test").read_text()))
    assert len(named) > 4
    assert [path for path in sorted(named) if "*" not in path and not (repo / path.rstrip(".")).exists()] == []
    house = (repo / "docs/building.md").read_text().split("## Rooms and their includes")[1]
    built = (repo / "CMakeLists.txt").read_text()
    for room in rooms:
        if (repo / room).exists():
            assert re.search(rf"^{room}/ ", house, re.MULTILINE) and f"crumb_room({room} " in built, room
    for room in of_scripts("mutation.rooms").ROOMS.values():
        assert all((repo / path).exists() for path in (room.name, room.tests, *room.python)), room.name


def test_every_doctest_file_is_in_an_executable(repo):
    """CMake finds tests below the folders that it is given: one that it is not given would be built by nobody."""
    text = (repo / "tests/CMakeLists.txt").read_text()
    [core] = re.findall(r"set\(core_folders ([^)]*)\)", text)
    lists = re.findall(r"crumb_test\(crumb_\w+ [^)]*?FOLDERS([^)]*?)LIBRARIES", text.replace("${core_folders}", core))
    given = {folder for names in lists for folder in names.split()}
    files = [path.relative_to(repo) for path in (repo / "tests").rglob("*_test.cpp")]
    assert len(given) > 10 and len(files) > 100
    alone = {path.relative_to(repo).parent for path in (repo / "tests").rglob("CMakeLists.txt")} - {Path("tests")}
    lost = [str(path) for path in files if not {*map(str, path.parents)} & {*given, *map(str, alone)}]
    assert lost == []


def test_code_asks_the_processor_and_not_the_compiler_for_instruction_sets(repo, of_scripts):
    """GCC up to 12 defines no __AVX512F__ and its like under a pragma: what such a macro guards is compiled by nobody."""
    rooms = of_scripts("check_includes").MAY_INCLUDE
    for path in [path for room in rooms for path in (repo / room).rglob("*") if path.suffix in {".h", ".cpp", ".inc"}]:
        code = re.sub(r"//[^\n]*", "", path.read_text())
        assert not re.search(r"\b__(AVX|FMA|SSE|AMX|BMI|F16C)\w*__\b", code), path
