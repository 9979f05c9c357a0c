"""The exceptions of this package. Their messages are sentences for a person."""


class FormatError(ValueError):
    """A file is damaged, of another version, or not of the kind that it should be."""


class UnsupportedError(ValueError):
    """A file is whole, but this package cannot do with it what was asked for."""
