"""Configuration: one immutable object, read once from the environment and a TOML file.

The environment wins over the file, the file over the defaults. docs/configuration.md is generated from the fields here.
"""

import hashlib
import os
import secrets
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from common.errors import Hint
from plugin.errors import SettingsError, UnknownSetting

if TYPE_CHECKING:
    from common.database_engine import DatabaseLimits

PREFIX = "OUTFOX_"
CONFIG_FILE = "outfox.toml"
# The settings of a demo, in its home; `make demo` uses this folder of the project.
DEMO_FILE = "demo.toml"
DEMO_HOME = Path(".outfox", "demo")
DATABASE = "outfox.db"
SECRET_BYTES = 32


def _setting(default: str, description: str, *, secret: bool = False) -> Any:
    return Field(default=default, description=description, json_schema_extra={"secret": secret})


def _number(default: float, least: float, most: float, description: str) -> Any:
    """Return a number; not strict, because the environment has only texts."""
    extra: dict[str, Any] = {"secret": False}
    return Field(default=default, ge=least, le=most, strict=False, description=description, json_schema_extra=extra)


class Settings(BaseSettings):
    """Every setting. An empty text means the default, usually a place below `home`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True, strict=True)

    home: str = _setting("~/.outfox", "folder for everything that Outfox stores")
    environment: Literal["development", "production"] = _setting(
        "development", "`production` refuses to start with a generated secret"
    )
    database_url: str = _setting("", "SQLAlchemy URL of the database; default: SQLite in `home`")
    database_connections: int = _number(20, 1, 1_000, "most database connections of one process")
    database_connect_seconds: float = _number(
        3.0, 2, 60, "how long a new connection to PostgreSQL may take, for each address of the server"
    )
    database_request_seconds: float = _number(
        5.0,
        0.1,
        60,
        "how long a request to a server may wait for a connection, for a lock and for each statement; then it is "
        "answered with 503",
    )
    database_job_seconds: float = _number(
        600.0, 1, 86_400, "how long a statement of the manager or of a command may take; upgrades have no limit"
    )
    models_dir: str = _setting("", "folder of trained models; default: `models` in `home`")
    templates_dir: str = _setting("", "folder of your own task packs; default: `templates` in `home`")
    cache_dir: str = _setting("", "folder for files that can be computed again; default: `cache` in `home`")
    secret: str = _setting(
        "",
        "signs verdicts and links, at least 32 characters; to replace it, list several separated by spaces "
        "(the last one signs); default: generated once and stored in `home`",
        secret=True,
    )
    jobs_runner: Literal["local", "ray"] = _setting(
        "local",
        "where trainings of the manager and evaluations run: `local` on this machine, `ray` on a Ray cluster, which "
        "needs `registry` and `archives` that all its machines reach",
    )
    jobs_address: str = _setting("", "address of the Ray cluster's dashboard, such as `http://head:8265`")
    jobs_config: str = _setting(
        "", "settings file on the cluster's machines; default: the settings in the environment in which Ray was started"
    )
    jobs_token: str = _setting("", "token of a Ray cluster that requires one", secret=True)
    label_studio_url: str = _setting("http://127.0.0.1:8080", "address of Label Studio")
    label_studio_token: str = _setting("", "access token of the Label Studio user that owns the projects", secret=True)
    registry: str = _setting(
        "", "where model versions are pinned and served from, a folder or s3://bucket/prefix; default: `models_dir`"
    )
    archives: str = _setting(
        "", "where frozen rounds are stored, a folder or s3://bucket/prefix; default: `archives` in `home`"
    )
    submissions_dir: str = _setting(
        "",
        "folder of models that researchers submit, which `outfox serve` and `outfox manage` share; default: "
        "`submissions` in `home`",
    )
    ml_backend_url: str = _setting("http://127.0.0.1:9090", "address at which Label Studio reaches the ML backend")
    ml_backend_auth: str = _setting(
        "", "user:password that the ML backend requires and Label Studio sends; default: no password", secret=True
    )
    web_url: str = _setting(
        "http://127.0.0.1:8000",
        "address of the web app (`outfox serve`); webhooks and ML backends on other machines post to it",
    )
    web_proxies: int = _number(
        0,
        0,
        9,
        "number of trusted reverse proxies in front of the web app: a client's address is that many entries from the "
        "end of `X-Forwarded-For`; with 0 the header is ignored",
    )
    crowd_kind: Literal["marketplace", "mturk"] = _setting(
        "marketplace",
        "kind of the crowd: `marketplace` is `outfox marketplace`, which proves who accepted a HIT; `mturk` is any "
        "other marketplace that speaks MTurk's protocol, whose pages get limits instead",
    )
    crowd_url: str = _setting(
        "http://127.0.0.1:7500",
        "address of the marketplace, which speaks MTurk's protocol as `outfox marketplace` does",
    )
    crowd_site_url: str = _setting(
        "",
        "addresses of the sites on which workers see HITs, separated by spaces; only these sites may frame our pages "
        "and receive submissions; default: `crowd_url`",
    )
    crowd_name: str = _setting("marketplace", "name of the marketplace in the database; never change it")
    crowd_key_id: str = _setting("", "access key id of the requester's account on the marketplace")
    crowd_key_secret: str = _setting(
        "", "secret of that access key; `outfox serve` also checks proofs of acceptance with it", secret=True
    )
    crowd_region: str = _setting("us-east-1", "region that requests to the marketplace are signed for")
    crowd_queue_url: str = _setting(
        "", "SQS queue to which the marketplace sends events; default: the marketplace is polled"
    )
    marketplace_database: str = _setting(
        "", "database of `outfox marketplace`, a file or a SQLAlchemy URL; default: `marketplace.db` in `home`"
    )
    marketplace_queue_networks: str = _setting(
        "",
        "private networks, separated by spaces, to which `outfox marketplace` may send requesters' events, such as "
        "`127.0.0.0/8 10.1.0.0/16`; default: none, so that requesters cannot reach into your network",
    )
    hit_page_url: str = _setting(
        "", "address of the page that HITs show in the marketplace's frame; default: `hits` below `web_url`"
    )
    log_level: Literal["debug", "info", "warning", "error"] = _setting("info", "lowest severity that is logged")
    log_format: Literal["text", "json"] = _setting("text", "`text` for people, `json` for machines")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take values from the caller only: `load_settings` decides which sources are read."""
        return (init_settings,)

    @property
    def home_path(self) -> Path:
        """The home folder as an absolute path."""
        return Path(self.home).expanduser().resolve()

    @property
    def database(self) -> str:
        """The URL of the database."""
        return self.database_url or f"sqlite:///{self.home_path / DATABASE}"

    @property
    def installation_id(self) -> str:
        """Distinguishes this installation from others with the same tasks; it follows from its places only."""
        url = urlsplit(self.database)
        # Without the password, which may be replaced.
        parts = (url.scheme, url.hostname, url.port, url.path, self.registry_location, self.archives_location)
        return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:8]

    @property
    def request_limits(self) -> "DatabaseLimits":
        """How long a request to a server waits for its database."""
        seconds = self.database_request_seconds
        return self._limits(lock=seconds, statement=seconds)

    @property
    def job_limits(self) -> "DatabaseLimits":
        """How long the manager or a command waits for the database."""
        return self._limits(statement=self.database_job_seconds)

    def _limits(self, **seconds: float) -> "DatabaseLimits":
        # Imported here: it loads SQLAlchemy, which most commands do not need to start.
        from common.database_engine import DatabaseLimits

        return DatabaseLimits(self.database_connections, self.database_connect_seconds, **seconds)

    @property
    def models_path(self) -> Path:
        """The folder of trained models."""
        return self._below_home(self.models_dir, "models")

    @property
    def registry_location(self) -> str:
        """The folder or S3 address of the model registry."""
        return self.registry or str(self.models_path)

    @property
    def archives_location(self) -> str:
        """The folder or S3 address of frozen rounds."""
        return self.archives or str(self.home_path / "archives")

    @property
    def hit_pages(self) -> str:
        """The address below which HITs find their pages."""
        return (self.hit_page_url or f"{self.web_url.rstrip('/')}/hits").rstrip("/")

    @property
    def backend_auth(self) -> tuple[str, str] | None:
        """The user and password that the ML backend requires, or None."""
        return split_auth(self.ml_backend_auth, f"{PREFIX}ML_BACKEND_AUTH") if self.ml_backend_auth else None

    @property
    def has_crowd_keys(self) -> bool:
        """Whether the settings name an account on a marketplace."""
        return bool(self.crowd_key_id and self.crowd_key_secret)

    @property
    def serves_hit_pages(self) -> bool:
        """Whether HITs show the pages of this web app, which records what workers do on them."""
        return self.hit_pages == f"{self.web_url.rstrip('/')}/hits"

    @property
    def crowd_sites(self) -> tuple[str, ...]:
        """The sites on which the marketplace shows HITs and accepts submissions."""
        return tuple((self.crowd_site_url or self.crowd_url).split())

    @property
    def submissions_path(self) -> Path:
        """The folder of submitted models."""
        return self._below_home(self.submissions_dir, "submissions")

    @property
    def templates_path(self) -> Path:
        """The folder of the owner's task packs."""
        return self._below_home(self.templates_dir, "templates")

    @property
    def cache_path(self) -> Path:
        """The folder of files that can be computed again."""
        return self._below_home(self.cache_dir, "cache")

    def make_home(self) -> Path:
        """Return the home folder; create it if needed, readable by its owner only."""
        try:
            self.home_path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise SettingsError(f"cannot create {self.home_path}: {error.strerror}; set {PREFIX}HOME") from error
        return self.home_path

    @property
    def secret_file(self) -> Path:
        """The file of the generated secret."""
        return self.home_path / "secret"

    def signing_secrets(self) -> tuple[str, ...]:
        """Return the signing secrets; generate one on first use, except in production."""
        return self.existing_secrets() or (stored_secret(self.make_home() / self.secret_file.name),)

    def existing_secrets(self) -> tuple[str, ...]:
        """Return the signing secrets that exist; empty before the first use."""
        if self.secret:
            return tuple(self.secret.split())
        if self.environment == "production":
            raise SettingsError(f"production requires {PREFIX}SECRET; generate one with `openssl rand -hex 32`")
        try:
            return (self.secret_file.read_text(encoding="ascii").strip(),)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise SettingsError(f"cannot read {self.secret_file}: {error.strerror}; set {PREFIX}HOME") from error

    def _below_home(self, chosen: str, default: str) -> Path:
        return Path(chosen).expanduser().resolve() if chosen else self.home_path / default


