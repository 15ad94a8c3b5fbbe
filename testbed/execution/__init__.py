"""`ringroad exec`: somebody's own program, one process or more in each DC, while the emulated WAN moves.

What a run of ours and one of theirs have in common (WAN, trace, controller, ring agent) is used from `testbed.arm`.
"""
