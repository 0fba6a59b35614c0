"""The welcome describes the state of the round, on the first start and on later ones."""

from dataclasses import replace
from pathlib import Path

import pytest

from plugin.demo.welcome import DemoStatus, Ready, welcome

OPEN = DemoStatus(1, "open", ("m1",), (), 0, ())
READY = Ready(
    url="http://127.0.0.1:8080/projects/1/data",
    project=1,
    tasks=72,
    email="owner@example.com",
    password="hush",
    version="m1",
    accuracy=81.25,
    backend="http://127.0.0.1:9090/tasks/sentiment",
    marketplace="http://127.0.0.1:7500",
    invitation="http://127.0.0.1:7500/join/x",
    archives="/home/archives",
    config="/home/demo.toml",
    home="/home",
    seconds=12.4,
    task="sentiment",
    standing=OPEN,
    program=".venv/bin/outfox",
    python=".venv/bin/python",
)
TRAINING = "the next model is being trained: training on 900 rows 40 %"


def text_for(standing: DemoStatus) -> str:
    return welcome(replace(READY, standing=standing))


def test_commands_can_be_typed_in_the_current_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a demo").mkdir()
    monkeypatch.chdir(tmp_path)
    text = welcome(replace(READY, config=str(tmp_path / "a demo" / "demo.toml")))
    assert "\n  .venv/bin/outfox --config 'a demo/demo.toml' status\n" in text
    assert "\n  start     .venv/bin/python\n  import outfox\n" in text


def test_an_open_round_comes_with_instructions_for_each_role() -> None:
    text = text_for(OPEN)
    assert "Ready after 12 s. Round 1 is open." in text
    for part in (
        "72 tasks",
        "Shift+Enter",
        "m1 (81.2 % on held-out sentences)",
        "Take the quiz",
        "once a round is frozen",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        (
            replace(OPEN, status="validating", waits_for=("3 examples wait for votes",), to_check=2),
            (
                "Round 1 takes no new submissions",
                "  - 3 examples wait for votes\n",
                "2 HITs",
            ),
        ),
        (
            replace(OPEN, status="validating", waits_for=("1 payment, $0.54, owed; `outfox crowd pay` sends it",)),
            ("Round 1 takes no new submissions", "There are no HITs until a round is open"),
        ),
        (
            replace(OPEN, status="closed", waits_for=(TRAINING,), frozen=(1,)),
            ("1 is closed, and round 2 is not open yet. Waiting for:", TRAINING, "researcher, of round 1:"),
        ),
        (
            replace(OPEN, round=3, status="closed", frozen=(1, 2, 3)),
            ("Round 3 is closed, and round 4 is not open yet.\n", "As a researcher, of rounds 1, 2, 3:"),
        ),
        (
            replace(OPEN, status="paused", waits_for=("it is paused since noon",)),
            ("Round 1 is paused. Waiting for:", "bin/outfox --config /home/demo.toml round resume sentiment"),
        ),
    ],
)
def test_without_an_open_round_the_welcome_offers_no_work(standing: DemoStatus, expected: tuple[str, ...]) -> None:
    text = text_for(standing)
    for part in (*expected, "waits until a round is open", "round metrics sentiment", "demo.toml status"):
        assert part in text
    for part in ("72 tasks", "Take the quiz", "write a sentence"):
        assert part not in text


@pytest.mark.parametrize("standing", [OPEN, replace(OPEN, status="closed")])
def test_every_line_fits_a_narrow_terminal(standing: DemoStatus) -> None:
    assert max(map(len, text_for(standing).splitlines())) <= 88
