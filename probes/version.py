"""The version, read by the build and by ``firstlight --version``."""

__version__ = "0.1.0"
