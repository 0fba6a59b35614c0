import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from flask import Flask

from common.clock import SystemClock
from plugin.health import LONGEST_PASS, main
from round_manager.database.store import open_store
from round_manager.loop.manager_record import record_pass
from tests.e2e.deploy.compose import ROOT
from tests.e2e.mturk.marketplace.question import served


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (404, 1), (302, 1)])
def test_a_server_is_healthy_if_its_health_route_says_so(status: int, code: int) -> None:
    app = Flask("asked")
    app.add_url_rule("/health", "health", lambda: ("", status))
    with served(app) as url:
        assert main([f"{url}/health"]) == code


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/health", "ftp://127.0.0.1/", "http://127.0.0.1:port/", "web"])
def test_an_unreachable_server_is_reported_in_one_line(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([address]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_the_manager_is_healthy_while_it_completes_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OUTFOX_HOME", str(tmp_path))
    assert main(["manager"]) == 1
    now = SystemClock().now()
    with open_store(f"sqlite:///{tmp_path / 'outfox.db'}", upgrade=True) as store:
        assert (main(["manager"]), "not completed a pass" in capsys.readouterr().err) == (1, True)
        with store.write() as session:
            record_pass(session, actor="ada@desk", now=now - LONGEST_PASS - timedelta(minutes=1))
        assert (main(["manager"]), "since" in capsys.readouterr().err) == (1, True)
        with store.write() as session:
            record_pass(session, actor="ada@desk", now=now)
        assert main(["manager"]) == 0


def test_checking_a_server_imports_nothing_slow() -> None:
    program = "import sys, plugin.health as h; h.main(['http://127.0.0.1:1/health']); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"click", "sqlalchemy", "requests", "flask", "torch"} & set(ran.stdout.split())
