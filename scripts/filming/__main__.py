"""Films the dashboard of a real testbed: a link is narrowed, both loops are switched on, a link fails and heals.

What is seen is what happened: nothing is drawn afterwards.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from selenium.webdriver import Chrome

from filming.browser import chromium
from testbed.live import Client

ROOT = Path(__file__).parents[2]
WAN, NARROWED, FAILED = "six", "tokyo-oregon", "virginia-frankfurt"
UP = ("--workers", "--payload", "256KiB", "--every", "400ms", "--arm", "static", "--reorder-every", "4", "--dashboard")
SIZE = (1280, 800)
SHOWN_WIDTH = 960
FRAME_S = 0.5
SHOWN_FRAME_MS = 200
"""Time is shown two and a half times as fast as it went."""
COLOURS = 160

Step = tuple[float, Callable[[Chrome, Client], None]]


def open_card(link: str) -> Callable[[Chrome, Client], None]:
    """Click a link on the map; again to close its card."""

    def act(browser: Chrome, _: Client) -> None:
        browser.execute_script(
            f"document.querySelector('#map .link[data-link=\"{link}\"]').dispatchEvent(new MouseEvent('click'))"
        )

    return act


def press(button: str) -> Callable[[Chrome, Client], None]:
    """Click a button of the card or the header, by its selector."""
    return lambda browser, _: browser.execute_script(f"document.querySelector('{button}').click()")


STORY: tuple[Step, ...] = (
    (7.0, lambda _, client: client.shape(NARROWED, rate_bps=8e6)),
    (15.0, press("#arms [data-arm=joint]")),
    (22.0, open_card(FAILED)),
    (24.0, press("#fail")),
    (26.0, press("#link-card .close")),
    (32.0, press("#heal-all")),
)
LENGTH_S = 37.0
STILL_AT_S = 29.0


def main() -> int:
    """Write the pictures."""
    parser = argparse.ArgumentParser(prog="scripts/film", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images", help="default: docs/images")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with testbed() as client, chromium(*SIZE) as browser:
        browser.get(str(client.snapshot().dashboard))
        time.sleep(1.0)
        frames, still = film(browser, client)
        browser.execute_script("document.getElementById('theme').click()")
        time.sleep(0.6)
        dark = browser.get_screenshot_as_png()
    (out / "dashboard.png").write_bytes(reduced(still))
    (out / "dashboard-dark.png").write_bytes(reduced(dark))
    write_gif(frames, out / "dashboard.gif")
    for name in ("dashboard.png", "dashboard-dark.png", "dashboard.gif"):
        print(f"{out / name}: {(out / name).stat().st_size / 1e3:.0f} kB")
    return 0


@contextmanager
def testbed() -> Iterator[Client]:
    """One that is up with its dashboard, as a person brings it up."""
    command = [sys.executable, "-m", "testbed.cli"]
    subprocess.run([*command, "up", WAN, *UP, "--detach"], check=True, cwd=ROOT, stdin=subprocess.DEVNULL)
    try:
        with Client() as client:
            yield client
    finally:
        subprocess.run([*command, "down"], check=True, cwd=ROOT, stdin=subprocess.DEVNULL)


def film(browser: Chrome, client: Client) -> tuple[list[bytes], bytes]:
    """A PNG every `FRAME_S` while the story is acted, and the one for the README."""
    steps, frames, still = list(STORY), [], b""
    began = time.monotonic()
    while (at := time.monotonic() - began) < LENGTH_S:
        if steps and at >= steps[0][0]:
            steps.pop(0)[1](browser, client)
        frames.append(browser.get_screenshot_as_png())
        if not still and at >= STILL_AT_S:
            still = frames[-1]
        print(f"film: {at:.0f} of {LENGTH_S:.0f} s", end="\r", file=sys.stderr)
        time.sleep(max(0.0, began + (len(frames)) * FRAME_S - time.monotonic()))
    return frames, still


def reduced(png: bytes) -> bytes:
    """The same picture in 256 colours: a third of the size, and no difference that is seen."""
    written = io.BytesIO()
    quantized(Image.open(io.BytesIO(png)).convert("RGB"), 256).save(written, "PNG", optimize=True)
    return written.getvalue()


def quantized(picture: Image.Image, colours: int) -> Image.Image:
    """In so few colours that thin bright lines keep theirs: chosen by how much of all colours they cover."""
    return picture.quantize(colours, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)


def write_gif(frames: list[bytes], file: Path) -> None:
    """One palette for all, without dither, so that what stands still costs nothing."""
    scale = SHOWN_WIDTH / SIZE[0]
    size = (SHOWN_WIDTH, round(SIZE[1] * scale))
    pictures = [Image.open(io.BytesIO(png)).convert("RGB").resize(size, Image.Resampling.LANCZOS) for png in frames]
    palette = quantized(pictures[-len(pictures) // 3], COLOURS)
    drawn = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    drawn[0].save(
        file, save_all=True, append_images=drawn[1:], duration=SHOWN_FRAME_MS, loop=0, optimize=True, disposal=1
    )


if __name__ == "__main__":
    sys.exit(main())
