"""The emulated WAN itself. The only place that knows Mininet and netlink."""
