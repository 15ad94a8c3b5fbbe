"""The parts of the `ring` backend: how tensors are cut, moved and reduced, and the thread that does it.

`workers.group` puts them together. Knows no testbed and no controller.
"""