class _Environment(EnvSettingsSource):
    """The settings among the given environment variables."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        super().__init__(Settings)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {name.lower(): value for name, value in self._environ.items()}


def load_settings(environ: Mapping[str, str], *, config: Path | None = None, home: str | None = None) -> Settings:
    """Return the settings in force; raise a SettingsError that names an invalid one."""
    names = {name.removeprefix(PREFIX).lower() for name in environ if name.startswith(PREFIX)}
    unknown = sorted(names - set(Settings.model_fields) - {"config"})
    if unknown:
        raise _unknown(unknown[0])
    values = {
        **_file_settings(environ, config, home),
        **_Environment(environ)(),
        **({"home": home} if home else {}),
    }
    try:
        return Settings(**values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        if first["type"] == "extra_forbidden":
            raise _unknown(name) from error
        raise SettingsError(f"setting `{name}` is {values[name]!r}: {first['msg']}") from error


def split_auth(text: str, where: str) -> tuple[str, str]:
    """Return the user and the password of a text; `where` names its place in the error."""
    user, _, password = text.partition(":")
    if not (user and password):
        raise SettingsError(f"{where} must have the form user:password")
    return user, password


def settings_table() -> str:
    """Return every setting as the Markdown table of docs/configuration.md."""
    lines = ["| setting | environment | default | what it is |", "|---|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = "" if field.default == "" else f"`{field.default}`"
        lines.append(f"| `{name}` | `{PREFIX}{name.upper()}` | {default} | {field.description} |")
    return "\n".join(lines) + "\n"


def is_secret(name: str) -> bool:
    """Return whether a setting's value must not be shown."""
    extra = Settings.model_fields[name].json_schema_extra
    return isinstance(extra, dict) and bool(extra["secret"])


