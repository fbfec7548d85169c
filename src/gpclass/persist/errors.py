"""The exception raised for invalid model files."""


class ModelFileError(ValueError):
    """A file is not a gpclass model, is damaged or incomplete, or has another format version."""
