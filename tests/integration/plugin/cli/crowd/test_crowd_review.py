"""Work submitted without a finished page is marked, and approved only by its id."""

import pytest

from tests.integration.plugin.cli.crowd.shop import REWARD, SENTIMENT, Shop


@pytest.fixture
def ours(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The shop with HITs that show our own pages."""
    monkeypatch.delenv("OUTFOX_HIT_PAGE_URL")
    return shop


def test_work_without_a_finished_page_is_approved_only_by_name(ours: Shop) -> None:
    ours.post(1, "--no-check-page")
    work = ours.hand_in()
    assert "1 submitted without a finished page" in ours.text("status")
    assert [one["page_unfinished"] for one in ours.asked("status")["undecided"]] == [True]

    preview = ours.asked("approve", SENTIMENT, "--all", "--dry-run")
    assert (preview["works"], preview["left_out"]) == ([], [work])
    answer = ours.asked("approve", "--all")
    assert (answer["approved"], answer["uncovered"], answer["left_out"], ours.earned()) == (0, 0, [work], 0)
    assert work in ours.text("approve", "--all")

    (preview,) = ours.asked("approve", work, "--dry-run")["works"]
    assert preview["page_unfinished"]
    assert ours.asked("approve", work)["approved"] == 1
    assert ours.earned() == REWARD


def test_work_on_the_owners_own_page_is_not_marked_as_unfinished(shop: Shop) -> None:
    shop.post(1)
    shop.hand_in()
    assert not shop.asked("status")["undecided"][0]["page_unfinished"]
    assert shop.asked("approve", "--all")["approved"] == 1
