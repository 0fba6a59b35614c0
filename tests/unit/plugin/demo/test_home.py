import tomllib
from pathlib import Path

import pytest

from plugin.demo.home import FILE, DemoRunning, HomeLock, find_home
from plugin.settings import Settings, load_settings


def test_a_second_start_keeps_addresses_and_keys(tmp_path: Path) -> None:
    settings = Settings(home=str(tmp_path))
    first = find_home(settings, 8080).with_key("AKID", "hush")

    second = find_home(settings, 8080)
    assert second == first
    assert (second.settings.crowd_key_id, second.settings.crowd_key_secret) == ("AKID", "hush")
    assert second.settings.hit_pages == f"http://localhost:{first.settings.web_url.rpartition(':')[2]}/hits"


def test_no_two_servers_get_the_same_address(tmp_path: Path) -> None:
    settings = find_home(Settings(home=str(tmp_path)), 8080).settings
    urls = {settings.label_studio_url, settings.ml_backend_url, settings.web_url, settings.crowd_url}
    assert len(urls) == 4


def test_the_settings_file_reaches_the_demo_and_is_private(tmp_path: Path) -> None:
    home = find_home(Settings(home=str(tmp_path)), 8080).with_key("AKID", "hush")

    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0
    assert tomllib.loads((tmp_path / FILE).read_text(encoding="utf-8"))["crowd_key_id"] == "AKID"
    assert load_settings({}, config=home.config).database == home.settings.database


def test_other_settings_do_not_reach_the_demos_servers(tmp_path: Path) -> None:
    elsewhere = Settings(home=str(tmp_path), crowd_url="https://crowd.example", crowd_site_url="https://site.example")
    home = find_home(elsewhere, 8080)

    environment = home.environment()
    assert environment["OUTFOX_CROWD_URL"] == home.settings.crowd_url != elsewhere.crowd_url
    assert environment["OUTFOX_CROWD_SITE_URL"] == ""


def test_one_demo_at_a_time_uses_a_home(tmp_path: Path) -> None:
    first = HomeLock(tmp_path)
    with pytest.raises(DemoRunning):
        HomeLock(tmp_path)
    del first
    HomeLock(tmp_path)
