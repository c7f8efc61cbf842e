"""The lab: a page on this machine in which networks are trained, watched, questioned and broken.

It is a window over `runs`, `tasks` and `inspection`: what it shows the library can do without it."""
