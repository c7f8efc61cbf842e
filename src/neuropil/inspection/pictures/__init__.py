"""Figures in one house style, each from plain numbers: one module per subject, as in `training.learning_curve(history)`.

Every picture returns a matplotlib `Figure`.
"""
