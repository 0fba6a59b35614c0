"""Fine-tuning of the whole network except its word embeddings, with early stopping; the best epoch is kept."""

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from transformers import PreTrainedModel

from common.text import count
from ml_backend.encoding import by_length
from ml_backend.errors import TrainingDataInvalid, TrainingDiverged
from ml_backend.evaluation import Metrics, headline
from ml_backend.training.examples import Examples
from ml_backend.training.start import ProgressMonitor
from templates.spec import TrainingSettings

WARM_UP = 0.1
WEIGHT_DECAY = 0.01
MAX_GRADIENT_NORM = 1.0
# Batches that are sorted by length together: enough for little padding, few enough that epochs differ.
BATCHES_PER_POOL = 20
# A larger batch goes through the network in parts; its gradient is the same.
TOKENS_PER_PASS = 16_384


def fine_tune(
    network: PreTrainedModel,
    examples: Examples,
    settings: TrainingSettings,
    measure: Callable[[], Metrics],
    monitor: ProgressMonitor,
) -> Metrics:
    """Train the network, restore the weights of its best epoch, and return that epoch's held-out metrics."""
    network.get_input_embeddings().weight.requires_grad_(False)
    # Never network.train(): it would only enable dropout; without it training is faster and repeatable.
    learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = _optimizer(learning, settings.learning_rate)
    shuffler = torch.Generator().manual_seed(settings.seed)
    steps = settings.epochs * math.ceil(len(examples.lengths) / settings.batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_at(step, steps))
    best: tuple[float, int, Metrics, list[torch.Tensor]] | None = None
    monitor.start(steps, f"Training on {count(len(examples.lengths), 'row')}")
    for epoch in range(1, settings.epochs + 1):
        for batch in shuffled_batches(examples.lengths, settings.batch_size, shuffler):
            loss = _step(network, examples, batch, optimizer, learning)
            schedule.step()
            monitor.step(1, _note(epoch, settings.epochs, loss, best[0] if best else None))
        metrics = measure()
        _, points = headline(metrics)
        if best is None or points > best[0]:
            best = (points, epoch, metrics, [parameter.detach().clone() for parameter in learning])
        elif epoch - best[1] >= settings.patience:
            break
    monitor.finish()
    if best is None:
        raise TrainingDataInvalid("training had no epoch; set training.epochs to 1 or more")
    with torch.no_grad():
        for parameter, kept in zip(learning, best[3], strict=True):
            parameter.copy_(kept)
    return {**best[2], "epoch": best[1]}


def rate_at(step: int, steps: int) -> float:
    """Return the share of the peak learning rate at a step: a linear warm-up, then a linear decay to zero."""
    warm = max(1, round(WARM_UP * steps))
    return min(1.0, (step + 1) / warm) * min(1.0, (steps - step) / max(1, steps - warm))


def shuffled_batches(lengths: Sequence[int], size: int, shuffler: torch.Generator) -> Iterator[list[int]]:
    """Yield the batches of one epoch: every row once, rows of similar length together, in a seeded order."""
    order: list[int] = torch.randperm(len(lengths), generator=shuffler).tolist()
    batches = []
    for first in range(0, len(order), size * BATCHES_PER_POOL):
        pool = sorted(order[first : first + size * BATCHES_PER_POOL], key=lambda place: lengths[place])
        batches += [pool[start : start + size] for start in range(0, len(pool), size)]
    for place in torch.randperm(len(batches), generator=shuffler).tolist():
        yield batches[place]


def _optimizer(learning: list[torch.nn.Parameter], rate: float) -> torch.optim.Optimizer:
    # Biases and layer norms get no weight decay.
    matrices = [parameter for parameter in learning if parameter.ndim > 1]
    vectors = [parameter for parameter in learning if parameter.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, fused=True)


def _step(
    network: PreTrainedModel,
    examples: Examples,
    batch: list[int],
    optimizer: torch.optim.Optimizer,
    learning: list[torch.nn.Parameter],
) -> float:
    whole = examples.weight(batch)
    loss = 0.0
    for part in by_length([examples.lengths[place] for place in batch], len(batch), TOKENS_PER_PASS):
        cost = examples.cost(network, [batch[place] for place in part]) / whole
        torch.autograd.backward(cost)
        loss += float(cost.detach())
    if not math.isfinite(loss):
        raise TrainingDiverged("training diverged (the loss is not finite); lower training.learning_rate")
    torch.nn.utils.clip_grad_norm_(learning, MAX_GRADIENT_NORM)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


def _note(epoch: int, epochs: int, loss: float, best: float | None) -> str:
    note = f"epoch {epoch} of {epochs}, loss {loss:.2f}"
    return note if best is None else f"{note}, best so far {best:.1f} points"
