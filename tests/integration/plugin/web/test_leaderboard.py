"""The leaderboard over HTTP: who may read it, what it shows, what is saved, and what stays hidden."""

import csv
import hashlib
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from flask.testing import FlaskClient
from sqlalchemy import func, select
from werkzeug.test import TestResponse

import outfox
from outfox.ranking import figures_at
from plugin.settings import Settings
from plugin.web.app import web_app
from plugin.web.leaderboard import page as board_page
from plugin.web.leaderboard.access import COOKIE
from plugin.web.leaderboard.boards import Boards
from plugin.web.leaderboard.routes import leaderboard_pages
from plugin.wiring import Application
from round_manager.database.store import Store, open_store
from round_manager.models import Board
from round_manager.services.board_snapshots import take_snapshot
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.data_access import create_token, revoke_token, set_public
from round_manager.services.leaderboards import default_board, exclude_model
from round_manager.tasks.tasks import create_task
from templates import BUILT_IN, load_pack
from tests.fakes.clock import NOON, SettableClock
from tests.fakes.evaluations import ROUNDS, TASK, MeasuredData, store_evaluations
from tests.integration.databases import Databases

ADA = Actor("ada@here")
HOSTILE = '<script>alert("x")</script>'
MODELS = {"va": "ada", "vb": "=1+1", "vc": HOSTILE}
PAGE = {"Accept": "text/html"}
EXAM = MeasuredData("suite exam", "suite", 400, hidden=True, slices={"kind: secret-few": 4, "kind: many": 300})


@dataclass
class Site:
    """A web app with a private task that has stored evaluations, and a public one without."""

    client: FlaskClient
    store: Store
    place: Path
    clock: SettableClock
    token: str

    @property
    def services(self) -> ServiceContext:
        return ServiceContext(self.store, self.clock)

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def get(self, path: str = "", **headers: str) -> TestResponse:
        return self.client.get(f"/leaderboard/{TASK}{path}", headers={**self.bearer, **headers})

    def data(self, path: str = "") -> dict[str, Any]:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return dict(json.loads(answer.text))

    def sign_in(self, token: str = "", **headers: str) -> TestResponse:
        sent = {"token": token or self.token}
        return self.client.post(f"/leaderboard/{TASK}/session", data=sent, headers={**PAGE, **headers})

    def page(self, path: str = "") -> TestResponse:
        """The page as a browser gets it: with its cookie, without a header."""
        return self.client.get(f"/leaderboard/{TASK}{path}", headers=PAGE)

    def boards(self) -> int:
        with self.store.read() as session:
            return session.scalar(select(func.count(Board.id))) or 0


@pytest.fixture
def site(tmp_path: Path, any_databases: Databases) -> Any:
    url, clock = any_databases.migrated(), SettableClock(NOON)
    settings = Settings(home=str(tmp_path / "home"), database_url=url, secret="s" * 40)
    place = Path(settings.archives_location)
    store_evaluations(place, MODELS, [*ROUNDS, EXAM])
    application = Application(settings, clock=clock)
    lazy = application.lazy_store
    app = web_app(lazy, application.attempt_intake(lazy), ["s" * 40], pages=(leaderboard_pages(settings, lazy, clock),))
    with open_store(url) as store:
        with store.write() as session:
            for name in (TASK, "nli"):
                create_task(session, load_pack(BUILT_IN / name), now=NOON)
        services = ServiceContext(store, clock)
        token = create_token(services, ADA, TASK, days=1).secret
        set_public(services, ADA, "nli", public=True)
        yield Site(app.test_client(), store, place, clock, token)
    lazy.close()


def form_token(page: TestResponse) -> str:
    found = re.search(r'name="form_token" value="([^"]+)"', page.text)
    assert found
    return found[1]


