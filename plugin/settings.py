"""Configuration: one frozen dataclass, read once from a file and the environment.

The environment wins over the file, the file over the defaults. docs/configuration.md is made from the fields here.
"""

import os
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from plugin.errors import SettingsError

PREFIX = "OUTFOX_"
CONFIG_FILE = "outfox.toml"
DATABASE = "outfox.db"
SECRET_BYTES = 32


def _setting(default: str, doc: str, *, choices: tuple[str, ...] = (), secret: bool = False) -> Any:
    return field(default=default, metadata={"doc": doc, "choices": choices, "secret": secret})


@dataclass(frozen=True)
class Settings:
    """Everything that can be configured; an empty text means that the default beside `home` is used."""

    home: str = _setting("~/.outfox", "folder for everything that Outfox keeps")
    environment: str = _setting(
        "development",
        "`production` refuses a secret that was made by itself",
        choices=("development", "production"),
    )
    database_url: str = _setting("", "SQLAlchemy URL of the database; default: SQLite in `home`")
    models_dir: str = _setting("", "folder of trained models; default: `models` in `home`")
    templates_dir: str = _setting("", "folder of your own task packs; default: `templates` in `home`")
    cache_dir: str = _setting("", "folder for what can be computed again; default: `cache` in `home`")
    secret: str = _setting(
        "",
        "signs verdicts and links, at least 32 characters; several, separated by spaces, while one replaces another "
        "(the last signs); default: made once and kept in `home`",
        secret=True,
    )
    label_studio_url: str = _setting("http://127.0.0.1:8080", "address of Label Studio")
    label_studio_token: str = _setting("", "access token of the Label Studio user that owns the projects", secret=True)
    registry: str = _setting(
        "", "where model versions are pinned and served from, a folder or s3://bucket/prefix; default: `models_dir`"
    )
    archives: str = _setting(
        "", "where frozen rounds are kept, a folder or s3://bucket/prefix; default: `archives` in `home`"
    )
    ml_backend_url: str = _setting("http://127.0.0.1:9090", "address under which Label Studio reaches the ML backend")
    ml_backend_auth: str = _setting(
        "", "user:password that the ML backend asks for and Label Studio is told; default: nobody is asked", secret=True
    )
    web_url: str = _setting(
        "http://127.0.0.1:8000",
        "address of the web app (`outfox serve`), where webhooks and an ML backend on another machine post to",
    )
    crowd_url: str = _setting(
        "http://127.0.0.1:7500",
        "address of the marketplace, which speaks MTurk's protocol as `outfox marketplace` does",
    )
    crowd_site_url: str = _setting(
        "",
        "address of the site on which workers see HITs, several separated by spaces: only there can a frame show our "
        "pages, and only there do they hand in work; default: `crowd_url`",
    )
    crowd_name: str = _setting("marketplace", "what the marketplace is called in the database; never change it")
    crowd_key_id: str = _setting("", "access key id of the requester's account on the marketplace")
    crowd_key_secret: str = _setting("", "secret of that access key", secret=True)
    crowd_region: str = _setting("us-east-1", "region that requests to the marketplace are signed for")
    crowd_queue_url: str = _setting("", "SQS queue that the marketplace tells events to; default: it is only polled")
    marketplace_database: str = _setting(
        "", "database of `outfox marketplace`, a file or a SQLAlchemy URL; default: `marketplace.db` in `home`"
    )
    hit_page_url: str = _setting(
        "", "address of the page that HITs show in the marketplace's frame; default: `hits` below `web_url`"
    )
    log_level: str = _setting(
        "info", "least severe message that is logged", choices=("debug", "info", "warning", "error")
    )
    log_format: str = _setting("text", "`text` for people, `json` for machines", choices=("text", "json"))

    @property
    def home_path(self) -> Path:
        """The home folder, absolute."""
        return Path(self.home).expanduser().resolve()

    @property
    def database(self) -> str:
        """The database's URL."""
        return self.database_url or f"sqlite:///{self.home_path / DATABASE}"

    @property
    def models_path(self) -> Path:
        """Where trained models are."""
        return self._beside_home(self.models_dir, "models")

    @property
    def registry_place(self) -> str:
        """Where model versions are pinned and served from."""
        return self.registry or str(self.models_path)

    @property
    def archives_place(self) -> str:
        """Where frozen rounds are kept."""
        return self.archives or str(self.home_path / "archives")

    @property
    def hit_pages(self) -> str:
        """The address below which HITs find their pages."""
        return (self.hit_page_url or f"{self.web_url.rstrip('/')}/hits").rstrip("/")

    @property
    def backend_auth(self) -> tuple[str, str] | None:
        """The user and the password that the ML backend asks for; None where it asks nobody."""
        if not self.ml_backend_auth:
            return None
        user, _, password = self.ml_backend_auth.partition(":")
        if not (user and password):
            raise SettingsError(f"{PREFIX}ML_BACKEND_AUTH is written as user:password; correct it")
        return user, password

    @property
    def has_crowd_keys(self) -> bool:
        """Whether there is an account on a marketplace to work with."""
        return bool(self.crowd_key_id and self.crowd_key_secret)

    @property
    def shows_our_pages(self) -> bool:
        """Whether HITs show the web app's own pages, which know what was done on them."""
        return self.hit_pages == f"{self.web_url.rstrip('/')}/hits"

    @property
    def crowd_sites(self) -> tuple[str, ...]:
        """The addresses on which the marketplace shows HITs and takes them in."""
        return tuple((self.crowd_site_url or self.crowd_url).split())

    @property
    def templates_path(self) -> Path:
        """Where the owner's task packs are."""
        return self._beside_home(self.templates_dir, "templates")

    @property
    def cache_path(self) -> Path:
        """Where things are that can be computed again."""
        return self._beside_home(self.cache_dir, "cache")

    def make_home(self) -> Path:
        """The home folder, made if it is not there; nobody else may look into it."""
        try:
            self.home_path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise SettingsError(f"cannot make {self.home_path}: {error.strerror}; set {PREFIX}HOME") from error
        return self.home_path

    @property
    def secret_file(self) -> Path:
        """Where the secret is that was made by itself."""
        return self.home_path / "secret"

    def signing_secrets(self) -> tuple[str, ...]:
        """The secrets that sign; made and stored on first use, but never in production."""
        return self.kept_secrets() or (stored_secret(self.make_home() / self.secret_file.name),)

    def kept_secrets(self) -> tuple[str, ...]:
        """The secrets that are there already: none before the first use."""
        if self.secret:
            return tuple(self.secret.split())
        if self.environment == "production":
            raise SettingsError(f"production needs {PREFIX}SECRET; make one with `openssl rand -hex 32`")
        try:
            return (self.secret_file.read_text(encoding="ascii").strip(),)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise SettingsError(f"cannot read {self.secret_file}: {error.strerror}; set {PREFIX}HOME") from error

    def _beside_home(self, chosen: str, default: str) -> Path:
        return Path(chosen).expanduser().resolve() if chosen else self.home_path / default


