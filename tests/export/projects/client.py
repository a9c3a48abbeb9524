"""A consumer's own tool, in an environment of its own."""

import os
import subprocess
from pathlib import Path

import pytest


def client_python(name):
    """The interpreter of scripts/clients/NAME.txt; skips where it was not set up."""
    cache = os.environ.get("CRUMB_CACHE") or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "crumb"
    python = Path(cache) / "clients" / name / "bin/python"
    if not python.is_file():
        pytest.skip(f"{name} is not set up: scripts/setup tests, or slow-tests")
    return python


def build(client, project, *arguments):
    """What build.py of a project says, and its exit code."""
    done = subprocess.run([client_python(client), project / "build.py", *map(str, arguments)],
                          capture_output=True, text=True, timeout=900)  # fmt: skip
    return done.returncode, done.stdout + done.stderr
