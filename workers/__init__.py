"""What runs inside a datacenter: collectives over gloo, the ring agent, the limits. Knows no controller, no testbed."""
