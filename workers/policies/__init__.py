"""Ring policies: a view of the collective in, a ring order out. Pure."""
