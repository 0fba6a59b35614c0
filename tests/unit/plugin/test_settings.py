import multiprocessing
import stat
from pathlib import Path

import pytest

from common.errors import Hint
from plugin.errors import SettingsError, UnknownSetting
from plugin.settings import DEMO_FILE, DEMO_HOME, Settings, find_demo, load_settings, settings_table


def test_the_environment_wins_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "o.toml"
    file.write_text('log_level = "error"\nlog_format = "json"\n')
    settings = load_settings({"OUTFOX_CONFIG": str(file), "OUTFOX_LOG_LEVEL": "debug"})
    assert (settings.log_level, settings.log_format, settings.environment) == ("debug", "json", "development")


def test_the_file_in_the_home_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "outfox.toml").write_text('log_level = "error"\n')
    assert load_settings({}, home=str(tmp_path)).log_level == "error"


def test_everything_is_below_the_home_folder_by_default(tmp_path: Path) -> None:
    settings = load_settings({"OUTFOX_HOME": str(tmp_path), "OUTFOX_MODELS_DIR": "/elsewhere/models"})
    assert settings.database == f"sqlite:///{tmp_path.resolve()}/outfox.db"
    assert settings.models_path == Path("/elsewhere/models")
    assert settings.templates_path == tmp_path.resolve() / "templates"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"OUTFOX_LOG_LEVEL": "loud"}, "log_level"),
        ({"OUTFOX_SECRETE": "x"}, "secrete"),
        ({"OUTFOX_CONFIG": "/no/such/file.toml"}, "/no/such/file.toml"),
    ],
)
def test_an_invalid_setting_is_refused_by_name(environ: dict[str, str], expected: str) -> None:
    with pytest.raises(SettingsError, match=expected):
        load_settings(environ)


def test_an_unknown_setting_in_the_file_is_refused_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "outfox.toml").write_text('secrete = "x"\n')
    with pytest.raises(UnknownSetting) as caught:
        load_settings({}, home=str(tmp_path))
    assert caught.value.hint == Hint("list_settings")


def test_a_missing_file_is_refused_with_the_option_or_variable_that_named_it(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    with pytest.raises(SettingsError, match=r"missing\.toml.*--config"):
        load_settings({"OUTFOX_CONFIG": "/elsewhere.toml"}, config=missing)
    with pytest.raises(SettingsError, match=r"missing\.toml.*OUTFOX_CONFIG"):
        load_settings({"OUTFOX_CONFIG": str(missing)})


@pytest.mark.parametrize(("text", "named"), [("log_level = loud", r"o\.toml"), ("log_level = 3", "log_level")])
def test_an_invalid_file_is_refused(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "o.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=named):
        load_settings({}, config=file)


def test_a_secret_is_generated_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    settings = load_settings({}, home=str(tmp_path / "new"))
    (secret,) = settings.signing_secrets()
    assert len(secret) >= 32
    assert settings.signing_secrets() == (secret,)
    assert stat.S_IMODE((tmp_path / "new" / "secret").stat().st_mode) == 0o600
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["secret"]


def _secret_of(home: str) -> str:
    return load_settings({}, home=home).signing_secrets()[0]


def test_processes_that_start_together_agree_on_one_secret(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        assert len(set(pool.map(_secret_of, [str(tmp_path)] * 16))) == 1


def test_production_refuses_a_generated_secret(tmp_path: Path) -> None:
    settings = load_settings({"OUTFOX_ENVIRONMENT": "production"}, home=str(tmp_path))
    with pytest.raises(SettingsError):
        settings.signing_secrets()
    assert not (tmp_path / "secret").exists()


def test_every_setting_is_in_the_table() -> None:
    table = settings_table()
    for name, field in Settings.model_fields.items():
        assert f"| `{name}` | `OUTFOX_{name.upper()}` |" in table
        assert field.description


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder with the home of `make demo`, and a user without an installation of their own."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    demo = tmp_path / "project" / DEMO_HOME / DEMO_FILE
    demo.parent.mkdir(parents=True)
    demo.write_text('log_level = "error"\n')
    return tmp_path / "project"


def test_the_demo_of_the_folder_or_of_one_above_is_found(project: Path) -> None:
    (project / "docs").mkdir()
    assert find_demo({"LANG": "C"}, project) == find_demo({}, project / "docs") == project / DEMO_HOME / DEMO_FILE
    assert find_demo({}, project.parent) is None


def test_other_settings_win_over_the_demo(project: Path) -> None:
    assert find_demo({"OUTFOX_DATABASE_URL": "sqlite:///x.db"}, project) is None
    mine = project.parent / "user" / ".outfox"
    mine.mkdir(parents=True)
    (mine / "outfox.db").touch()
    assert find_demo({}, project) is None


def test_the_home_of_a_demo_is_enough_to_find_its_settings(project: Path) -> None:
    home = project / DEMO_HOME
    assert load_settings({}, home=str(home)).log_level == "error"
    (home / "outfox.toml").write_text('log_level = "debug"\n')
    assert load_settings({}, home=str(home)).log_level == "debug"