def test_a_private_leaderboard_looks_like_one_that_does_not_exist(site: Site) -> None:
    for accept in ("application/json", "text/html"):
        told = set()
        for task in (TASK, "nothing", "a%00b", "x" * 300):
            for path in ("", "/models/va", "/ranking.csv", "/figures.json", "/snapshots/0000000000000000.json"):
                answer = site.client.get(f"/leaderboard/{task}{path}", headers={"Accept": accept})
                assert answer.status_code == 401
                if accept == "application/json":
                    told.add(json.dumps({**json.loads(answer.text), "request_id": ""}))
                else:
                    told.add(answer.text.replace(f"/leaderboard/{task}/", "").replace(task, ""))
            wrong = site.client.post(
                f"/leaderboard/{task}/session", data={"token": "guess"}, headers={"Accept": accept}
            )
            assert wrong.status_code == 401
        assert len(told) <= 2  # The page repeats the task's name in the address of its form.
    assert site.client.get("/leaderboard/nli", headers=PAGE).status_code == 200


def test_the_ranking_over_http_is_that_of_the_client(site: Site) -> None:
    found, wide = site.data(), outfox.leaderboard(TASK, path=site.place)
    assert [one["model"] for one in found["ranking"]] == wide["model"].tolist()
    assert [one["dynascore"] for one in found["ranking"]] == pytest.approx(wide["dynascore"].tolist(), abs=1e-9)
    custom = site.data("?w.performance=1&w.throughput=0&w.calibration=5&d.seed=0&w.charm=3&d.round+1=junk")
    expected = outfox.leaderboard(
        TASK, path=site.place, weights={"performance": 1, "calibration": 5}, data_weights={"seed": 0}
    )
    assert [one["dynascore"] for one in custom["ranking"]] == pytest.approx(expected["dynascore"].tolist(), abs=1e-9)


def test_the_token_stays_out_of_addresses_cookies_and_pages(site: Site) -> None:
    assert site.client.get(f"/leaderboard/{TASK}?token={site.token}").status_code == 401
    signed = site.sign_in()
    cookie = signed.headers["Set-Cookie"]
    assert (signed.status_code, signed.headers["Location"]) == (303, f"/leaderboard/{TASK}")
    for part in ("HttpOnly", "SameSite=Lax", f"Path=/leaderboard/{TASK};", "Max-Age=43200"):
        assert part in cookie + ";"
    secret = site.token.split("-", 3)[3]
    page = site.page()
    assert page.status_code == 200
    assert secret not in cookie + page.text + str(page.headers)
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    # The cookie is for one task, ends with the token and cannot be made.
    value = site.client.get_cookie(COOKIE, path=f"/leaderboard/{TASK}")
    assert value is not None
    site.client.set_cookie(COOKIE, value.value, path="/leaderboard/nli")
    assert "Signed in" not in site.client.get("/leaderboard/nli", headers=PAGE).text
    revoke_token(site.services, ADA, site.token.split("-")[2])
    assert site.page().status_code == 401
    site.client.set_cookie(COOKIE, value.value[:-2] + "xx", path=f"/leaderboard/{TASK}")
    assert site.page().status_code == 401


def test_signing_out_ends_the_session_and_other_sites_cannot_sign_in(site: Site) -> None:
    assert site.sign_in("outfox-data-0000-wrong").status_code == 401
    assert site.sign_in(**{"Sec-Fetch-Site": "cross-site"}).status_code == 403
    site.sign_in()
    assert site.page().status_code == 200
    assert site.client.post(f"/leaderboard/{TASK}/session/end", headers=PAGE).status_code == 303
    assert site.page().status_code == 401


def test_hostile_names_are_text_on_pages_and_in_files(site: Site) -> None:
    for path in ("", "/models/vc", "?slices=suite+checks", f"?sort={HOSTILE}&dir=x&board="):
        page = site.get(path, **PAGE)
        assert page.status_code == 200
        assert (HOSTILE in page.text, "&lt;script&gt;alert" in page.text) == (False, True)
    rows = list(csv.DictReader(io.StringIO(site.get("/ranking.csv").text)))
    assert "'=1+1" in {one["model"] for one in rows}
    assert "=1+1" in set(pd.read_parquet(io.BytesIO(site.get("/figures.parquet").data))["model"])


