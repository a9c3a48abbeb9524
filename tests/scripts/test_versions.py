"""The version stands once, in CMakeLists.txt; everything that says it says the same."""

import ctypes
import re
import subprocess


def test_everything_says_the_version_of_the_project(repo, crumb_bin, crumb):
    version = re.search(r"^project\(crumb VERSION (\S+) ", (repo / "CMakeLists.txt").read_text(), re.M)[1]
    assert crumb("--version").stdout == f"crumb {version}\n"
    library = crumb_bin.parent / "libcrumb.so"
    if library.is_file():
        library = ctypes.CDLL(str(library))
        library.crumb_version.restype = ctypes.c_char_p
        assert library.crumb_version() == version.encode()
    assert f"\nVersion: {version}\n" in (crumb_bin.parent / "crumb.pc").read_text()
    newest = re.search(r"^## (\S+)", (repo / "CHANGELOG.md").read_text(), re.M)[1]
    assert newest == version, "CHANGELOG.md begins with another version"


def test_it_stands_nowhere_else(repo):
    """Nor does that before: whoever raises it changes CMakeLists.txt and CHANGELOG.md alone."""
    versions = re.findall(r"^## (\S+)", (repo / "CHANGELOG.md").read_text(), re.M)
    assert len(versions) >= 2
    stated = [word for version in versions for word in (f'"{version}"', f"crumb {version}", f"libcrumb.so.{version}", f"crumb_{version}_")]
    places = [word for name in stated for word in ("-e", name)]
    found = subprocess.run(["git", "grep", "-nF", *places, "--", ":!CHANGELOG.md", ":!tests/scripts/test_versions.py", ":!tests/fixtures/c_api"],
                           cwd=repo, capture_output=True, text=True)  # fmt: skip
    lines = [line for line in found.stdout.splitlines() if not line.startswith("runtime/crumb.h:")]  # its example of a version
    assert not lines
