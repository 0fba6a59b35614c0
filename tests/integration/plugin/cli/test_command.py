import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from plugin import __version__
from plugin.cli import COMMANDS
from plugin.crowd import OURS
from tests.conftest import Outfox
from tests.fakes.own_page import OwnPage

NEAR = "http://127.0.0.1:7500"


# Each takes longer to import than everything else that `outfox --help` needs.
HEAVY = (
    "boto3",
    "flask",
    "label_studio_sdk",
    "matplotlib",
    "numpy",
    "pandas",
    "pyarrow",
    "requests",
    "sqlalchemy",
    "torch",
)


def loaded_by(program: str) -> set[str]:
    """Run a program in a new process and return the modules that it imported."""
    program = f"import sys; from plugin.cli import COMMANDS, run; {program}; print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert [name for name in COMMANDS if f" {name} " not in ran.stdout] == []
    return set(ran.stderr.split())


def test_help_names_every_command_and_loads_nothing_heavy() -> None:
    loaded = loaded_by("run(['--help'])")
    assert loaded.isdisjoint(HEAVY)
    assert not [name for name in loaded if name.startswith(("round_manager", "ml_backend", "templates"))]


def test_the_help_of_a_command_loads_nothing_heavy() -> None:
    assert loaded_by("[run([name, '--help']) for name in COMMANDS]").isdisjoint(HEAVY)


def test_the_version_is_printed(outfox: Outfox) -> None:
    assert __version__ in outfox("--version").out


def test_a_wrong_option_exits_with_code_2(outfox: Outfox) -> None:
    ran = outfox("templates", "list", "--nothing")
    assert ran.code == 2
    assert "--nothing" in ran.err


@pytest.mark.parametrize(
    "command",
    [
        ("round", "show", "sentiment", "--round", 10**22),
        ("round", "freeze", "sentiment", "--round", 10**22),
        ("round", "metrics", "sentiment", "--round", 10**22),
        ("round", "budget", "sentiment", 5, "--round", 10**22),
        ("context", "list", "sentiment", "--most", 10**22),
        ("crowd", "statement", "--day", "0001-01-01", "--days", 5),
    ],
)
@pytest.mark.usefixtures("home_tables")
def test_a_number_or_date_out_of_range_exits_with_code_2(outfox: Outfox, command: tuple[object]) -> None:
    assert outfox("task", "create", "sentiment").code == 0
    ran = outfox(*command)
    assert (ran.code, ran.err.splitlines()[-1].startswith("Error: ")) == (2, True)