def test_nothing_of_hidden_data_but_large_figures_leaves_the_server(site: Site) -> None:
    for path in ("", "/models/va", "/figures.csv", "/figures.json", "/ranking.csv", "?slices=suite+exam"):
        for accept in ("application/json", "text/html"):
            answer = site.get(path, Accept=accept)
            assert (answer.status_code, "secret-few" in answer.text) == (200, False), path
            assert EXAM.sha256 not in answer.text
    assert "suite exam" in site.get("", **PAGE).text
    assert site.get("/data/answers.parquet").status_code == 404


def test_a_board_is_saved_with_a_token_and_shared_by_its_link(site: Site) -> None:
    site.sign_in()
    page = site.page()
    sent = {"name": "Fast & small", "w.performance": "2", "w.throughput": "3", "d.seed": "0", "board": ""}
    url = f"/leaderboard/{TASK}/boards"
    for bad in (sent, {**sent, "form_token": "made up"}):
        assert site.client.post(url, data=bad, headers=PAGE).status_code == 403
    token = form_token(page)
    crossed = site.client.post(
        url, data={**sent, "form_token": token}, headers={**PAGE, "Sec-Fetch-Site": "cross-site"}
    )
    assert (crossed.status_code, site.boards()) == (403, 0)
    saved = site.client.post(url, data={**sent, "form_token": token}, headers=PAGE)
    assert saved.status_code == 303
    shared = site.get(saved.headers["Location"].removeprefix(f"/leaderboard/{TASK}"), **PAGE)
    assert "Fast &amp; small" in shared.text
    board = site.data(f"?board={site.data()['boards'][0]['key']}")["board"]
    assert (board["name"], board["data_weights"]) == ("Fast & small", {"seed": 0.0})
    assert board["weights"] == {"performance": 2.0, "throughput": 3.0}
    for change, status in (
        ({}, 409), ({"name": "x" * 61}, 400), ({"name": "y", "w.performance": "1e9"}, 400),
        ({"name": "y", "w.performance": "nan"}, 400), ({"name": "y", "w.charm": "1"}, 400),
        ({"name": "y", "w.performance": "x"}, 400), ({"name": "y", "board": "none"}, 404),
    ):  # fmt: skip
        again = site.client.post(url, data={**sent, **change, "form_token": token}, headers=PAGE)
        assert again.status_code == status, change
    assert site.boards() == 1


def test_programs_save_boards_with_the_token_in_the_header_and_not_too_many(site: Site) -> None:
    url, sent = f"/leaderboard/{TASK}/boards", {"w.performance": "1"}
    made = [site.client.post(url, data={**sent, "name": f"b{one}"}, headers=site.bearer) for one in range(12)]
    assert [one.status_code for one in made] == [201] * 10 + [429] * 2
    assert (made[-1].headers["Retry-After"], json.loads(made[-1].text)["code"]) == ("2", "board_limit_reached")
    assert site.client.post(url, data={**sent, "name": "b"}).status_code == 401
    public = site.client.post("/leaderboard/nli/boards", data={**sent, "name": "b"})
    assert (public.status_code, site.boards()) == (401, 10)
    assert site.client.post(url, data={"name": "n" * (1 << 17)}, headers=site.bearer).status_code == 413


def test_a_page_that_did_not_change_is_not_made_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    first = site.get("", **PAGE)
    etag = first.headers["ETag"]

    def made_again(self: Boards, shown: object) -> None:
        raise AssertionError("made again")

    with monkeypatch.context() as patch:
        patch.setattr(Boards, "ranking", made_again)
        assert site.get("", **PAGE, **{"If-None-Match": etag}).status_code == 304
    for path in ("?w.performance=1", "/ranking.csv"):
        assert site.get(path, **PAGE, **{"If-None-Match": etag}).status_code == 200
    exclude_model(site.services, ADA, TASK, "ada", figures_at(TASK, site.place))
    after = site.get("", **PAGE, **{"If-None-Match": etag})
    assert (after.status_code, ">ada<" in after.text) == (200, False)
    # Another client's copy is not this one's.
    site.sign_in()
    assert site.client.get(f"/leaderboard/{TASK}", headers={**PAGE, "If-None-Match": etag}).status_code == 200


