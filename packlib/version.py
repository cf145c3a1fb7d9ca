"""The version of packlib that is installed."""

from importlib.metadata import version

__version__ = version("packlib")
