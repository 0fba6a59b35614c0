"""The demo's home: a folder that one demo at a time uses, with its addresses and keys in `demo.toml`.

`outfox --config HOME/demo.toml …` runs a command on the demo, whatever else is configured.
"""

import fcntl
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from mturk.marketplace.destinations import LOOPBACK
from plugin.errors import PluginError
from plugin.labelstudio.server import HOST
from plugin.server_process import free_port
from plugin.settings import DEMO_FILE, PREFIX, Settings, load_settings, stored_secret

LOCK = "demo.lock"
FILE = DEMO_FILE
TOKEN_BYTES = 20
PASSWORD_BYTES = 8
BACKEND_USER = "outfox"
# Not the host name of the marketplace, so that browsers keep the cookies of the two sites apart.
PAGES_HOST = "localhost"
STORED = (
    "home",
    "label_studio_url",
    "label_studio_token",
    "ml_backend_url",
    "ml_backend_auth",
    "web_url",
    "hit_page_url",
    "crowd_url",
    "crowd_key_id",
    "crowd_key_secret",
)


@dataclass(frozen=True)
class DemoHome:
    """The settings of a demo, and the password of its owner."""

    settings: Settings
    password: str

    @property
    def folder(self) -> Path:
        """The folder that holds everything."""
        return self.settings.home_path

    @property
    def config(self) -> Path:
        """The file with its settings."""
        return self.folder / FILE

    def environment(self) -> dict[str, str]:
        """Return the environment of its servers."""
        stored = {f"{PREFIX}{name.upper()}": str(getattr(self.settings, name)) for name in STORED}
        own = {
            "CROWD_SITE_URL": "",
            "CROWD_QUEUE_URL": "",
            # Everything in a demo is on this machine, so a queue for events is too.
            "MARKETPLACE_QUEUE_NETWORKS": LOOPBACK,
        }
        return {**os.environ, **stored, **{f"{PREFIX}{name}": value for name, value in own.items()}}

    def with_key(self, key_id: str, secret: str) -> "DemoHome":
        """Return the home with the access key of its marketplace, and store it for the next start."""
        home = replace(
            self, settings=self.settings.model_copy(update={"crowd_key_id": key_id, "crowd_key_secret": secret})
        )
        home.write()
        return home

    def write(self) -> None:
        """Store the settings for the next start and for other commands, readable by their owner only."""
        lines = [f"{name} = {json.dumps(str(getattr(self.settings, name)))}\n" for name in STORED]
        draft = self.config.with_name(f".{FILE}.{os.getpid()}")
        draft.touch(mode=0o600)
        draft.write_text("".join(lines), encoding="utf-8")
        draft.replace(self.config)


def find_home(settings: Settings, port: int) -> DemoHome:
    """Return the demo in the home of the settings; its addresses stay, because posted HITs link to them."""
    home = settings.make_home()
    stored = load_settings({}, config=home / FILE) if (home / FILE).is_file() else None
    backend, web, crowd = (
        (_url(stored.ml_backend_url), _url(stored.web_url), _url(stored.crowd_url)) if stored else _new_urls()
    )
    return DemoHome(
        settings.model_copy(
            update={
                "home": str(home),
                "label_studio_url": f"http://{HOST}:{port}",
                "label_studio_token": stored_secret(home / "label-studio-token", TOKEN_BYTES),
                "ml_backend_url": backend,
                # Or any page in the owner's browser could send the backend attempts.
                "ml_backend_auth": f"{BACKEND_USER}:{stored_secret(home / 'ml-backend-password', PASSWORD_BYTES)}",
                "web_url": web,
                "hit_page_url": f"http://{PAGES_HOST}:{port_of(web)}/hits",
                "crowd_url": crowd,
                "crowd_site_url": "",
                "crowd_queue_url": "",
                "crowd_key_id": stored.crowd_key_id if stored else "",
                "crowd_key_secret": stored.crowd_key_secret if stored else "",
            }
        ),
        stored_secret(home / "label-studio-password", PASSWORD_BYTES),
    )


class DemoRunning(PluginError):
    """Another demo is running in this home."""


class HomeLock:
    """Locks a home until the process ends."""

    def __init__(self, home: Path) -> None:
        self._file = (home / LOCK).open("w")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise DemoRunning(f"a demo is already running in {home}; stop it first, or choose another home") from error


def port_of(url: str) -> int:
    """Return the port of an address of the demo."""
    return int(url.rpartition(":")[2].partition("/")[0])


def _url(url: str) -> str:
    return url.rstrip("/")


def _new_urls() -> tuple[str, str, str]:
    ports: set[int] = set()
    while len(ports) < 3:
        ports.add(free_port())
    backend, web, crowd = (f"http://{HOST}:{port}" for port in sorted(ports))
    return backend, web, crowd
