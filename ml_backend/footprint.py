"""A model's footprint: the memory of a process that does nothing but load it and answer."""

import json
import logging
import resource
import subprocess
import sys
from pathlib import Path

from common.errors import one_line

SECONDS = 300
WORDS = 60

log = logging.getLogger(__name__)


def footprint(directory: Path) -> int | None:
    """The most bytes that a fresh process has resident while the version answers; None where that cannot be told."""
    # -P: whatever lies in the folder that it is started in is not ours to import.
    command = [sys.executable, "-P", "-m", "ml_backend.footprint", str(directory)]
    try:
        ran = subprocess.run(command, capture_output=True, check=True, timeout=SECONDS)
        return int(json.loads(ran.stdout))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        log.warning("the memory of %s was not measured: %s", directory.name, one_line(error))
        return None


def main(directory: Path) -> None:
    """Loads the version, asks it something long, and prints the bytes."""
    from ml_backend.artefact import read_manifest
    from ml_backend.targets.loading import load_target

    row = dict.fromkeys(read_manifest(directory).model_input, "warming up " * WORDS)
    load_target(directory).predict([row] * 8)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
