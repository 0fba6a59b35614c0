"""The leaderboard in a real browser: live ranking like the server's, sorting, sharing, saving, and how it looks."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import requests
from playwright.sync_api import Page, expect

from common.clock import SystemClock
from outfox.dynascore import AXES, CUTOFF, DATA_WEIGHT, compute
from plugin.settings import Settings
from plugin.web.app import web_app, work_pages
from plugin.web.leaderboard.routes import leaderboard_pages
from plugin.wiring import Application
from round_manager.database.store import open_store
from round_manager.evaluation.figures import read_figures
from round_manager.services.board_snapshots import take_snapshot
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.data_access import create_token
from round_manager.services.leaderboards import default_board
from round_manager.tasks.tasks import create_task
from templates import BUILT_IN, load_pack
from tests.e2e.browser import SCREENSHOTS, Complaints
from tests.e2e.plugin.web.work.accessibility import violations
from tests.e2e.plugin.web.work.hit_page import fits
from tests.fakes.evaluations import ROUNDS, TASK, MeasuredData, store_evaluations
from tests.integration.databases import SqliteDatabases
from tests.integration.plugin.web.work.work_site import AppServer

ADA = Actor("ada@here")
MODELS = {
    "v1a2b3c4d5e6f": "base", "v2b3c4d5e6f7a": "round 1 retrained", "hf-0123456789ab": "a-bigger-encoder-v3.1",
    "onnx-0123456789": "distilled", "file-0123456789": "predictions of another team",
}  # fmt: skip
HIDDEN = MeasuredData("suite exam", "suite", hidden=True)
CARD = "# Base\n\nA small encoder.\n\n| rows | accuracy |\n|---|---|\n| 240 | 84.6 |\n"
# Imports the module of the page and computes with it.
COMPUTE = "async ([file, table, weights, data]) => (await import(file)).compute(table, weights, data)"


@dataclass(frozen=True)
class Board:
    """A served leaderboard of a private task, and a token for it."""

    url: str
    token: str
    snapshot: str

    def data(self, query: str = "") -> dict[str, Any]:
        """What programs get."""
        answer = requests.get(f"{self.url}{query}", headers={"Authorization": f"Bearer {self.token}"}, timeout=60)
        return dict(answer.json())


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    url = SqliteDatabases(tmp_path).migrated()
    settings = Settings(home=str(tmp_path / "home"), database_url=url, secret="s" * 40)
    place, application = Path(settings.archives_location), Application(settings)
    stored = store_evaluations(
        place, MODELS, [*ROUNDS, HIDDEN], ["performance", "throughput", "robustness", "calibration"]
    )
    stored.store_card("v1a2b3c4d5e6f", CARD)
    with open_store(url) as store:
        with store.write() as session:
            create_task(session, load_pack(BUILT_IN / TASK), now=SystemClock().now())
        services = ServiceContext(store, SystemClock())
        token = create_token(services, ADA, TASK, days=1).secret
        figures = read_figures(str(place), TASK).figures
        snapshot = take_snapshot(services, ADA, TASK, default_board(figures), figures).key
    lazy = application.lazy_store
    pages = (leaderboard_pages(settings, lazy, SystemClock()), work_pages(application))
    served = AppServer(web_app(lazy, application.attempt_intake(lazy), ["s" * 40], pages=pages))
    yield Board(f"{served.url}/leaderboard/{TASK}", token, snapshot)
    served.stop()
    lazy.close()


def keep(page: Page, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"leaderboard-{name}.png", full_page=True)


def looks_right(page: Page, name: str) -> None:
    """Fits both screens in both colour schemes, without an accessibility problem."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in (1280, 360):
            page.set_viewport_size({"width": width, "height": 900})
            assert fits(page)
            keep(page, f"{name}-{scheme}-{width}")
        assert violations(page.main_frame) == []
    page.set_viewport_size({"width": 1280, "height": 900})


def order(page: Page) -> list[str]:
    return page.locator("#board tbody th bdi").all_inner_texts()


def scores(page: Page) -> list[float]:
    return [float(one) for one in page.locator("#board .board-score").all_inner_texts()]


def slide(page: Page, name: str, value: float) -> None:
    page.locator(f'input[type=range][name="{name}"]').evaluate(
        "(one, value) => { one.value = value; one.dispatchEvent(new Event('input')); }", value
    )


