"""The user and password of the ML backend, for its own command and for `labelstudio connect`."""

from pathlib import Path

from plugin.errors import PluginError
from plugin.settings import Settings

LONGEST_FILE = 1_000


def backend_auth(settings: Settings, path: Path | None) -> tuple[str, str] | None:
    """Return the user and password from the file, or else from the settings; None if no password is required."""
    given = settings.ml_backend_auth
    if path is not None:
        try:
            with path.open(encoding="utf-8") as file:
                given = file.read(LONGEST_FILE).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise PluginError(f"cannot read {path}; write user:password into it") from error
    elif not given:
        return None
    user, _, password = given.partition(":")
    if not (user and password):
        raise PluginError(f"the ML backend's user and password are written as user:password; correct {path or 'them'}")
    return user, password
