"""scripts/docs: API pages of everything that is installed, without a warning of Doxygen."""

import re
import shutil
import subprocess

import pytest


@pytest.fixture(scope="module")
def pages(repo, tmp_path_factory):
    if shutil.which("doxygen") is None:
        pytest.skip("doxygen is not installed (scripts/setup tests)")
    folder = tmp_path_factory.mktemp("pages") / "api"
    done = subprocess.run([repo / "scripts/docs", folder], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    yield folder
    shutil.rmtree(folder)


def words_of(page):
    return " ".join(re.sub(r"<[^>]*>", " ", page.read_text()).split())


def test_pages_say_what_headers_say(repo, pages):
    c = words_of(pages / "crumb_8h.html")
    for call in re.findall(r"CRUMB_API [^;(]*?(\w+)\(", (repo / "runtime/crumb.h").read_text()):
        assert call in c, call
    assert "Opens a network." in c and "the call itself is wrong: a null pointer" in c
    assert "Recipe" in words_of(pages / "annotated.html")


def test_a_wrong_comment_is_an_error(repo, pages, tmp_path):
    """The pages of a copy of one room with a comment that Doxygen takes for markup."""
    for name in ["scripts/docs", "docs/Doxyfile", "docs/api.md", "CMakeLists.txt"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(repo / name, tmp_path / name)
    for name in ["formats", "quant", "text", "graph", "analysis", "models", "runtime", "ptq", "export", "libtorch", "qat", "base"]:
        (tmp_path / name).mkdir(exist_ok=True)
    for header in ("ptq/stages.h", "jobs/quantize.h", "jobs/sweep.h", "jobs/observer.h", "eval/grid_table.h", "eval/output_scores.h"):
        (tmp_path / header).parent.mkdir(exist_ok=True)
        shutil.copy(repo / header, tmp_path / header)
    done = subprocess.run([tmp_path / "scripts/docs"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (tmp_path / "base/wrong.h").write_text("/// Takes a vector<int> of \\sizes.\nvoid f();\n")
    done = subprocess.run([tmp_path / "scripts/docs"], capture_output=True, text=True)
    assert done.returncode != 0 and "wrong.h:1: " in done.stderr and "'\\sizes'" in done.stderr


def test_the_page_names_headers_that_are_there(repo):
    named = re.findall(r"`((?:\w+/)+\w+\.h)`", (repo / "docs/api.md").read_text())
    assert len(named) > 8 and not [name for name in named if not (repo / name).is_file()]
