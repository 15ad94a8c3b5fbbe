"""Path policies: a view of the network in, a routing out. Pure."""
