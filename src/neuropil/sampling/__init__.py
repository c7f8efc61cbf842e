"""Loops that run around a trained model: writing a text token by token, or taking the noise from a picture."""