def load_settings(environ: Mapping[str, str], *, config: Path | None = None, home: str | None = None) -> Settings:
    """The settings in force, or a SettingsError that names the setting and the cure."""
    from_file = _file_settings(environ, config, home)
    names = {one.name for one in fields(Settings)}
    from_environment = {
        key.removeprefix(PREFIX).lower(): value
        for key, value in environ.items()
        if key.startswith(PREFIX) and key != f"{PREFIX}CONFIG"
    }
    values = {**from_file, **from_environment, **({"home": home} if home else {})}
    unknown = sorted(set(values) - names)
    if unknown:
        raise SettingsError(f"there is no setting `{unknown[0]}`; `outfox config` lists them")
    for one in fields(Settings):
        choices = one.metadata["choices"]
        if choices and values.get(one.name, one.default) not in choices:
            raise SettingsError(f"setting `{one.name}` is {values[one.name]!r}; write one of {', '.join(choices)}")
    return Settings(**values)


def settings_table() -> str:
    """Every setting, as the Markdown table of docs/configuration.md."""
    lines = ["| setting | environment | default | what it is |", "|---|---|---|---|"]
    for one in fields(Settings):
        default = f"`{one.default}`" if one.default else ""
        lines.append(f"| `{one.name}` | `{PREFIX}{one.name.upper()}` | {default} | {one.metadata['doc']} |")
    return "\n".join(lines) + "\n"


def _file_settings(environ: Mapping[str, str], config: Path | None, home: str | None) -> dict[str, str]:
    """What the named file says, or the one in the home folder where there is one."""
    if config:
        return _read_file(config, "--config")
    if f"{PREFIX}CONFIG" in environ:
        return _read_file(Path(environ[f"{PREFIX}CONFIG"]), f"{PREFIX}CONFIG")
    base = home or environ.get(f"{PREFIX}HOME") or Settings().home
    default_file = Path(base).expanduser() / CONFIG_FILE
    return _read_file(default_file, "its permissions") if default_file.is_file() else {}


def _read_file(path: Path, named_by: str) -> dict[str, str]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}; check {named_by}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error
    for name, value in values.items():
        if not isinstance(value, str):
            raise SettingsError(f"{path}: setting `{name}` must be a text in quotes")
    return values


def stored_secret(path: Path, length: int = SECRET_BYTES) -> str:
    """The secret in the file, in hexadecimal; made by whoever comes first, readable by its owner only."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        if not path.is_file():
            draft.touch(mode=0o600)
            draft.write_text(secrets.token_hex(length), encoding="ascii")
            os.link(draft, path)  # Unlike a rename, a link never replaces what another process made first.
    except FileExistsError:
        pass
    except OSError as error:
        raise SettingsError(f"cannot keep a secret in {path.parent}: {error.strerror}; set {PREFIX}HOME") from error
    finally:
        draft.unlink(missing_ok=True)
    return path.read_text(encoding="ascii").strip()
