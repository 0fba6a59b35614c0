"""Small models of the packs, each trained once for all test processes of a run."""

import fcntl
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ml_backend.training import train
from templates import find_pack
from tests.e2e.run_folder import folder_of_run
from tests.fakes.trainer import without_quantisation

Teach = Callable[[str], Path]
# Train on every n-th row of a pack: this is fast, and the model is right and wrong often enough.
TAUGHT = 20


@pytest.fixture(scope="session")
def teach(tmp_path_factory: pytest.TempPathFactory) -> Teach:
    """Return the folder of a task's small model, always the same one."""
    folder = folder_of_run(tmp_path_factory, "taught")

    @cache
    def teach(name: str) -> Path:
        with (folder / f"{name}.lock").open("a+") as told:
            fcntl.flock(told, fcntl.LOCK_EX)
            told.seek(0)
            if version := told.read():
                return folder / name / version
            directory = teach_in(folder, name)
            told.write(directory.name)
        return directory

    return teach


def teach_in(folder: Path, name: str) -> Path:
    """Teaches one now; where its files are."""
    pack = find_pack(name)
    with without_quantisation():
        return train(pack, folder, mode="head", rows=pack.seed[::TAUGHT]).directory


def give(model: Path, models: Path) -> None:
    """Puts a taught model among the others of a home; its files are large, never written to, and not copied."""
    shutil.copytree(model, models / model.parent.name / model.name, copy_function=os.link)
