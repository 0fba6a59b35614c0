"""What runs a network: the one seam between predictors and PyTorch or ONNX Runtime."""

from collections.abc import Mapping
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

Kind = Literal["classification", "qa"]
TokenArray = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]

RUNTIMES = ("auto", "onnx", "torch")
# What a network of each kind gives, in this order.
OUTPUTS: Mapping[Kind, tuple[str, ...]] = {"classification": ("logits",), "qa": ("start_logits", "end_logits")}


class Network(Protocol):
    """A network that never changes, so that threads may share it."""

    @property
    def alone(self) -> bool:
        """Whether rows must go in one at a time, because a row's scores would hang on its neighbours'."""
        ...

    def run(self, inputs: Mapping[str, TokenArray]) -> tuple[Scores, ...]:
        """The outputs of the network's kind for a batch; a ModelError when the network cannot."""
        ...
