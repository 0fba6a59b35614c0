"""The owner's commands: end, pause and show a round, and upload contexts."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ml_backend.registry.model_pool import ModelPool
from tests.conftest import Outfox
from tests.fakes.registry import QuickRegistry, load_fixed, make_version


@pytest.fixture
def home(tmp_path: Path, home_tables: str, outfox: Outfox, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with the sentiment task, a model for it, and a draft."""
    assert home_tables
    monkeypatch.setattr("ml_backend.targets.loading.load_target", load_fixed)
    assert outfox("task", "create", "sentiment").code == 0
    make_version(tmp_path / "home" / "models")
    return tmp_path / "home"


@pytest.mark.usefixtures("home")
def test_a_round_is_opened_paused_resumed_ended_and_shown_with_its_history(outfox: Outfox) -> None:
    assert outfox("round", "open", "sentiment", "--yes", "--why", "we begin").code == 0
    for command in ("pause", "pause", "open"):
        assert "outfox round resume sentiment" in outfox("round", command, "sentiment").out
    shown = outfox("round", "show", "sentiment").out
    assert "open, paused" in shown
    assert "closes" in shown
    assert json.loads(outfox("round", "resume", "sentiment", "--why", "rested", "--json").out)["paused"] is False
    assert outfox("round", "resume", "sentiment").code == 0
    assert "200 more validated fooling examples of 200" in outfox("round", "show", "sentiment").out
    closed = json.loads(outfox("round", "close", "sentiment", "--why", "enough", "--json").out)
    assert (closed["status"], closed["waits_for"], closed["already"]) == ("closed", [], False)
    assert json.loads(outfox("round", "close", "sentiment", "--json").out)["already"] is True
    assert "closes" not in outfox("round", "show", "sentiment").out
    data = json.loads(outfox("round", "show", "sentiment", "--json").out)
    history = [(one["did"], one["why"]) for one in data["history"]]
    assert (data["status"], data["due"], data["waits_for"]) == ("closed", None, [])
    assert history == [
        ("opened", "we begin"),
        ("paused", "no reason was given"),
        ("resumed", "rested"),
        ("began validating", "enough"),
        ("closed", "enough"),
    ]


def test_opening_a_round_shows_its_cost_and_asks_first(outfox: Outfox, home: Path) -> None:
    assert home
    ran = outfox("round", "open", "sentiment", "--json")
    assert ran.failure == (2, "confirmation_required")
    assert "$600.00" in outfox("round", "open", "sentiment").err
    quote = json.loads(outfox("round", "open", "sentiment", "--dry-run", "--json").out)["quote"]
    assert (quote["first"]["create"], quote["first"]["quiz_places"], quote["most_cents"]) == (200, 20, 60_000)
    assert json.loads(outfox("round", "show", "sentiment", "--json").out)["status"] == "draft"


def test_an_in_house_round_needs_neither_a_budget_nor_a_confirmation(outfox: Outfox, home: Path) -> None:
    assert home
    assert outfox("round", "budget", "sentiment", "0.01").code == 0
    opened = outfox("round", "open", "sentiment", "--in-house", "--json")
    assert (opened.code, json.loads(opened.out)["in_house"]) == (0, True)
    (task,) = json.loads(outfox("status", "--json").out)["tasks"]
    assert (task["in_house"], task["hints"][-1]["action"]) == (True, "connect_label_studio")
    assert "open, in-house" in outfox("round", "show", "sentiment").out
    assert "in-house" in outfox("round", "metrics", "sentiment").out
    assert outfox("round", "open", "sentiment", "--crowd", "--json").failure == (2, "round_already_open")
    # The next round is in-house too.
    assert outfox("round", "close", "sentiment").code == 0
    assert json.loads(outfox("round", "open", "sentiment", "--dry-run", "--json").out)["quote"]["in_house"] is True
    assert outfox("round", "open", "sentiment", "--crowd", "--json").failure == (2, "confirmation_required")


def test_a_changed_budget_is_shown_with_the_old_and_new_amounts(outfox: Outfox, home: Path) -> None:
    assert home
    assert outfox("round", "budget", "sentiment", "500", "--why", "enough").code == 0
    assert "changed the budget from $600.00 to $500.00" in outfox("round", "show", "sentiment").out
    (noted,) = json.loads(outfox("round", "show", "sentiment", "--json").out)["history"]
    assert (noted["before"], noted["after"]) == ({"budget_cents": 60000}, {"budget_cents": 50000})


def test_an_invalid_example_id_or_date_is_reported_with_the_expected_format(outfox: Outfox, home: Path) -> None:
    assert home
    ran = outfox("round", "decide", "sentiment", "xyz", "--keep", "--why", "x")
    assert (ran.code, "xyz" in ran.err) == (2, True)
    ran = outfox("crowd", "statement", "--day", "yesterday")
    assert (ran.code, "yesterday" in ran.err) == (2, True)


