"""The WAN controller: a process of its own that owns routes. Knows no Mininet, no workers, no testbed."""
