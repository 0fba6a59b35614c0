"""Tasks and their rounds: what an owner made live, what workers are shown, and who may read what came of it."""
