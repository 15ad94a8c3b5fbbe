"""The dashboard: one page that shows a running testbed, or a finished run; a process of its own, at low priority."""
