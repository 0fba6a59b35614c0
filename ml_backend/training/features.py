"""What the output layer of a frozen network sees, text by text."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence

import torch
from torch import nn
from transformers import PreTrainedModel

from ml_backend.encoding import TextEncoder, Tokens
from ml_backend.errors import ModelError
from ml_backend.targets.torch_runtime import batch_of
from ml_backend.training.feature_cache import FeatureCache, Features
from ml_backend.training.progress import Watch
from ml_backend.training.start import fingerprint_parts, output_layer

ROWS_IN_A_PASS = 32
TOKENS_IN_A_PASS = 4_096

_NOT_ABOUT_FEATURES = frozenset({"id2label", "label2id", "problem_type", "transformers_version"})


class FrozenNetwork:
    """A network whose layers before the last are not trained, with a cache of what they say."""

    def __init__(self, network: PreTrainedModel, encoder: TextEncoder, cache: FeatureCache) -> None:
        self._network = network
        self._encoder = encoder
        self._cache = cache
        self._fingerprint = _fingerprint(network)

    def keys(self, texts: Sequence[Tokens]) -> list[bytes]:
        """Under which key the cache has the features of each text: of this network, and these very tokens."""
        return [
            hashlib.sha256(self._fingerprint + repr((list(text.ids), list(text.type_ids))).encode("ascii")).digest()
            for text in texts
        ]

    def read(self, texts: Sequence[Tokens], watch: Watch) -> list[bytes]:
        """See to it that the cache has the features of every text; their keys."""
        keys = self.keys(texts)
        missing = self._cache.missing(keys)
        todo = {key: text for key, text in zip(keys, texts, strict=True) if key in missing}
        watch.start(len(todo), "reading the rows")
        for batch in _equal_lengths(list(todo.items())):
            self._cache.put(zip([key for key, _ in batch], self._features([text for _, text in batch]), strict=True))
            watch.step(len(batch))
        watch.finish()
        return keys

    def _features(self, batch: list[Tokens]) -> list[Features]:
        seen: list[torch.Tensor] = []

        def look(_: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
            seen.append(inputs[0])

        hook = output_layer(self._network).register_forward_pre_hook(look)
        try:
            with torch.inference_mode():
                self._network(**batch_of(self._encoder, batch))
        finally:
            hook.remove()
        if len(seen) != 1 or len(seen[0]) != len(batch):
            raise ModelError(f"{type(self._network).__name__} cannot be trained in head mode; use mode full")
        return [row.reshape(-1, row.shape[-1]).numpy() for row in seen[0]]


def _equal_lengths(todo: list[tuple[bytes, Tokens]]) -> Iterator[list[tuple[bytes, Tokens]]]:
    """Batches without any padding: what is said of a text then does not depend on its neighbours."""
    groups: dict[int, list[tuple[bytes, Tokens]]] = defaultdict(list)
    for one in todo:
        groups[len(one[1])].append(one)
    for length, group in sorted(groups.items()):
        size = max(1, min(ROWS_IN_A_PASS, TOKENS_IN_A_PASS // length))
        yield from (group[first : first + size] for first in range(0, len(group), size))


def _fingerprint(network: PreTrainedModel) -> bytes:
    config = {key: value for key, value in network.config.to_dict().items() if key not in _NOT_ABOUT_FEATURES}
    digest = hashlib.sha256(f"{type(network).__name__} {json.dumps(config, sort_keys=True, default=str)}".encode())
    for part in fingerprint_parts(network):
        digest.update(part.contiguous().numpy().tobytes())
    return digest.digest()
