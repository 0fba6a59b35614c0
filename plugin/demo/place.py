"""The demo's place: a home that is one demo's at a time, and the addresses and keys that it keeps there.

`demo.toml` is a file of settings: `outfox --config HOME/demo.toml …` is about the demo, whatever else is configured.
"""

import fcntl
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from plugin.errors import PluginError
from plugin.labelstudio.server import HOST
from plugin.local_server import free_port
from plugin.settings import PREFIX, Settings, load_settings, stored_secret

LOCK = "demo.lock"
FILE = "demo.toml"
TOKEN_BYTES = 20
PASSWORD_BYTES = 8
# Another name than the marketplace's: browsers keep the cookies of the two sites apart.
PAGES_HOST = "localhost"
KEPT = (
    "home",
    "label_studio_url",
    "label_studio_token",
    "ml_backend_url",
    "web_url",
    "hit_page_url",
    "crowd_url",
    "crowd_key_id",
    "crowd_key_secret",
)


@dataclass(frozen=True)
class DemoPlace:
    """The settings of a demo, and the password of its owner."""

    settings: Settings
    password: str

    @property
    def home(self) -> Path:
        """Where it keeps everything."""
        return self.settings.home_path

    @property
    def config(self) -> Path:
        """The file of its settings."""
        return self.home / FILE

    def environment(self) -> dict[str, str]:
        """What its servers are started with."""
        kept = {f"{PREFIX}{name.upper()}": str(getattr(self.settings, name)) for name in KEPT}
        own = {"ML_BACKEND_AUTH": "", "CROWD_SITE_URL": "", "CROWD_QUEUE_URL": ""}
        return {**os.environ, **kept, **{f"{PREFIX}{name}": value for name, value in own.items()}}

    def with_key(self, key_id: str, secret: str) -> "DemoPlace":
        """The same with the access key of its marketplace, written down for the next start."""
        place = replace(
            self, settings=self.settings.model_copy(update={"crowd_key_id": key_id, "crowd_key_secret": secret})
        )
        place.write()
        return place

    def write(self) -> None:
        """Keeps the settings, for the next start and for other commands; only their owner can read them."""
        lines = [f"{name} = {json.dumps(str(getattr(self.settings, name)))}\n" for name in KEPT]
        draft = self.config.with_name(f".{FILE}.{os.getpid()}")
        draft.touch(mode=0o600)
        draft.write_text("".join(lines), encoding="utf-8")
        draft.replace(self.config)


def find_place(settings: Settings, port: int) -> DemoPlace:
    """The demo's place in the home that the settings name; HITs that an earlier demo posted lead to the same pages."""
    home = settings.make_home()
    kept = load_settings({}, config=home / FILE) if (home / FILE).is_file() else None
    backend, web, crowd = (_url(kept.ml_backend_url), _url(kept.web_url), _url(kept.crowd_url)) if kept else _new_urls()
    return DemoPlace(
        settings.model_copy(
            update={
                "home": str(home),
                "label_studio_url": f"http://{HOST}:{port}",
                "label_studio_token": stored_secret(home / "label-studio-token", TOKEN_BYTES),
                "ml_backend_url": backend,
                "ml_backend_auth": "",
                "web_url": web,
                "hit_page_url": f"http://{PAGES_HOST}:{port_of(web)}/hits",
                "crowd_url": crowd,
                "crowd_site_url": "",
                "crowd_queue_url": "",
                "crowd_key_id": kept.crowd_key_id if kept else "",
                "crowd_key_secret": kept.crowd_key_secret if kept else "",
            }
        ),
        stored_secret(home / "label-studio-password", PASSWORD_BYTES),
    )


class HomeLock:
    """A home is one demo's until its process ends."""

    def __init__(self, home: Path) -> None:
        self._file = (home / LOCK).open("w")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise PluginError(f"a demo runs in {home} already; end it first, or choose another --home") from error


def port_of(url: str) -> int:
    """The port of an address of the demo."""
    return int(url.rpartition(":")[2].partition("/")[0])


def _url(url: str) -> str:
    return url.rstrip("/")


def _new_urls() -> tuple[str, str, str]:
    ports: set[int] = set()
    while len(ports) < 3:
        ports.add(free_port())
    backend, web, crowd = (f"http://{HOST}:{port}" for port in sorted(ports))
    return backend, web, crowd
