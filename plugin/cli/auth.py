"""The user and password of the ML backend, as its own command and `labelstudio connect` are told them."""

from pathlib import Path

from plugin.errors import PluginError
from plugin.settings import Settings

LONGEST_FILE = 1_000


def backend_auth(settings: Settings, path: Path | None) -> tuple[str, str] | None:
    """The user and the password in the file, or else in the settings; None where nobody is to be asked."""
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