def test_a_round_without_a_backend_opens_and_is_shown_as_waiting(outfox: Outfox, home: Path) -> None:
    ran = outfox("round", "open", "sentiment", "--yes")
    assert (ran.code, "switches" in ran.err) == (0, False)
    assert "outfox ml-backend" in ran.out
    assert json.loads(outfox("round", "open", "sentiment", "--yes", "--json").out)["servers"] == []
    registry = QuickRegistry(home / "models")
    pool = ModelPool(registry, load_fixed, ["sentiment"])
    pool.start()
    try:
        assert "outfox ml-backend" not in outfox("round", "open", "sentiment", "--yes").out
        assert len(json.loads(outfox("round", "open", "sentiment", "--yes", "--json").out)["servers"]) == 1
    finally:
        pool.stop()


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("command", [("close",), ("close", "--now"), ("pause",), ("resume",)])
def test_a_draft_is_neither_closed_nor_paused(outfox: Outfox, command: tuple[str, ...]) -> None:
    ran = outfox("round", command[0], "sentiment", *command[1:], "--json")
    assert (ran.code, ran.out) == (2, "")
    error = json.loads(ran.err)
    assert (error["code"], error["hint"]["command"]) == ("round_not_open", "outfox round open sentiment")
    data = json.loads(outfox("round", "show", "sentiment", "--json").out)
    assert (data["status"], data["history"]) == ("draft", [])


@pytest.mark.usefixtures("home")
def test_a_budget_that_pays_for_nothing_opens_nothing(outfox: Outfox) -> None:
    assert outfox("round", "budget", "sentiment", "2.45").code == 0
    ran = outfox("round", "open", "sentiment", "--yes", "--json")
    assert (ran.code, json.loads(ran.err)["code"]) == (2, "budget_exceeded")
    assert "$2.46" in ran.err
    assert json.loads(outfox("round", "show", "sentiment", "--json").out)["status"] == "draft"


@pytest.mark.usefixtures("home")
def test_contexts_are_uploaded_rehearsed_replaced_and_listed(outfox: Outfox, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text('\ufeffid;prompt\nm1;Write about trains.\nm2;"Write about\nboats."\n', encoding="utf-8")
    rehearsed = json.loads(outfox("context", "upload", "sentiment", file, "--dry-run", "--json").out)
    assert (rehearsed["dry_run"], rehearsed["added"]) == (True, 2)
    assert outfox("context", "upload", "sentiment", file).out == "sentiment: 2 contexts added, 0 unchanged\n"
    assert "0 contexts added, 2 unchanged" in outfox("context", "upload", "sentiment", file).out
    assert "72 retired" in outfox("context", "upload", "sentiment", file, "--replace").out
    # The pack's own do not come back.
    assert "sentiment: 2 contexts" in outfox("task", "create", "sentiment").out
    listed = json.loads(outfox("context", "list", "sentiment", "--json").out)
    assert [(one["id"], one["from"]) for one in listed["shown"]] == [("m1", "upload"), ("m2", "upload")]
    assert "Write about boats." in outfox("context", "list", "sentiment").out
    retired = outfox("context", "list", "sentiment", "--retired", "--most", "3").out
    assert "… and 69 more" in retired


@pytest.mark.usefixtures("home")
def test_contexts_are_uploaded_from_a_pipe(outfox: Outfox, tmp_path: Path) -> None:
    pipe = tmp_path / "mine.csv"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(pipe.write_text, "id,prompt\nm1,Write about trains.\n", encoding="utf-8")
        assert outfox("context", "upload", "sentiment", pipe).out == "sentiment: 1 context added, 0 unchanged\n"
        writing.result(30)
        writing = pool.submit(pipe.write_text, "id,text\n", encoding="utf-8")
        ran = outfox("context", "upload", "sentiment", pipe)
        writing.result(30)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert ran.err.startswith("outfox: mine.csv:1: the first line has no column `prompt`; ")


@pytest.mark.usefixtures("home")
def test_an_invalid_file_is_reported_line_by_line_and_changes_nothing(outfox: Outfox, tmp_path: Path) -> None:
    file = tmp_path / "broken.jsonl"
    file.write_text('{"prompt": "Right."}\n{"promt": "Wrong."}\nnope\n', encoding="utf-8")
    ran = outfox("context", "upload", "sentiment", file)
    assert (ran.code, ran.out) == (2, "")
    assert [line.split(": ")[1] for line in ran.err.splitlines()] == ["broken.jsonl:2", "broken.jsonl:3"]
    problems = json.loads(outfox("context", "upload", "sentiment", file, "--json").err)["problems"]
    assert len(problems) == 2
    assert json.loads(outfox("context", "list", "sentiment", "--json").out)["contexts"] == 72


@pytest.mark.usefixtures("home_tables")
def test_a_new_task_shows_the_hint_to_train_first(outfox: Outfox) -> None:
    assert outfox("task", "create", "sentiment").code == 0
    (task,) = json.loads(outfox("status", "--json").out)["tasks"]
    assert [hint["command"] for hint in task["hints"]] == ["outfox model train sentiment"]
