"""A consumer's own tool, in an environment of its own."""

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


def client_python(name):
    """The interpreter of scripts/clients/NAME.txt; skips where it was not set up."""
    cache = os.environ.get("CRUMB_CACHE") or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "crumb"
    python = Path(cache) / "clients" / name / "bin/python"
    if not python.is_file():
        pytest.skip(f"{name} is not set up: scripts/setup tests, or slow-tests")
    return python


@functools.cache
def quick_compiler():
    """A folder whose g++ is the machine's without optimisation: what hls4ml writes takes half the time so, and its
    integers are the same."""
    folder = Path(tempfile.mkdtemp(prefix="crumb-compiler-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "g++").write_text(f'#!/bin/sh\nexec "{shutil.which("g++")}" "$@" -O0\n')
    (folder / "g++").chmod(0o755)
    return folder


def environment():
    return {**os.environ, "PATH": f"{quick_compiler()}{os.pathsep}{os.environ['PATH']}"}


def build(client, project, *arguments):
    """What build.py of a project says, and its exit code."""
    done = subprocess.run([client_python(client), project / "build.py", *map(str, arguments)],
                          capture_output=True, text=True, timeout=900, env=environment())  # fmt: skip
    return done.returncode, done.stdout + done.stderr
