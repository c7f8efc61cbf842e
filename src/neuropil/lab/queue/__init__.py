"""Runs that wait, train and have ended: each a process of its own, told of to any number of pages."""
