"""What the documentation shows is what the command prints."""

import pathlib
import subprocess

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def test_number_formats_page_shows_what_the_command_prints(crumb_bin):
    printed = subprocess.run([crumb_bin, "formats"], capture_output=True, text=True, check=True).stdout
    page = (DOCS / "number_formats.md").read_text()
    assert printed.strip() in page