def test_a_wrong_setting_is_reported_in_one_line(outfox: Outfox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTFOX_LOG_LEVEL", "loud")
    ran = outfox("templates", "list")
    assert (ran.code, ran.err.count("\n")) == (2, 1)


def test_secrets_are_not_shown(outfox: Outfox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTFOX_SECRET", "do-not-show-" * 4)
    monkeypatch.setenv("OUTFOX_DATABASE_URL", "postgresql://owner:do-not-show@127.0.0.1:1/outfox")
    for arguments in (("config",), ("config", "--json"), ("doctor",), ("doctor", "--json")):
        ran = outfox(*arguments)
        assert "do-not-show" not in ran.out + ran.err


def test_the_database_is_created_and_reported_as_up_to_date(outfox: Outfox) -> None:
    before = outfox("db", "check")
    assert before.code in (2, 3)
    assert "outfox db upgrade" in before.err
    assert outfox("db", "upgrade").code == 0
    assert json.loads(outfox("db", "check", "--json").out)["revision"]
    assert outfox("db", "upgrade").code == 0


def test_a_database_that_cannot_be_opened_is_reported_in_one_line(
    outfox: Outfox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTFOX_DATABASE_URL", "sqlite:////no/such/folder/outfox.db")
    ran = outfox("db", "upgrade")
    assert ran.code in (2, 3)
    assert ran.err.count("\n") == 1
    monkeypatch.setenv("OUTFOX_DATABASE_URL", "nonsense")
    ran = outfox("db", "upgrade")
    assert (ran.code, ran.err.count("\n")) == (2, 1)


def _overwritten(file: Path, start: int, end: int | None = None) -> None:
    with file.open("r+b") as opened:
        opened.seek(start)
        opened.write(b"\xaa" * ((end or file.stat().st_size) - start))


def _page_of_tasks(file: Path) -> None:
    """Corrupt one table's rows and leave the schema intact."""
    with closing(sqlite3.connect(file)) as database:
        (page,) = database.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'task'").fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    _overwritten(file, (page - 1) * size, page * size)


def _no_utf_8(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = CAST(x'FFFF' AS TEXT)")


@pytest.mark.sqlite("its file is corrupted")
@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_text("Dear all, this is a letter.", encoding="ascii"),
        lambda file: _overwritten(file, 100),
        lambda file: _overwritten(file, 8_192),
        lambda file: os.truncate(file, 5_000),
        _page_of_tasks,
        _no_utf_8,
    ],
)
def test_a_corrupt_database_is_named(outfox: Outfox, tmp_path: Path, damage: Callable[[Path], object]) -> None:
    home = tmp_path / "home"
    assert outfox("task", "create", "sentiment").code == 0
    assert outfox("marketplace", "account", "Lab").code == 0
    for name, command in (("outfox.db", ["status"]), ("marketplace.db", ["marketplace", "workers"])):
        if name == "marketplace.db" and damage in (_page_of_tasks, _no_utf_8):
            continue
        with closing(sqlite3.connect(home / name)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        damage(home / name)
        ran = outfox(*command)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran.err
        assert str(home / name) in ran.err


def test_the_doctor_checks_the_test_dependencies_and_gives_hints(
    outfox: Outfox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTFOX_LABEL_STUDIO_URL", "http://127.0.0.1:9")
    ran = outfox("doctor", "--json")
    findings = {one["what"]: one for one in json.loads(ran.out)}
    assert ran.code == 0
    for what in ("Python", "torch", "label-studio", "lock", "embedded encoder", "labelling editor", "home", "secret"):
        assert findings[what]["state"] == "ok", findings[what]
    assert "outfox db upgrade" in findings["database"]["advice"]
    assert findings["Label Studio"]["state"] == "warning"
    assert findings["Label Studio"]["advice"]


def test_the_doctor_changes_nothing_on_the_machine(outfox: Outfox, tmp_path: Path) -> None:
    def found() -> dict[str, dict[str, str]]:
        return {one["what"]: one for one in json.loads(outfox("doctor", "--json").out)}

    there = found()
    assert list(tmp_path.iterdir()) == []
    assert there["home"]["detail"].startswith(str(tmp_path / "home"))
    assert there["secret"]["state"] == "ok"
    (tmp_path / "home").mkdir()
    there = found()
    assert list((tmp_path / "home").iterdir()) == []
    assert (there["home"]["state"], there["home"]["detail"]) == ("ok", str(tmp_path / "home"))


def test_the_doctor_reports_a_home_that_cannot_be_a_folder(outfox: Outfox, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("in the way", encoding="utf-8")
    ran = outfox("doctor", "--json")
    findings = {one["what"]: one for one in json.loads(ran.out)}
    assert (ran.code, findings["home"]["state"], findings["secret"]["state"]) == (1, "missing", "missing")
    assert "OUTFOX_HOME" in findings["home"]["advice"]


def test_the_doctor_fails_if_a_requirement_is_missing(outfox: Outfox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTFOX_ENVIRONMENT", "production")
    ran = outfox("doctor")
    assert ran.code == 1
    assert "OUTFOX_SECRET" in ran.out


def test_the_doctor_reports_whether_workers_can_see_the_pages(outfox: Outfox, monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> dict[str, dict[str, str]]:
        return {one["what"]: one for one in json.loads(outfox("doctor", "--json").out)}

    site, ours = "https://market.example", {OURS: "1", "Content-Security-Policy": f"frame-ancestors {NEAR}"}
    monkeypatch.setenv("OUTFOX_WEB_URL", "http://127.0.0.1:9")
    away = found()
    assert (away["workers' pages"]["state"], away["frame"]["state"]) == ("warning", "ok")
    assert "outfox serve" in away["workers' pages"]["advice"]
    with OwnPage(409, **ours) as page:
        monkeypatch.setenv("OUTFOX_WEB_URL", page.url)
        there = found()
        assert (there["workers' pages"]["state"], there["frame"]["state"]) == ("ok", "ok")
        assert there["frame"]["detail"] == f"only {NEAR} may show the pages"
        monkeypatch.setenv("OUTFOX_CROWD_SITE_URL", site)
        frame = found()["frame"]
        assert frame["state"] == "warning"
        assert "outfox serve" in frame["advice"]
        page.headers = {**ours, "Content-Security-Policy": f"script-src 'self'; frame-ancestors {site}"}
        frame = found()["frame"]
        assert (frame["state"], "each worker's own machine" in frame["advice"]) == ("warning", True)
        monkeypatch.setenv("OUTFOX_HIT_PAGE_URL", page.url)
        page.headers = {}
        assert found()["workers' pages"]["detail"] == f"{page.url}, a page of your own"
    monkeypatch.setenv("OUTFOX_CROWD_SITE_URL", "nowhere")
    assert outfox("doctor").code == 1
    assert found()["workers' pages"]["state"] == "missing"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(outfox: Outfox, shell: str) -> None:
    ran = outfox("completion", shell)
    assert ran.code == 0
    assert "_OUTFOX_COMPLETE" in ran.out


def test_the_tab_key_completes_packs(tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "_OUTFOX_COMPLETE": "bash_complete",
        "COMP_WORDS": "outfox templates show se",
        "COMP_CWORD": "3",
    }
    ran = subprocess.run(
        [str(Path(sys.executable).parent / "outfox")], env=environ, capture_output=True, text=True, check=False
    )
    assert "plain,sentiment" in ran.stdout


def test_advice_repeats_the_home_that_was_named(outfox: Outfox, tmp_path: Path) -> None:
    other = tmp_path / "another home"
    named = outfox("--home", other, "task", "list", "--json").error
    assert named["hint"]["command"] == f"outfox --home '{other}' db upgrade"
    assert outfox("task", "list", "--json").error["hint"]["command"] == "outfox db upgrade"
