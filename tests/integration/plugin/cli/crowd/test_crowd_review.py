"""Work submitted without a finished page is marked, and approved only by its id."""

import pytest

from tests.integration.plugin.cli.crowd.crowd_commands import REWARD, SENTIMENT, CrowdCommands


@pytest.fixture
def our_pages(commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch) -> CrowdCommands:
    """The commands, with HITs that show our own pages."""
    monkeypatch.delenv("OUTFOX_HIT_PAGE_URL")
    return commands


def test_work_without_a_finished_page_is_approved_only_by_name(our_pages: CrowdCommands) -> None:
    our_pages.post_hits(1, "--no-check-page")
    work = our_pages.submit_hit()
    assert "1 submitted without a finished page" in our_pages.run_text("status")
    assert [one["page_unfinished"] for one in our_pages.run_json("status")["undecided"]] == [True]

    preview = our_pages.run_json("approve", SENTIMENT, "--all", "--dry-run")
    assert (preview["works"], preview["left_out"]) == ([], [work])
    answer = our_pages.run_json("approve", "--all")
    assert (answer["approved"], answer["uncovered"], answer["left_out"], our_pages.earned()) == (0, 0, [work], 0)
    assert work in our_pages.run_text("approve", "--all")

    (preview,) = our_pages.run_json("approve", work, "--dry-run")["works"]
    assert preview["page_unfinished"]
    assert our_pages.run_json("approve", work)["approved"] == 1
    assert our_pages.earned() == REWARD


def test_work_on_the_owners_own_page_is_not_marked_as_unfinished(commands: CrowdCommands) -> None:
    commands.post_hits(1)
    commands.submit_hit()
    assert not commands.run_json("status")["undecided"][0]["page_unfinished"]
    assert commands.run_json("approve", "--all")["approved"] == 1
