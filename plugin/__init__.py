"""plugin wires: the command, configuration, Label Studio and, around them, everything else."""

__version__ = "0.2.0"
