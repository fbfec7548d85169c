"""The one exception that a bad model file raises."""


class ModelFileError(ValueError):
    """A file is no model of gpclass, is not whole, or belongs to a newer format."""
