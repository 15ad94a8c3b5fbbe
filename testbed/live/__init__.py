"""The live testbed: a WAN that stays up, with workers in a loop, changed by hand over one control socket.

`Client` is how to talk to it from Python. Nothing heavy is imported here: every verb of the command line comes by.
"""

from testbed.live.client import Client

__all__ = ["Client"]
