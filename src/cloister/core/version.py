"""What this is a version of. Asked of the package's metadata, it would take longer than most imports here."""

__version__ = "0.1.0"
