"""Heartbeats: each serving process reports what it serves, so that a rotation knows which processes must follow it."""

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ml_backend.errors import RegistryCorrupt
from templates.sections import Name

MAX_BYTES = 100_000
FOLDER = ".beats"

_Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,200}$")]


@dataclass(frozen=True)
class Timing:
    """How often, in seconds, a registry is polled and written to, and how long a heartbeat is valid."""

    poll: float
    wait: float
    heartbeat: float
    lease: float


class _Part(BaseModel):
    # A newer version of this program may report more fields.
    model_config = ConfigDict(frozen=True, extra="ignore")


class PinFailure(_Part):
    """Pins that a process could not load; it keeps its old models and, with `retry`, tries again soon."""

    round: int | None
    error: str = Field(max_length=2_000)
    retry: bool


class FollowedPins(_Part):
    """The generation up to which a process follows a task's pins; 0 while it serves nothing yet.

    `book` is the id of the PinSet: a pin set that was deleted and recreated counts its generations anew.
    """

    book: str = Field(default="", max_length=100)
    generation: int = Field(ge=0)
    failures: tuple[PinFailure, ...] = ()

    def failure(self, round: int | None) -> PinFailure | None:
        """Return why the process could not load the pins of the round, if it could not."""
        return next((failure for failure in self.failures if failure.round == round), None)


class Heartbeat(_Part):
    """One serving process: its identity, what it serves, and for how many seconds the report is valid."""

    id: _Word
    host: str = Field(max_length=500)
    pid: int
    started: str = Field(max_length=50)
    lease: float = Field(gt=0)
    tasks: Mapping[Name, FollowedPins]

    @classmethod
    def read(cls, content: bytes, where: str) -> Self:
        """Parse a heartbeat file; raise RegistryCorrupt, naming the file, if it is invalid."""
        try:
            if len(content) > MAX_BYTES:
                raise RegistryCorrupt(f"{where} is too large for a heartbeat; remove it")
            return cls.model_validate(json.loads(content))
        except (ValueError, RecursionError, ValidationError) as error:
            raise RegistryCorrupt(f"{where} is not a heartbeat file; remove it") from error

    def written(self) -> bytes:
        """Return the content of the heartbeat file."""
        return self.model_dump_json().encode()

    def is_gone(self, age: float) -> bool:
        """Return whether the process has ended: on this host by its pid, elsewhere by the age of its last heartbeat.

        A live process of this host counts even if it is silent: it may still answer with the models it has.
        """
        if self.host == this_host():
            return _started(self.pid) != self.started
        return age > self.lease

    @property
    def name(self) -> str:
        """The process as messages name it."""
        return f"process {self.pid} on {self.host.partition('/')[0]}"


@dataclass(frozen=True)
class ProcessIdentity:
    """A process as its heartbeats identify it."""

    host: str
    pid: int
    started: str

    @classmethod
    def this(cls) -> Self:
        """Return the identity of the calling process."""
        return cls(this_host(), os.getpid(), _started(os.getpid()) or "")


def this_host() -> str:
    """Return a name for this machine and pid namespace: process ids are only comparable within one."""
    try:
        # Two containers can share a host name without sharing process ids.
        space = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        space = ""
    return f"{socket.gethostname()}/{space}"


def _started(pid: int) -> str | None:
    """Return the start time of a process, to recognise a later one with the same pid; None if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "" if not Path("/proc/self/stat").exists() and _exists(pid) else None
    except OSError:
        return None
    # The program's name, in parentheses, may contain anything; the state and the other fields follow it.
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in "ZX" else rest[18]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
