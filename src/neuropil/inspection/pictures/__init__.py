"""Figures in one house style, each from plain numbers, one module per subject; all return a matplotlib `Figure`."""
