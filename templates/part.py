"""What every section of task.yaml is made of: frozen parts and the small types in them."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

# Controls, but for tab and line feed: pages show nothing of them, terminals obey them, and PostgreSQL refuses NUL.
_UNREADABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]")


def _readable(text: str) -> str:
    found = _UNREADABLE.search(text)
    if found:
        raise ValueError(f"has the character U+{ord(found[0]):04X} in it, which nobody can read; remove it")
    return text


Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Cents = Annotated[int, Field(ge=0, le=10_000_000, strict=True)]
Share = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, AfterValidator(_readable)]
# The length comes first: after a function of ours, pydantic tells it as that of a list.
Sentence = Annotated[str, Field(min_length=1, max_length=2_000), AfterValidator(_readable)]

Place = tuple[str | int, ...]


class Misfit(ValueError):
    """Settings that do not fit each other: their places below the section that says so, the one to change first."""

    def __init__(self, text: str, *places: Place) -> None:
        super().__init__(text)
        self.places = places


class Part(BaseModel):
    """A frozen section of task.yaml that refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)
