"""A disk that is full: the kernel refuses larger files."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(most_bytes: int) -> Iterator[None]:
    """Limit the size of the files that this process writes, until the end of the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
