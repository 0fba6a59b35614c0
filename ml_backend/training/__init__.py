"""Training: rows in, a model version out."""

from ml_backend.training.progress import Progress
from ml_backend.training.run import Trained, train

__all__ = ["Progress", "Trained", "train"]
