"""What every section of task.yaml is made of: frozen parts and the small types in them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Cents = Annotated[int, Field(ge=0, le=10_000_000, strict=True)]
Share = Annotated[float, Field(ge=0, le=1)]
Sentence = Annotated[str, Field(min_length=1, max_length=2_000)]


class Part(BaseModel):
    """A frozen section of task.yaml that refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)
