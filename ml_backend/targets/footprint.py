"""The memory of a process that only answers: a fresh one, which loads a model, answers rows and reports its peak."""

import json
import logging
import resource
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

from common.errors import one_line
from ml_backend.artefact import read_manifest
from ml_backend.errors import MemoryNotMeasured
from ml_backend.sandbox.process import SandboxLimits
from ml_backend.targets.sandboxed import SandboxedTarget
from ml_backend.targets.sources import ModelSource
from ml_backend.targets.target import Row, Target

SECONDS = 600
STATUS = Path("/proc/self/status")
# The peak of this process alone; ru_maxrss would be that of its parent where that is higher.
PEAK = "VmHWM:"
LONG_TEXT = "warming up " * 60
LONG_ROWS = 8

log = logging.getLogger(__name__)


def peak_bytes(source: ModelSource, rows: Sequence[Row] = ()) -> int | None:
    """Return the peak resident bytes of a fresh process that answers these rows, by default a few long ones.

    None if the model runs elsewhere. Raise MemoryNotMeasured where the process fails; a stranger's model raises what
    its target raises.
    """
    if source.limits is not None:
        return _sandboxed_peak_bytes(source, source.limits, rows)
    directory = Path(source.directory)
    if source.kind == "version" and not read_manifest(directory).files:
        return None
    order = json.dumps({"source": source.to_json(), "rows": [dict(row) for row in rows]})
    # -P: files in the current directory must not be imported.
    command = [sys.executable, "-P", "-m", "ml_backend.targets.footprint"]
    try:
        done = subprocess.run(command, input=order.encode(), capture_output=True, check=True, timeout=SECONDS)
        return int(json.loads(done.stdout))
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"exit code {error.returncode}"]
        raise MemoryNotMeasured(f"could not measure the memory of {source.version}: {last[0][:200]}") from error
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise MemoryNotMeasured(f"could not measure the memory of {source.version}: {one_line(error)}") from error


def _sandboxed_peak_bytes(source: ModelSource, limits: SandboxLimits, rows: Sequence[Row]) -> int:
    """Return what the system counts for the process in a sandbox: a stranger's model does not report its own peak."""
    bounded = replace(limits, seconds=min(limits.seconds, SECONDS))
    with closing(SandboxedTarget(asdict(replace(source, limits=None)), bounded)) as target:
        target.predict(rows)
        return target.peak_bytes()


def version_peak_bytes(directory: Path) -> int | None:
    """Return the peak of a version's folder; None if it runs elsewhere or cannot be measured."""
    manifest = read_manifest(directory)
    fields, labels = tuple(manifest.model_input), tuple(manifest.labels)
    try:
        return peak_bytes(ModelSource("version", str(directory), manifest.version, manifest.kind, fields, labels))
    except MemoryNotMeasured as error:
        log.warning("%s", error)
        return None


def own_peak_bytes() -> int:
    """Return the peak resident bytes of this process since it was started."""
    try:
        lines = STATUS.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1_024 for line in lines if line.startswith(PEAK))
    except (OSError, StopIteration):
        # Systems without /proc; macOS counts bytes.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1_024


def _long_rows(target: Target) -> list[Row]:
    row = dict.fromkeys(target.capabilities.fields, LONG_TEXT)
    return [row] * min(LONG_ROWS, target.capabilities.batch_size)


def main() -> None:
    """Open the model that standard input names, answer its rows, and print the peak."""
    order = json.load(sys.stdin)
    target = ModelSource.from_json(order["source"]).open()
    target.predict(order["rows"] or _long_rows(target))
    print(own_peak_bytes())


if __name__ == "__main__":
    main()
