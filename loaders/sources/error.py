"""What is wrong with the data that was asked for."""


class SourceError(ValueError):
    """The data that `--loader-data` names cannot be the truth: it is missing, damaged or unclear."""
