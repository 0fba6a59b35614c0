"""What was handed in without anything done on our page is marked, and approved only by name."""

import pytest

from tests.integration.crowd_cli.shop import REWARD, SENTIMENT, Shop


@pytest.fixture
def ours(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The shop with HITs that show our own pages."""
    monkeypatch.delenv("OUTFOX_HIT_PAGE_URL")
    return shop


def test_only_a_person_who_names_it_approves_what_was_not_done(ours: Shop) -> None:
    ours.post(1, "--no-check-page")
    work = ours.hand_in()
    assert "1 handed in without the page being finished" in ours.text("status")
    assert [one["page_unfinished"] for one in ours.asked("status")["undecided"]] == [True]

    told = ours.text("approve", SENTIMENT, "--all", "--dry-run")
    assert "would approve 0 pieces of work" in told
    assert f"left out: 1 handed in without the page being finished ({work})" in told
    said = ours.asked("approve", "--all")
    assert (said["approved"], said["uncovered"], said["left_out"], ours.earned()) == (0, 0, [work], 0)
    assert f"left out: 1 handed in without the page being finished ({work})" in ours.text("approve", "--all")

    told = ours.text("approve", work, "--dry-run")
    assert "would approve 1 piece of work" in told
    assert "1 handed in without the page being finished" in told
    assert ours.asked("approve", work)["approved"] == 1
    assert ours.earned() == REWARD


def test_a_page_of_the_owners_is_not_known_so_nothing_is_marked(shop: Shop) -> None:
    shop.post(1)
    shop.hand_in()
    assert "without the page being finished" not in shop.text("status")
    assert shop.asked("approve", "--all")["approved"] == 1
