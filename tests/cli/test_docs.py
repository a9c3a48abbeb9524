"""What the documentation shows is what the command prints."""

import pathlib
import subprocess

import pytest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "command"), [("number_formats.md", ["formats"]), ("recipes.md", ["recipe", "--fields"])]
)
def test_a_page_shows_what_the_command_prints(crumb_bin, page, command):
    printed = subprocess.run([crumb_bin, *command], capture_output=True, text=True, check=True).stdout
    assert printed.strip() in (DOCS / page).read_text()
