"""scripts explain themselves, wherever they are called from."""

import os
import subprocess

import pytest


@pytest.mark.parametrize(("script", "option", "status"), [("demo", "--help", 0), ("demo", "-h", 0), ("demo", "--bad", 2),
                                                          ("test", "--help", 2), ("format", "--help", 2), ("docs", "--help", 0), ("docs", "--bad", 2)])  # fmt: skip
def test_help_from_another_folder(repo, tmp_path, script, option, status):
    path = os.path.relpath(repo / "scripts" / script, tmp_path)
    done = subprocess.run([path, option], cwd=tmp_path, capture_output=True, text=True)
    text = done.stderr if status else done.stdout
    assert done.returncode == status and f"scripts/{script}" in text and "No such file" not in done.stderr
