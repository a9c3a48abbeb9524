"""The program and the engine's library know each other by a hash of all the declarations that cross between them."""

import random
import re
import shutil
import subprocess

import pytest

ENDS = ["jobs/engines/open_engine.cpp", "cli/engine/engine_library.cpp"]
ROOMS = ["base", "formats", "quant", "graph", "analysis", "models"]
CHANGES = 12


@pytest.fixture(scope="module")
def tree(of_scripts, repo):
    """The repository's own walk over includes, which knows nothing of CMake's."""
    return of_scripts("check_includes").Tree(repo)


@pytest.fixture(scope="module")
def crossing(tree):
    """What either end includes, and every header of the rooms that both link."""
    shared = [path for path in tree.files if path.endswith(".h") and path.startswith(tuple(f"{r}/" for r in ROOMS))]
    return set().union(*(tree.reachable(path) for path in [*ENDS, *shared]))


def interface(repo, root):
    """(hash, files), as CMake derives them."""
    script = root / "interface.cmake"
    script.write_text(
        f'include("{repo}/cmake/CrumbInterface.cmake")\n'
        f'crumb_interface(hash files "{root}" {" ".join(ENDS)} ROOMS {" ".join(ROOMS)})\n'
        'message("${hash};${files}")\n'
    )
    done = subprocess.run(["cmake", "-P", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found, *files = done.stderr.strip().split(";")
    assert re.fullmatch("[0-9a-f]{64}", found)
    return found, files


def copied(tree, crossing, root):
    for path in crossing:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tree.root / path, root / path)
    return root


def test_the_closure_is_that_of_the_include_check(repo, tree, crossing, tmp_path):
    _, files = interface(repo, copied(tree, crossing, tmp_path))
    assert files == sorted(crossing)
    # Each of these was missing while headers were listed by hand.
    assert {"base/threads/parallel.h", "quant/accumulator/accumulator.h", "quant/loops/loops.h", "formats/dtype.h"} <= crossing


def test_any_changed_header_changes_the_hash_and_nothing_else_does(repo, tree, crossing, tmp_path):
    root = copied(tree, crossing, tmp_path)
    before, _ = interface(repo, root)
    drawn = random.Random(1).sample(sorted(crossing), CHANGES)
    for path in [*drawn, "tasks/train/trainer.h", "quant/recipe/recipe.h"]:
        text = (root / path).read_text()
        (root / path).write_text(text + "struct Changed {};\n")
        assert interface(repo, root)[0] != before, path
        (root / path).write_text(text)
        assert interface(repo, root)[0] == before, path
    (root / "quant" / "other.cpp").write_text("int other;\n")
    (root / "qat" / "other.h").write_text("struct Other {};\n")
    assert interface(repo, root)[0] == before
    (root / "quant" / "other.h").write_text('#include "qat/other.h"\n')
    assert interface(repo, root)[0] != before
    assert {"quant/other.h", "qat/other.h"} <= set(interface(repo, root)[1])


def test_the_build_configures_anew_when_one_changes(crumb_bin, repo, crossing):
    rules = crumb_bin.parent / "build.ninja"
    if not rules.is_file():
        pytest.skip(f"{crumb_bin.parent} is no build folder of Ninja")
    again = re.search(r"^build build\.ninja.*$", rules.read_text().replace("$\n", ""), re.MULTILINE)
    watched = set(again.group().split()) if again else set()
    assert {path for path in crossing if str(repo / path) not in watched} == set()
