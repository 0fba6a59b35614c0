import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from common.progress import NoProgress
from plugin.demo.home import DemoHome
from plugin.demo.servers import DemoServerFailed, LabelStudioStart, Server, demo_server
from plugin.labelstudio.server import LabelStudioServer, LabelStudioStartFailed
from plugin.server_process import ServerProcess, free_port
from plugin.settings import load_settings

SECONDS = 20.0


def _server(folder: Path, program: str) -> Server:
    return Server("serve", ServerProcess([sys.executable, "-c", program], {}, folder, folder / "serve.log"))


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_server_that_exits_is_reported_with_its_log_and_restarted(tmp_path: Path) -> None:
    reports: list[str] = []
    server = _server(tmp_path, "print('out of luck')")
    server.start()
    _until(lambda: not server.child.lives)

    server.check(0.0, reports.append)
    (text,) = reports
    assert "serve" in text
    assert "out of luck" in text
    _until(lambda: not server.child.lives)
    server.stop()


def test_the_delay_before_a_restart_grows_until_the_server_ran_for_a_while(tmp_path: Path) -> None:
    reports: list[str] = []
    server = _server(tmp_path, "pass")
    server.start()
    delays = []
    for now in (100.0, 110.0, 120.0, 200.0):
        _until(lambda: not server.child.lives)
        server.check(now, reports.append)
        delays.append(server.restart_at - now if server.restart_at else 0.0)
        server.check(now + 5.0, reports.append)
        assert server.restart_at == 0.0, "it was not restarted"
    server.stop()
    assert delays == [0.0, 1.0, 3.0, 0.0], "after a minute without a failure, it is restarted at once"
    assert len(reports) == 4


def test_a_server_that_runs_or_was_stopped_is_left_alone(tmp_path: Path) -> None:
    reports: list[str] = []
    server = _server(tmp_path, "import time; time.sleep(60)")
    server.check(0.0, reports.append)
    server.start()
    server.check(0.0, reports.append)
    was_running = server.child.lives
    server.stop()
    server.check(0.0, reports.append)
    assert (was_running, server.child.lives) == (True, False)
    assert reports == []


def test_a_server_that_exits_while_it_starts_gets_two_more_attempts(tmp_path: Path) -> None:
    program = "open('starts', 'a').write('x'); print('out of luck')"
    server = replace(_server(tmp_path, program), url=f"http://127.0.0.1:{free_port()}")
    server.start()
    with pytest.raises(DemoServerFailed) as caught:
        server.wait(NoProgress())
    server.stop()
    assert "out of luck" in str(caught.value)
    assert (tmp_path / "starts").read_text() == "xxx"


@pytest.mark.parametrize("times", [1, 2])
def test_stop_can_be_repeated(tmp_path: Path, times: int) -> None:
    server = _server(tmp_path, "import time; time.sleep(60)")
    server.start()
    for _ in range(times):
        server.stop()
    assert not server.child.lives


def test_modules_in_the_demos_home_are_not_imported(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text("raise SystemExit(9)\n")
    home = DemoHome(load_settings({}, home=str(tmp_path)), "password")
    server = demo_server(home, "completion", "bash")
    server.start()
    _until(lambda: not server.child.lives)
    server.stop()
    assert "_outfox_completion" in server.child.log_file.read_text()


def test_the_port_is_taken_from_an_address_with_a_path(tmp_path: Path) -> None:
    home = DemoHome(load_settings({}, home=str(tmp_path)), "password")
    server = demo_server(home, "ml-backend", url="http://127.0.0.1:9090/tasks/sentiment")
    assert list(server.child.command)[-2:] == ["--port", "9090"]


def test_a_failed_start_of_label_studio_is_not_reported_as_done(tmp_path: Path) -> None:
    finished = []

    class Progress(NoProgress):
        def finish(self) -> None:
            finished.append(True)

    with socket.create_server(("127.0.0.1", 0)) as other:
        start = LabelStudioStart(
            LabelStudioServer(tmp_path, other.getsockname()[1], "owner@example.com", "password", "0" * 40)
        )
        with pytest.raises(LabelStudioStartFailed):
            start.wait(Progress())
    assert not finished
