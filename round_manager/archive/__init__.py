"""Archives of closed rounds: splits, freezing, verification and reading."""
