"""The first hour of a vendor: a pack moves to another home, and its own annotators get a round and are reported."""

import csv
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, ViewportSize, expect

from plugin.simulation.worker import make_profiles
from round_manager.models import RoundStatus
from tests.e2e.plugin.demo.conftest import SECONDS_BETWEEN_LOOKS, SharedDemo
from tests.e2e.plugin.web.work.hit_page import fits
from tests.e2e.running_demo import PROGRAM, until
from tests.e2e.visitor import Visitor

GROUP, ANNOTATOR = "Vendor", "Jürgen"
PHONE = ViewportSize(width=375, height=740)


def test_a_pack_is_exported_and_becomes_a_task_in_another_home(shared_demo: SharedDemo, tmp_path: Path) -> None:
    file, home = tmp_path / "sentiment.zip", tmp_path / "home"
    exported = shared_demo.outfox("templates", "export", "sentiment", str(file))
    imported = _in_home(home, "templates", "import", file, "--name", "reviews")
    assert (imported["sha256"], imported["verified"], imported["problems"]) == (exported["sha256"], True, [])
    assert _in_home(home, "task", "create", "reviews")["task"] == "reviews"


def test_a_round_goes_to_a_group_whose_annotator_works_in_german_on_a_phone(
    shared_demo: SharedDemo, browser: Browser, tmp_path: Path
) -> None:
    members = tmp_path / "names.csv"
    (annotator,) = shared_demo.outfox("marketplace", "invite", ANNOTATOR)
    members.write_text(f"worker_id,name\n{annotator['worker_id']},{ANNOTATOR}\n", encoding="utf-8")
    shared_demo.wait(lambda state: state.status is RoundStatus.OPEN)
    shared_demo.outfox("crowd", "post", "sentiment", "--kind", "quiz", "--hits", "1", "--yes")
    with _phone(browser, "de-DE") as page:
        visitor = Visitor(page, annotator["link"], shared_demo.pack.spec, make_profiles(1, ANNOTATOR)[0], "de")
        visitor.take_quiz()
        visitor.wait_for_work()
        shared_demo.outfox("crowd", "group", "create", GROUP)
        # The colleagues are in the group too: someone has to validate.
        known = [one["worker_id"] for one in shared_demo.outfox("crowd", "workers", "sentiment")]
        shared_demo.outfox("crowd", "group", "add", GROUP, *(one for one in known if one != annotator["worker_id"]))
        shared_demo.outfox("crowd", "workers", "names", str(members))
        shared_demo.outfox("crowd", "group", "assign", "sentiment", GROUP)
        try:
            until(lambda: not visitor.is_offered_work(), every=SECONDS_BETWEEN_LOOKS)
            shared_demo.outfox("crowd", "group", "add", GROUP, annotator["worker_id"])
            text = visitor.write()
            expect(page.locator("html")).to_have_attribute("lang", "de")
            assert fits(page)
        finally:
            shared_demo.outfox("crowd", "group", "assign", "sentiment", "--everyone")
    shared_demo.confirmed(text)
    table, printed = tmp_path / "work.csv", tmp_path / "work.html"
    for file in (table, printed):
        shared_demo.outfox("crowd", "report", "sentiment", "--group", GROUP, "--out", str(file))
    rows = {row["worker_id"]: row for row in csv.DictReader(table.open(encoding="utf-8"))}
    mine = rows[annotator["worker_id"]]
    assert (mine["name"], mine["written"]) == (ANNOTATOR, "1")
    assert ANNOTATOR in printed.read_text(encoding="utf-8")


def _in_home(home: Path, *arguments: object) -> Any:
    """Return what a command of the vendor's own installation printed as JSON."""
    command = [PROGRAM, "--home", home, *arguments, "--json"]
    ran = subprocess.run([str(one) for one in command], stdout=subprocess.PIPE, check=True)
    return json.loads(ran.stdout)


@contextmanager
def _phone(browser: Browser, locale: str) -> Iterator[Page]:
    context = browser.new_context(viewport=PHONE, locale=locale, has_touch=True, is_mobile=True)
    yield context.new_page()
    context.close()
