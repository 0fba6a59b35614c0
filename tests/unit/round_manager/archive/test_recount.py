"""The recount of votes: it checks the policy's decisions and lists manual ones as unchecked."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from round_manager.archive.recount import Recount
from round_manager.archive.tables import Columns
from templates import find_pack

SPEC = find_pack("sentiment").spec
MINE, OTHER, THIRD = SPEC.label_names


def example(status: str, gold: str | None, *votes: str | None) -> dict[str, Any]:
    said = [{"worker": str(place), "label": vote, "flag": None} for place, vote in enumerate(votes)]
    return {"status": status, "label": MINE, "gold_label": gold, "votes": said}


def recount(folder: Path, *rows: dict[str, Any]) -> Recount:
    columns = Columns(SPEC)
    parquet.write_table(pa.Table.from_pylist(list(rows), schema=columns.examples), folder / "examples.parquet")
    return Recount(folder, columns)


@pytest.mark.parametrize(
    "row",
    [
        example("verified", MINE, MINE, MINE),
        example("verified", MINE, OTHER, MINE, MINE, MINE),
        example("disputed", OTHER, OTHER, OTHER, OTHER),
        example("disputed", None, OTHER, MINE, MINE, OTHER, THIRD),
        example("unchecked", None),
        example("pending", None, MINE),
        example("withdrawn", MINE, MINE, MINE),
    ],
)
def test_labels_that_follow_from_the_votes_are_valid(tmp_path: Path, row: dict[str, Any]) -> None:
    assert list(recount(tmp_path, row).problems()) == []


@pytest.mark.parametrize(
    "row",
    [
        example("verified", MINE),
        example("verified", MINE, MINE),
        example("verified", OTHER, MINE, MINE),
        example("disputed", MINE, MINE, MINE, OTHER, OTHER, THIRD),
        example("disputed", None, MINE, MINE),
        example("verified", MINE, OTHER, OTHER, OTHER),
    ],
)
def test_a_label_that_no_order_of_the_votes_gives_is_a_problem(tmp_path: Path, row: dict[str, Any]) -> None:
    (problem,) = recount(tmp_path, example("verified", MINE, MINE, MINE), row).problems()
    assert problem.startswith("1 example is")


def test_votes_may_be_listed_in_another_order_than_they_arrived(tmp_path: Path) -> None:
    # Two votes agreed and verified the example; a third, requested before that, has the earliest time.
    assert list(recount(tmp_path, example("verified", MINE, OTHER, MINE, MINE)).problems()) == []


@pytest.mark.parametrize(("status", "gold"), [("verified", MINE), ("disputed", OTHER)])
def test_a_settled_label_is_listed_as_unchecked(tmp_path: Path, status: str, gold: str) -> None:
    found = recount(tmp_path, example(status, gold, OTHER, MINE, MINE, OTHER, THIRD))
    assert list(found.problems()) == []
    assert [text.startswith("1 label that was settled") for text in found.unchecked] == [True]


def test_a_gold_label_on_an_undecided_example_is_a_problem(tmp_path: Path) -> None:
    (problem,) = recount(tmp_path, example("unchecked", MINE)).problems()
    assert problem.startswith("1 example has a gold label")


def test_labels_of_an_unknown_policy_are_listed_as_unchecked(tmp_path: Path) -> None:
    theirs = SPEC.model_copy(update={"validation": SPEC.validation.model_copy(update={"policy": "theirs"})})
    recount(tmp_path, example("verified", OTHER, MINE))
    found = Recount(tmp_path, Columns(theirs))
    assert list(found.problems()) == []
    assert (found.done, len(found.unchecked)) == (False, 1)
    assert "theirs" in found.unchecked[0]