def _unknown(name: str) -> SettingsError:
    return UnknownSetting(f"unknown setting `{name}`", hint=Hint("list_settings"))


def _file_settings(environ: Mapping[str, str], config: Path | None, home: str | None) -> dict[str, Any]:
    """Return the values of the named file, or of the one in the home folder, which may be a demo's."""
    if config:
        return _read_file(config, "--config")
    if f"{PREFIX}CONFIG" in environ:
        return _read_file(Path(environ[f"{PREFIX}CONFIG"]), f"{PREFIX}CONFIG")
    base = home or environ.get(f"{PREFIX}HOME") or str(Settings.model_fields["home"].default)
    files = (Path(base).expanduser() / name for name in (CONFIG_FILE, DEMO_FILE))
    found = next((file for file in files if file.is_file()), None)
    return _read_file(found, "its permissions") if found else {}


def find_demo(environ: Mapping[str, str], folder: Path) -> Path | None:
    """Return the settings of the demo that `make demo` keeps in the folder or one above, unless there are others.

    Other settings are any in the environment, and a file or a database in the default home. A file of another user is
    ignored: it could name servers of theirs.
    """
    home = Path(str(Settings.model_fields["home"].default)).expanduser()
    own = any(name.startswith(PREFIX) for name in environ) or any(
        (home / name).exists() for name in (CONFIG_FILE, DEMO_FILE, DATABASE)
    )
    files = () if own else (parent / DEMO_HOME / DEMO_FILE for parent in (folder, *folder.parents))
    return next((file for file in files if file.is_file() and file.stat().st_uid == os.geteuid()), None)


def _read_file(path: Path, named_by: str) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}; check {named_by}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error


def stored_secret(path: Path, length: int = SECRET_BYTES) -> str:
    """Return the hexadecimal secret in the file; the first process to ask generates it, readable by its owner only."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        if not path.is_file():
            draft.touch(mode=0o600)
            draft.write_text(secrets.token_hex(length), encoding="ascii")
            os.link(draft, path)  # Unlike a rename, a link never replaces what another process created first.
    except FileExistsError:
        pass
    except OSError as error:
        raise SettingsError(f"cannot store a secret in {path.parent}: {error.strerror}; set {PREFIX}HOME") from error
    finally:
        draft.unlink(missing_ok=True)
    return path.read_text(encoding="ascii").strip()
