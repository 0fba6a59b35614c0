import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from plugin.child import Child
from plugin.demo.place import DemoPlace
from plugin.demo.servers import Server, our_server
from plugin.errors import PluginError
from plugin.local_server import free_port
from plugin.settings import load_settings
from round_manager.progress import Unwatched

SECONDS = 20.0


def _server(folder: Path, program: str) -> Server:
    return Server("serve", Child([sys.executable, "-c", program], {}, folder, folder / "serve.log"))


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_server_that_dies_is_told_with_its_last_words_and_started_again(tmp_path: Path) -> None:
    told: list[str] = []
    server = _server(tmp_path, "print('out of luck')")
    server.start()
    _until(lambda: not server.child.lives)

    server.look(0.0, told.append)
    (text,) = told
    assert "serve has died and is started again" in text
    assert "out of luck" in text
    _until(lambda: not server.child.lives)
    server.stop()


def test_one_that_dies_again_and_again_rests_longer_each_time_until_it_was_well_for_a_while(tmp_path: Path) -> None:
    told: list[str] = []
    server = _server(tmp_path, "pass")
    server.start()
    rests = []
    for now in (100.0, 110.0, 120.0, 200.0):
        _until(lambda: not server.child.lives)
        server.look(now, told.append)
        rests.append(server.again_at - now if server.again_at else 0.0)
        server.look(now + 5.0, told.append)
        assert server.again_at == 0.0, "it was not started again"
    server.stop()
    assert rests == [0.0, 1.0, 3.0, 0.0], "after a minute in which it was well, it need not rest"
    assert len(told) == 4


def test_one_that_lives_or_was_ended_is_left_alone(tmp_path: Path) -> None:
    told: list[str] = []
    server = _server(tmp_path, "import time; time.sleep(60)")
    server.look(0.0, told.append)
    server.start()
    server.look(0.0, told.append)
    lived = server.child.lives
    server.stop()
    server.look(0.0, told.append)
    assert (lived, server.child.lives) == (True, False)
    assert told == []


def test_one_that_dies_while_it_starts_has_two_more_chances_before_it_is_told(tmp_path: Path) -> None:
    program = "open('starts', 'a').write('x'); print('out of luck')"
    server = replace(_server(tmp_path, program), url=f"http://127.0.0.1:{free_port()}")
    server.start()
    with pytest.raises(PluginError, match="serve does not come up") as told:
        server.wait(Unwatched())
    server.stop()
    assert "out of luck" in str(told.value)
    assert (tmp_path / "starts").read_text() == "xxx"


@pytest.mark.parametrize("times", [1, 2])
def test_stopping_is_safe_however_often(tmp_path: Path, times: int) -> None:
    server = _server(tmp_path, "import time; time.sleep(60)")
    server.start()
    for _ in range(times):
        server.stop()
    assert not server.child.lives


def test_what_lies_in_the_demos_home_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text("raise SystemExit(9)\n")
    place = DemoPlace(load_settings({}, home=str(tmp_path)), "password")
    server = our_server(place, "completion", "bash")
    server.start()
    _until(lambda: not server.child.lives)
    server.stop()
    assert "_outfox_completion" in server.child.log_file.read_text()


def test_a_server_can_be_looked_at_below_its_address(tmp_path: Path) -> None:
    place = DemoPlace(load_settings({}, home=str(tmp_path)), "password")
    server = our_server(place, "ml-backend", url="http://127.0.0.1:9090/tasks/sentiment")
    assert list(server.child.command)[-2:] == ["--port", "9090"]
