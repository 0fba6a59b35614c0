"""ml_backend predicts: models, their training, and verdicts on what people wrote."""
