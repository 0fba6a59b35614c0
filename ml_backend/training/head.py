"""Head mode for classification: logistic regression on what the frozen network says, put in as its output layer."""

from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedModel

from ml_backend.encoding import TextEncoder
from ml_backend.evaluation import headline, label_metrics
from ml_backend.targets.target import LabelPrediction
from ml_backend.training.data import TrainingData
from ml_backend.training.examples import texts_of
from ml_backend.training.feature_cache import FeatureCache, Features, Floats
from ml_backend.training.features import FrozenNetwork
from ml_backend.training.logistic import fit_logistic
from ml_backend.training.progress import Watch
from ml_backend.training.start import output_layer
from templates.spec import TrainingSettings

# From a head that dares little to one that believes every row; the held-out part chooses.
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


def fit_label_head(
    network: PreTrainedModel,
    encoder: TextEncoder,
    data: TrainingData,
    settings: TrainingSettings,
    cache: Path,
    watch: Watch,
) -> None:
    """Give the network the output layer that does best on the held-out part."""
    names = data.spec.label_names
    store = FeatureCache(cache, output_layer(network).in_features)
    frozen = FrozenNetwork(network, encoder, store)
    keys = frozen.read(texts_of((*data.train, *data.held_out), data.spec, encoder), watch)
    features = np.concatenate(store.get(keys))
    store.trim(keys)
    seen, unseen = features[: len(data.train)], features[len(data.train) :]
    labels = np.array([names.index(str(row.label)) for row in data.train])
    best: tuple[float, tuple[Floats, Floats]] | None = None
    watch.start(len(STRENGTHS), "fitting the head")
    for strength in STRENGTHS:
        head = fit_logistic(seen, labels, len(names), strength, class_weights=settings.class_weights)
        points = _points(data, *head, unseen)
        if best is None or points > best[0]:
            best = (points, head)
        watch.step(1, f"held out {best[0]:.1f}")
    watch.finish()
    if best:
        put_into(network, *best[1])


def put_into(network: PreTrainedModel, weights: Floats, biases: Floats) -> None:
    """Make fitted weights the network's output layer."""
    layer = output_layer(network)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weights))
        layer.bias.copy_(torch.from_numpy(biases))


def _points(data: TrainingData, weights: Floats, biases: Floats, features: Features) -> float:
    names = data.spec.label_names
    shares = _softmax(features @ weights.T + biases)
    answers = [LabelPrediction(names[int(row.argmax())], dict(zip(names, row.tolist(), strict=True))) for row in shares]
    return headline(label_metrics(data.held_out, answers, names))[1]


def _softmax(logits: Floats) -> Floats:
    weights: Floats = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return shares
