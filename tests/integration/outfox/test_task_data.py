"""`outfox.open`: the parameters are given once, and every table is read with them."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import outfox
from tests.integration.plugin.web.served import Served


@pytest.fixture(params=["path", "url"])
def place(request: pytest.FixtureRequest, archives: Path, cache: Path) -> dict[str, Any]:
    """The same task in a folder, and on a server with a token."""
    if request.param == "path":
        return {"path": archives}
    served: Served = request.getfixturevalue("served")
    return {"url": served.web.url, "token": served.token}


def test_an_open_task_reads_what_the_functions_read(place: dict[str, Any]) -> None:
    data = outfox.open("sentiment", rounds=[2], verify=True, **place)
    assert (data.task, data.rounds) == ("sentiment", [2])
    columns = ["id", "text"]
    pd.testing.assert_frame_equal(data.examples(columns), outfox.load("sentiment", 2, columns=columns, **place))
    for name in ("votes", "attempts", "contexts", "models", "metrics"):
        pd.testing.assert_frame_equal(getattr(data, name)(), getattr(outfox, name)("sentiment", 2, **place))
    assert [len(some) for some in data.iter_examples("id", chunk=25)] == [25, 15]


def test_an_open_task_exports_its_rounds(archives: Path, tmp_path: Path) -> None:
    files = outfox.open("sentiment", path=archives, rounds=1).export("dynasent", tmp_path / "opened")
    outfox.export("sentiment", "dynasent", tmp_path / "named", rounds=1, path=archives)
    assert [file.name for file in files] == ["held_out.jsonl", "train.jsonl", "README.md"]
    for file in files:
        assert file.read_bytes() == (tmp_path / "named" / file.name).read_bytes()


def test_open_raises_at_once(archives: Path) -> None:
    with pytest.raises(outfox.DataNotFound):
        outfox.open("unknown", path=archives)
    with pytest.raises(outfox.InvalidArgument):
        outfox.open("sentiment")
    data = outfox.open("sentiment", path=archives)
    assert data.rounds == [1, 2]
    with pytest.raises(outfox.InvalidArgument):
        data.examples(columns=[])
    with pytest.raises(outfox.InvalidArgument):
        data.export("csv", "data")


def test_every_error_class_has_its_own_code() -> None:
    classes = [one for one in vars(outfox).values() if isinstance(one, type) and issubclass(one, outfox.OutfoxError)]
    codes = {one.code for one in classes}
    assert len(codes) == len(classes) > 12