def test_a_snapshot_is_shown_as_it_was_and_its_content_has_its_hash(site: Site) -> None:
    figures = figures_at(TASK, site.place)
    before = site.data()["ranking"]
    taken = take_snapshot(site.services, ADA, TASK, default_board(figures), figures)
    exclude_model(site.services, ADA, TASK, "ada", figures)
    assert len(site.data()["ranking"]) == 2
    kept = site.data(f"?snapshot={taken.key}")
    assert kept["ranking"] == before
    page = site.get(f"?snapshot={taken.key}&w.performance=0", **PAGE)
    assert (taken.sha256 in page.text, 'type="range"' in page.text) == (True, False)
    # Who took it names a machine.
    for path in ("", f"?snapshot={taken.key}", f"/snapshots/{taken.sha256}.json"):
        for accept in ("text/html", "application/json"):
            assert ADA.name not in site.get(path, Accept=accept).text
    content = site.get(f"/snapshots/{taken.sha256}.json")
    assert hashlib.sha256(content.data).hexdigest() == taken.sha256
    for path in (f"?snapshot={'0' * 16}", f"?snapshot={taken.key[:4]}", "?board=nothing", "/models/nothing"):
        assert site.get(path, **PAGE).status_code == 404
    assert site.get(f"/models/va?snapshot={taken.key}", **PAGE).status_code == 200


def test_columns_sort_without_scripts(site: Site) -> None:
    def order(path: str) -> list[str]:
        return re.findall(r'<tr data-model="(\w+)">\s*<td class="board-rank">', site.get(path, **PAGE).text)

    wide = outfox.leaderboard(TASK, path=site.place).sort_values("round 1")
    assert order("?sort=data.round+1&dir=up") == wide["model_id"].tolist()
    assert order("?sort=data.round+1&dir=down") == wide["model_id"].tolist()[::-1]
    assert order("?sort=model&dir=up") == ["vc", "vb", "va"]


def test_a_card_is_shown_without_what_it_could_do(site: Site) -> None:
    links = "[link](javascript:alert(1)) ![x](https://evil.example/t.png) [ok](https://a.example)"
    card = f"---\nlicense: mit\n---\n# Title\n{HOSTILE} {links}"
    store_evaluations(site.place, {"va": "ada"}, [*ROUNDS, EXAM]).store_card("va", card)
    page = site.get("/models/va", **PAGE).text
    assert "<h3>Title</h3>" in page
    assert (HOSTILE in page, 'href="javascript' in page, "<img" in page, "license: mit" in page) == (False,) * 4
    assert 'rel="nofollow noopener noreferrer"' in page


def test_a_page_stays_small_with_many_models_and_slices(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("MOST_MODELS", 5), ("MOST_SLICES", 2), ("MOST_DATA", 2)):
        monkeypatch.setattr(board_page, name, most)
    store_evaluations(site.place, {f"m{one}": f"model {one}" for one in range(8)}, [*ROUNDS, EXAM])
    page = site.get("", **PAGE).text
    assert len(re.findall('class="board-rank"', page)) <= 5
    assert "2 largest of 3 slices" in page
    assert len(list(csv.DictReader(io.StringIO(site.get("/ranking.csv").text)))) == 11


def test_damaged_evaluations_are_reported_without_their_place(site: Site) -> None:
    next((site.place / TASK / "evaluations").glob("*/va/*.json")).write_text("{")
    for accept in ("application/json", "text/html"):
        answer = site.get("", Accept=accept)
        assert (answer.status_code, str(site.place) in answer.text) == (503, False)
