"""The suite that a data loader must pass, and the stopwatch beside it."""

__version__ = "0.1.0"
