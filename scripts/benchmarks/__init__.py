"""The project's figures, measured on the real parts: what `scripts/bench` runs.

A benchmark is a name and a function that yields figures one by one; `foundation` is the first. Nothing here measures
by itself what a part of the project can measure about itself: it calls the parts, and holds their values against
what was promised.
"""