def test_a_visitor_signs_in_weighs_sorts_shares_and_saves(page: Page, board: Board) -> None:
    complaints = Complaints()
    assert requests.get(board.url, timeout=60).status_code == 401
    page.goto(board.url)
    looks_right(page, "sign-in")
    complaints.listen_to(page)
    page.get_by_label("Data token").fill(board.token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=f"Leaderboard of {TASK}")).to_be_visible()
    assert board.token not in page.url + page.content()
    looks_right(page, "board")

    # The browser's ranking is the server's.
    first = [one["model"] for one in board.data()["ranking"]]
    assert order(page) == first
    slide(page, "w.performance", 0)
    slide(page, "w.calibration", 5)
    slide(page, "w.throughput", 0.5)
    slide(page, "d.round 1", 0)
    custom = board.data(page.url[len(board.url) :])
    assert order(page) == [one["model"] for one in custom["ranking"]] != first
    assert scores(page) == pytest.approx([one["dynascore"] for one in custom["ranking"]], abs=0.006)
    swap = custom["nearest_swap"]
    expect(page.locator("#swap")).to_contain_text(f"{swap['below']} would rank before {swap['above']}")
    # The link shows the same to others; so does the page without scripts.
    link = page.get_by_label("Link to this view").input_value()
    assert link == page.url
    shown = order(page)
    page.reload()
    assert (order(page), page.get_by_label("Link to this view").input_value()) == (shown, link)

    page.locator('#rounds-table th[data-key="data.round 2"] a').click()
    by_round = sorted(custom["ranking"], key=lambda one: -one["round 2"])
    assert order(page) == [one["model"] for one in by_round]
    expect(page.locator('th[data-key="data.round 2"]')).to_have_attribute("aria-sort", "descending")

    page.get_by_label("Name", exact=True).fill("Calibrated")
    page.get_by_role("button", name="Save").press("Enter")
    expect(page.get_by_text("Saved.")).to_be_visible()
    assert order(page) == shown
    saved = board.data(page.url[len(board.url) :])["board"]
    assert (saved["name"], saved["weights"]["calibration"], saved["data_weights"]) == ("Calibrated", 5, {"round 1": 0})

    page.get_by_role("link", name="base", exact=True).first.click()
    expect(page.get_by_role("heading", name="Model card")).to_be_visible()
    expect(page.get_by_role("cell", name="84.6")).to_be_visible()
    looks_right(page, "model")
    page.goto(f"{board.url}?snapshot={board.snapshot}")
    assert order(page) == first
    looks_right(page, "snapshot")
    assert complaints.heard == []


def test_scores_in_the_browser_are_those_of_the_server_to_nine_digits(page: Page, board: Board) -> None:
    page.goto(board.url)
    script = page.locator('link[href*="leaderboard.css"]').get_attribute("href") or ""
    module = script.replace("leaderboard.css", "dynascore.js")
    draw = random.Random(5)
    for _ in range(30):
        table, weights, data = invented(draw)
        axes = [axis for axis in AXES if axis in table.columns.get_level_values(0)]
        given = {
            "models": list(table.index),
            "axes": [{"name": axis, "direction": AXES[axis].direction, "offset": AXES[axis].offset} for axis in axes],
            "table": {
                axis: {name: [None if pd.isna(one) else one for one in table[(axis, name)]] for name in table[axis]}
                for axis in axes
            },
            "dataWeight": DATA_WEIGHT,
            "cutoff": CUTOFF,
        }
        found: Any = page.evaluate(COMPUTE, [module, json.loads(json.dumps(given)), weights, data])
        expected = compute(table, weights, data)
        names = list(table.index)
        assert [names[one] for one in found["order"]] == list(expected.ranks)
        assert {names[int(one)]: rank for one, rank in found["ranks"].items()} == dict(expected.ranks)
        of_models = {names[int(one)]: value for one, value in found["scores"].items()}
        assert of_models == pytest.approx(dict(expected.scores), rel=1e-9, abs=1e-9)
        assert found["rates"] == pytest.approx(dict(expected.amrs), rel=1e-9, abs=1e-9)
        assert {names[int(one)] for one in found["leftOut"]} == set(expected.left_out)
        swaps = {(one.above, one.below, one.axis): one.swap_weight for one in expected.swaps}
        mine = {(names[one["above"]], names[one["below"]], one["axis"]): one["swapWeight"] for one in found["swaps"]}
        assert mine == pytest.approx(swaps, rel=1e-6, abs=1e-9)
        assert bool(found["problem"]) == bool(expected.problem)


def invented(draw: random.Random) -> tuple[pd.DataFrame, dict[str, float], dict[str, float]]:
    """A table of some models, with equal and missing values, and weights."""
    names = sorted(f"model {one}" for one in range(draw.randrange(1, 9)))
    data = [f"round {one}" for one in range(1, draw.randrange(2, 5))]
    axes = ["performance", *draw.sample([axis for axis in AXES if axis != "performance"], 3)]
    values = {
        (axis, name): [
            draw.choice((draw.uniform(1, 99), 50.0)) if draw.random() > 0.04 else float("nan") for _ in names
        ]
        for axis in axes
        for name in data
    }
    table = pd.DataFrame(values, index=names)
    table.columns = pd.MultiIndex.from_tuples(table.columns)
    weights = {axis: draw.choice((0.0, 1.0, draw.uniform(0.1, 5))) for axis in axes} | {"performance": 2.0}
    return table, weights, {name: draw.choice((5.0, 0.5, 0.0)) for name in data[1:]}
