"""cmake --install, and find_package(crumb) from a project outside the repository."""

import subprocess

import pytest


def run(*command, **keywords):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **keywords)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(repo, crumb_bin, tmp_path_factory):
    """An install prefix filled from the build that crumb_bin lies in."""
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", crumb_bin.parent, "--prefix", prefix)
    return prefix


def test_a_project_outside_builds_against_the_installed_libraries(repo, prefix, tmp_path):
    run("cmake", "-G", "Ninja", "-S", repo / "tests" / "install", "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path)
    assert run(tmp_path / "example") == "-7 -3 0 1 2 3 4 7 \n"


def test_the_installed_command_runs(prefix):
    assert run(prefix / "bin" / "crumb", "--version").strip()


def test_nothing_installed_names_the_source_tree(repo, prefix):
    for path in prefix.rglob("*"):
        if path.suffix in {".cmake", ".h"}:
            assert str(repo) not in path.read_text(), path
