"""`ringroad perf`: collectives on an emulated WAN, measured size by size as nccl-tests does, against their limit."""
