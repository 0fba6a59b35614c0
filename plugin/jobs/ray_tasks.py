"""Work on all machines of a Ray cluster: each item is one task. The only module that imports Ray."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from common.errors import one_line
from plugin.errors import ClusterJobFailed, RayNotInstalled

# How often Ray runs a task again whose machine or process was lost.
RETRIES = 2


def run_tasks(function: Callable[..., str], calls: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the results of a function for these arguments as they arrive, from inside a job of the cluster.

    Each task reserves one processor, and a GPU if the cluster has one. Ray sets OMP_NUM_THREADS to 1 there. `function`
    must be importable on every machine.
    """
    # Ray combines similar lines of several processes by default; each one counts here.
    os.environ["RAY_DEDUP_LOGS"] = "0"
    try:
        import ray
    except ImportError as error:
        raise RayNotInstalled("Ray is not installed beside Outfox on this machine of the cluster") from error
    try:
        ray.init(address="auto", logging_level=logging.WARNING)
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        gpus = int(resources.get("GPU", 0) >= 1)
        task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)(function)
        waiting = [task.remote(*arguments) for arguments in calls]
        while waiting:
            (ended,), waiting = ray.wait(waiting, num_returns=1)
            yield ray.get(ended)
    except (ray.exceptions.RayError, ConnectionError) as error:
        raise ClusterJobFailed(f"a task on the cluster was lost: {one_line(error)}", retry=True) from error
    finally:
        ray.shutdown()
