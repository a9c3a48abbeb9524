"""The scripts' own Python modules."""

import importlib
import sys

import pytest


@pytest.fixture(scope="session")
def of_scripts(repo):
    """of_scripts(name): a module of scripts/."""

    def find(name):
        sys.path.insert(0, str(repo / "scripts"))
        try:
            return importlib.import_module(name)
        finally:
            sys.path.pop(0)

    return find
