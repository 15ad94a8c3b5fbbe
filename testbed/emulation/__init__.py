"""The emulated WAN itself. The only place that knows Mininet and netlink."""

import logging
from contextlib import suppress

with suppress(ImportError):
    import mininet.log  # noqa: F401

    logging.setLoggerClass(logging.Logger)  # Mininet's, made the default on import, writes to stderr, with no newline.
