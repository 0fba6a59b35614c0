"""Both parts have something in them where that can be, and where it cannot, the report says why."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from round_manager.archive.duplicates import WrittenBatch
from round_manager.archive.split_plan import FIRST_RULE, Sides, SplitReport, plan_splits
from templates.sections import RoundPolicy

SEED = "sentiment/1"
WAITER = "The waiter forgot our order twice and then blamed the kitchen for everything that went wrong"
LAKE = "We rowed across the lake before breakfast and met nobody but a heron on a post"
BUS = "Seven people ran for the last bus to the harbour, and the driver waited for us all"


@dataclass(frozen=True)
class Rows:
    """Examples as pairs of who wrote them and what, in the order of their ids."""

    rows: tuple[tuple[str, str], ...]

    def batches(self) -> Iterator[WrittenBatch]:
        texts = [text for _, text in self.rows]
        contents = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        ids, authors = [f"{place:04}" for place in range(len(texts))], [author for author, _ in self.rows]
        if texts:
            yield WrittenBatch(ids, authors, contents, pa.array([""] * len(texts)), pa.array(texts))


def split(*rows: tuple[str, str], rule: int | None = None, sides: Sides | None = None, **policy: Any) -> SplitReport:
    chosen = {} if rule is None else {"rule": rule}
    _, report = plan_splits(Rows(rows), RoundPolicy(**policy), SEED, sides, **chosen)
    return report


def parts(report: SplitReport) -> tuple[int, int, int]:
    return report.train, report.held_out, report.kept_apart


COPIED = (("w1", WAITER), ("w1", LAKE), ("w1", BUS), ("w2", f"{WAITER}!"))


def test_with_one_author_besides_near_duplicates_nothing_is_held_out_and_the_report_says_so() -> None:
    report = split(*COPIED, held_out_share=0.3)
    assert parts(report) == (4, 0, 0)
    assert "one worker wrote everything, so nothing is held out" in report.note
    assert "nothing but near duplicates of others' texts are not counted" in report.note


def test_an_author_of_near_duplicates_only_is_not_held_out() -> None:
    for number in range(20):
        report = split(*COPIED, (f"w3-{number}", f"{LAKE} far away from {BUS}"), held_out_share=0.3)
        assert (report.held_out, report.train, report.note) == (1, 4, "")


def test_an_earlier_held_out_author_of_near_duplicates_only_is_not_enough() -> None:
    sides = Sides((2,), frozenset(), frozenset({"w2"}))
    report = split(*COPIED, ("w3", f"{LAKE} far away from {BUS}"), sides=sides, held_out_share=0.3)
    assert (*parts(report), report.note) == (3, 1, 1, "")


def test_the_report_of_the_first_rule_is_unchanged() -> None:
    report = split(*COPIED, rule=FIRST_RULE, held_out_share=0.3)
    assert (*parts(report), report.note) == (3, 0, 1, "")
    assert "rule" not in report.as_data()
    assert SplitReport.read(report.as_data()) == report


def test_a_report_names_its_rule() -> None:
    report = split(*COPIED)
    assert SplitReport.read(report.as_data()) == report
    assert report.as_data()["rule"] > FIRST_RULE


def test_splitting_by_example_fills_both_parts_whichever_texts_are_similar() -> None:
    for number in range(20):
        rows = (("w1", f"{WAITER} {number}"), ("w1", f"{WAITER} {number}!"), ("w1", LAKE))
        report = split(*rows, split_by_worker=False, held_out_share=0.3)
        assert (report.held_out > 0, report.train > 0, report.note) == (True, True, "")


def test_splitting_one_text_by_example_reports_the_empty_part() -> None:
    report = split(("w1", WAITER), ("w2", f"{WAITER}!"), split_by_worker=False)
    assert parts(report) == (2, 0, 0)
    assert "one part is empty" in report.note


def test_an_intentionally_empty_part_or_an_empty_round_needs_no_reason() -> None:
    for by_worker in (True, False):
        assert split(*COPIED, split_by_worker=by_worker, held_out_share=0).note == ""
        assert split(*COPIED, split_by_worker=by_worker, held_out_share=1).note == ""
        assert split(split_by_worker=by_worker).note == ""
