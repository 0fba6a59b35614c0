"""Model cards: the README.md of a model's folder, which is stored with its evaluations.

The folder may be a stranger's: a card is read only if it is a plain file in the folder itself, and only its beginning.
"""

import os
import stat
from pathlib import Path

from ml_backend.manifest import CARD

MOST_BYTES = 1 << 16
# The model hub's cache has links to files beside the folder.
_SNAPSHOTS, _BLOBS = "snapshots", "blobs"


def read_card_of(directory: Path) -> str:
    """Return the card in a model's folder, empty if there is none that may be read."""
    path = directory / CARD
    if path.is_symlink():
        target = path.resolve()
        hub = directory.resolve().parent
        if hub.name != _SNAPSHOTS or target.parent != hub.parent / _BLOBS:
            return ""
        path = target
    try:
        # Neither a link that appeared since nor a pipe, which would wait for a writer.
        found = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    with os.fdopen(found, "rb") as file:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            return ""
        return file.read(MOST_BYTES).decode("utf-8", "replace").replace("\0", "")
