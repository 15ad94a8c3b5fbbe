"""Where a command runs: on this machine's own kernel, or inside a user-mode kernel, in real or in virtual time.

`relaunch.relaunch_if_needed` is all that a verb has to call. Nothing here knows experiments, WANs' dynamics or torch.
"""
