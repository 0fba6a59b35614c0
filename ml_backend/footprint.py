"""The memory footprint of a model, measured in a process that only loads it and predicts."""

import json
import logging
import resource
import subprocess
import sys
from pathlib import Path

from common.errors import one_line

TIMEOUT_SECONDS = 300
WORDS = 60

log = logging.getLogger(__name__)


def footprint(directory: Path) -> int | None:
    """Return the peak resident bytes of a fresh process that runs the version; None if it cannot be measured."""
    # -P: files in the current directory must not be imported.
    command = [sys.executable, "-P", "-m", "ml_backend.footprint", str(directory)]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT_SECONDS)
        return int(json.loads(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        log.warning("could not measure the memory of %s: %s", directory.name, one_line(error))
        return None


def main(directory: Path) -> None:
    """Load the version, run a batch of long rows, and print the peak resident bytes."""
    from ml_backend.artefact import read_manifest
    from ml_backend.targets.loading import load_target

    row = dict.fromkeys(read_manifest(directory).model_input, "warming up " * WORDS)
    load_target(directory).predict([row] * 8)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
