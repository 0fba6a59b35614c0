"""Where the processes of a parallel run find what one of them has made for all."""

import os
from pathlib import Path

import pytest


def folder_of_run(factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder of that name, the same one in every process of a run."""
    own = factory.getbasetemp()
    # The processes of a parallel run have folders side by side.
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / name
    folder.mkdir(exist_ok=True)
    return folder
