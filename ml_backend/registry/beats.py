"""Beats: what every serving process tells the others, so that a rotation knows who must follow it."""

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ml_backend.registry.errors import RegistryError
from templates.part import Name

MAX_BYTES = 100_000
FOLDER = ".beats"

_Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,200}$")]


class _Part(BaseModel):
    # A newer version of this program may tell more.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Failure(_Part):
    """Pins that the process could not load; it goes on with what it had, and with `retry` tries again soon."""

    round: int | None
    error: str = Field(max_length=2_000)
    retry: bool


class Served(_Part):
    """How far the process has followed a task's pins: to which generation of which book; 0: it serves nothing yet."""

    book: str = Field(default="", max_length=100)
    generation: int = Field(ge=0)
    failures: tuple[Failure, ...] = ()

    def failure(self, round: int | None) -> Failure | None:
        """Why the process could not load what is pinned for the round, or None."""
        return next((failure for failure in self.failures if failure.round == round), None)


class Beat(_Part):
    """One serving process: who it is, what it serves, and how many seconds this news holds."""

    id: _Word
    host: str = Field(max_length=500)
    pid: int
    started: str = Field(max_length=50)
    lease: float = Field(gt=0)
    tasks: Mapping[Name, Served]

    @classmethod
    def read(cls, content: bytes, where: str) -> Self:
        """The beat in a file, or a RegistryError that names the file."""
        try:
            if len(content) > MAX_BYTES:
                raise RegistryError(f"{where} is too large to be right; remove it")
            return cls.model_validate(json.loads(content))
        except (ValueError, RecursionError, ValidationError) as error:
            raise RegistryError(f"{where} is not what a serving process tells; remove it") from error

    def written(self) -> bytes:
        """The beat as a file's content."""
        return self.model_dump_json().encode()

    def is_gone(self, age: float) -> bool:
        """Whether the process lives no more, as far as one can know: on this host by its pid, elsewhere by its silence.

        A process of this host that is there counts however silent it is: it may still answer with what it has.
        """
        if self.host == this_host():
            return _started(self.pid) != self.started
        return age > self.lease

    @property
    def name(self) -> str:
        """The process in words."""
        return f"process {self.pid} on {self.host.partition('/')[0]}"


@dataclass(frozen=True)
class Process:
    """This process, as its beats name it."""

    host: str
    pid: int
    started: str

    @classmethod
    def this(cls) -> Self:
        """The one that asks."""
        return cls(this_host(), os.getpid(), _started(os.getpid()) or "")


def this_host() -> str:
    """This machine, or this container of it: only here do process ids mean something."""
    try:
        # Two containers can share a host's name, and then not its process ids.
        space = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        space = ""
    return f"{socket.gethostname()}/{space}"


def _started(pid: int) -> str | None:
    """When the process started, so that another one that was given its pid is not taken for it; None if it is gone."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "" if not Path("/proc/self/stat").exists() and _answers(pid) else None
    except OSError:
        return None
    # The name of the program, in brackets, may hold anything; the state and the rest come after it.
    state, *rest = told.rpartition(")")[2].split()
    return None if state in "ZX" else rest[18]


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
