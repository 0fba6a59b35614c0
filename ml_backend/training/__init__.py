"""Training of model versions."""

from common.progress import Progress
from ml_backend.training.run import TrainingResult, train

__all__ = ["Progress", "TrainingResult", "train"]
