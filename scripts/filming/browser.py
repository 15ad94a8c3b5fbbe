"""A real browser without a window, with an empty profile and no wish to talk to anybody."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)


@contextmanager
def chromium(width: int = 1440, height: int = 900, *more: str) -> Iterator[webdriver.Chrome]:
    """Chromium while the context lasts; its console's errors are kept for `errors`."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory(prefix="ringroad-browser-", ignore_cleanup_errors=True) as profile:
        for option in (*OPTIONS, *more, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
            options.add_argument(option)
        driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        try:
            resize(driver, width, height)
            yield driver
        finally:
            driver.quit()


def resize(driver: webdriver.Chrome, width: int, height: int) -> None:
    """The page itself gets this size, whatever a window has around it."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def errors(driver: webdriver.Chrome) -> list[str]:
    """What the page has complained of since the last call."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
