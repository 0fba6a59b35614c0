"""Fine-tuning: the whole network but its word embeddings, stopped early, the best epoch kept."""

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from transformers import PreTrainedModel

from common.text import count
from ml_backend.encoding import by_length
from ml_backend.errors import ModelError
from ml_backend.evaluation import Metrics, headline
from ml_backend.training.examples import Examples
from ml_backend.training.progress import Watch
from templates.spec import TrainingSettings

WARM_UP = 0.1
WEIGHT_DECAY = 0.01
LONGEST_GRADIENT = 1.0
# Batches that are sorted by length together: enough that little is padded, few enough that epochs differ.
BATCHES_IN_A_POOL = 20
# A batch that needs more memory than this goes through the network in parts; its gradient is the same.
TOKENS_IN_A_PASS = 16_384


def fine_tune(
    network: PreTrainedModel,
    examples: Examples,
    settings: TrainingSettings,
    measure: Callable[[], Metrics],
    watch: Watch,
) -> Metrics:
    """Train the network; it ends with the weights of its best epoch, whose held-out figures are returned."""
    network.get_input_embeddings().weight.requires_grad_(False)
    # Never network.train(): all that it would switch on is dropout, and without it training is faster and repeatable.
    learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimiser = _optimiser(learning, settings.learning_rate)
    shuffler = torch.Generator().manual_seed(settings.seed)
    steps = settings.epochs * math.ceil(len(examples.lengths) / settings.batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate_at(step, steps))
    best: tuple[float, int, Metrics, list[torch.Tensor]] | None = None
    watch.start(steps, f"training on {count(len(examples.lengths), 'row')}")
    for epoch in range(1, settings.epochs + 1):
        for batch in shuffled_batches(examples.lengths, settings.batch_size, shuffler):
            loss = _step(network, examples, batch, optimiser, learning)
            schedule.step()
            watch.step(1, _note(epoch, settings.epochs, loss, best[0] if best else None))
        metrics = measure()
        _, points = headline(metrics)
        if best is None or points > best[0]:
            best = (points, epoch, metrics, [parameter.detach().clone() for parameter in learning])
        elif epoch - best[1] >= settings.patience:
            break
    watch.finish()
    if best is None:
        raise ModelError("training had no epoch; set training.epochs to 1 or more")
    with torch.no_grad():
        for parameter, kept in zip(learning, best[3], strict=True):
            parameter.copy_(kept)
    return {**best[2], "epoch": best[1]}


def rate_at(step: int, steps: int) -> float:
    """The share of the peak learning rate at a step: up in a line, then down to nothing in a line."""
    warm = max(1, round(WARM_UP * steps))
    return min(1.0, (step + 1) / warm) * min(1.0, (steps - step) / max(1, steps - warm))


def shuffled_batches(lengths: Sequence[int], size: int, shuffler: torch.Generator) -> Iterator[list[int]]:
    """One epoch: every place once, rows of like length together, in an order that the generator decides."""
    order: list[int] = torch.randperm(len(lengths), generator=shuffler).tolist()
    batches = []
    for first in range(0, len(order), size * BATCHES_IN_A_POOL):
        pool = sorted(order[first : first + size * BATCHES_IN_A_POOL], key=lambda place: lengths[place])
        batches += [pool[start : start + size] for start in range(0, len(pool), size)]
    for place in torch.randperm(len(batches), generator=shuffler).tolist():
        yield batches[place]


def _optimiser(learning: list[torch.nn.Parameter], rate: float) -> torch.optim.Optimizer:
    # Biases and layer norms are not pulled towards zero.
    matrices = [parameter for parameter in learning if parameter.ndim > 1]
    vectors = [parameter for parameter in learning if parameter.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, fused=True)


def _step(
    network: PreTrainedModel,
    examples: Examples,
    batch: list[int],
    optimiser: torch.optim.Optimizer,
    learning: list[torch.nn.Parameter],
) -> float:
    whole = examples.weight(batch)
    loss = 0.0
    for part in by_length([examples.lengths[place] for place in batch], len(batch), TOKENS_IN_A_PASS):
        cost = examples.cost(network, [batch[place] for place in part]) / whole
        torch.autograd.backward(cost)
        loss += float(cost.detach())
    if not math.isfinite(loss):
        raise ModelError("training went astray (the loss is not a number); lower training.learning_rate")
    torch.nn.utils.clip_grad_norm_(learning, LONGEST_GRADIENT)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return loss


def _note(epoch: int, epochs: int, loss: float, best: float | None) -> str:
    note = f"epoch {epoch}/{epochs}, loss {loss:.2f}"
    return note if best is None else f"{note}, held out {best:.1f}"
