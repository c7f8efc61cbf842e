"""Loops that run around a trained model: writing a sequence token by token."""
