"""Weights of other libraries, both ways: one file for each family, with a map of names."""

from importlib import import_module

from neuropil.parts.checkpoint_families import CheckpointFamily


def checkpoint_family(name: str) -> CheckpointFamily:
    """That of the file with this name; the others, and the models in them, are not imported."""
    return import_module(f"neuropil.pretrained.{name}").FAMILY
