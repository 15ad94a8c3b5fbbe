"""A person at the dashboard: a real browser, a real testbed. What is clicked happens, what happens is seen.

Screenshots are kept beside the test's other output; RINGROAD_SCREENSHOTS names a folder to keep them in for longer.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from waiting import eventually

from filming.browser import chromium, errors
from testbed.live import Client

pytestmark = pytest.mark.emulated

RINGROAD = [sys.executable, "-m", "testbed.cli"]
LINK = ("tokyo", "oregon")


def ringroad(*arguments):
    done = subprocess.run([*RINGROAD, *arguments], capture_output=True, text=True, timeout=90, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def address():
    """Of the dashboard of a testbed with workers, in the arm `wan`."""
    up = ("up", "mesh4", "--workers", "--payload", "256KiB", "--every", "250ms", "--arm", "wan", "--dashboard")
    ringroad(*up, "--detach")
    try:
        with Client() as client:
            yield client.snapshot().dashboard
    finally:
        ringroad("down")


@pytest.fixture(scope="module")
def browser(address):
    with chromium() as opened:
        opened.get(address)
        eventually(lambda: opened.execute_script("return document.body.dataset.state") == "live", 30)
        yield opened


@pytest.fixture
def page(browser):
    """The page of a WAN with nothing wrong; what a test did to links is undone."""
    with Client() as client:
        client.heal()
        eventually(lambda: known(browser, "store.edges.every((edge) => edge.state === 'up')"), 20)
        yield browser
        browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
        client.heal()
        client.arm("wan")
    assert errors(browser) == []


@pytest.fixture(scope="module")
def screenshots(tmp_path_factory):
    folder = os.environ.get("RINGROAD_SCREENSHOTS")
    if folder is None:
        return tmp_path_factory.mktemp("screenshots")
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder)


def known(browser, what):
    """What the page knows."""
    return browser.execute_script(f"const {{ store }} = ringroad; return {what};")


PLACE_OF_LINK = """
    const { map } = ringroad, group = document.querySelector(`#map .link[data-link="${arguments[0]}"]`);
    const hit = group.querySelector(".hit"), length = hit.getTotalLength();
    for (let share = 0.5; share < 0.95; share += 0.03) {
        const at = hit.getPointAtLength(share * length).matrixTransform(map.root.getScreenCTM());
        if (document.elementFromPoint(at.x, at.y)?.closest(".link") === group) return [at.x, at.y];
    }
"""


DRAWN_SINCE = """
    const { store, times } = ringroad, newest = store.collectives.at(-1).at;
    return store.collectives.length > arguments[0] && times.u.data[0].at(-1) >= newest;
"""
"""Whether the plot shows a collective that ended later than so many others: it is drawn a few times a second."""


def open_link(browser, name):
    """Click a link on the map, where its two lanes run and no other's."""
    place = browser.execute_script(PLACE_OF_LINK, name)
    actions = ActionBuilder(browser)
    actions.pointer_action.move_to_location(*map(round, place)).click()
    actions.perform()
    return browser.find_element(By.ID, "link-card")


def inside(browser, place):
    """The element that has the focus, if it is in there."""
    return browser.execute_script(f"return document.activeElement.closest('#{place}') && document.activeElement")


def carrier(interface):
    try:
        return Path(f"/sys/class/net/{interface}/carrier").read_text().strip() == "1"
    except OSError:
        return False


def test_fail_on_the_map_takes_the_kernels_link_down_moves_the_route_and_the_plot_reacts(page, screenshots):
    with Client() as client:
        interface = client.where(link=LINK).interface
        eventually(lambda: known(page, "store.collectives.length") >= 4, 30)
        assert carrier(interface)
        page.save_screenshot(str(screenshots / "before.png"))
        moves_before = known(page, "store.marks.length")
        collectives_before = known(page, "store.collectives.length")

        open_link(page, "tokyo-oregon").find_element(By.ID, "fail").click()

        eventually(lambda: not carrier(interface), 10)
        eventually(
            lambda: (
                "down"
                in page.find_element(By.CSS_SELECTOR, "#map .link[data-link='tokyo-oregon']").get_attribute("class")
            ),
            10,
        )
        route = eventually(
            lambda: next(
                (r.path for r in client.snapshot().routes if (r.source, r.target) == LINK and len(r.path) > 2), None
            ),
            20,
        )
        eventually(lambda: known(page, "store.route(2, 1).map((site) => store.siteName(site))") == list(route), 10)
        eventually(lambda: known(page, "store.marks.length") > moves_before, 10)
        eventually(lambda: known(page, "store.collectives.length") > collectives_before, 20)
        eventually(lambda: page.execute_script(DRAWN_SINCE, collectives_before), 10)
        assert page.execute_script("return ringroad.store.capacity[6].at(-1)[1]") == 0
        text = page.find_element(By.ID, "log").text
        page.save_screenshot(str(screenshots / "failed.png"))

    assert "tokyo-oregon" in text
    assert "moved" in text
    assert Path(screenshots / "failed.png").stat().st_size > 20_000


def test_heal_and_the_rate_slider_reach_the_kernel(page):
    card = open_link(page, "tokyo-oregon")
    card.find_element(By.ID, "fail").click()
    eventually(lambda: card.find_element(By.ID, "heal").is_enabled(), 10)
    card.find_element(By.ID, "heal").click()
    eventually(lambda: known(page, "store.edges[6].state") == "up", 10)

    slider = card.find_element(By.ID, "rate")
    slider.send_keys(Keys.HOME)

    with Client() as client:
        set_to = lambda: [each.rate_bps for each in client.snapshot().links if each.link == "tokyo-oregon"]  # noqa: E731
        eventually(lambda: set_to() == [2e6, 2e6], 10)
        client.shape("tokyo-oregon", rate_bps=100e6)
    eventually(lambda: known(page, "store.edges[6].rate") == 100e6, 10)


def test_the_keyboard_alone_is_enough(page):
    link = page.find_element(By.CSS_SELECTOR, "#map .link[data-link='frankfurt-tokyo']")
    page.execute_script("arguments[0].focus()", link)
    page.switch_to.active_element.send_keys(Keys.ENTER)
    focused = eventually(lambda: inside(page, "link-card"), 5)
    while focused.get_attribute("id") != "fail":
        focused.send_keys(Keys.TAB)
        focused = inside(page, "link-card")
        assert focused, "Tab went through the card and found no way to fail the link"
    focused.send_keys(Keys.ENTER)

    eventually(lambda: known(page, "store.edges[2].state") == "down", 10)
    ActionChains(page).send_keys(Keys.ESCAPE).perform()  # wherever the focus is, while the card is drawn anew
    assert page.switch_to.active_element.get_attribute("data-link") == "frankfurt-tokyo"
    assert "down" in page.switch_to.active_element.get_attribute("aria-label")


def test_arm_n_and_t_wan_are_changed_in_the_header(page):
    page.find_element(By.CSS_SELECTOR, "#arms [data-arm=joint]").click()
    every = page.find_element(By.ID, "reorder-every")
    every.clear()
    every.send_keys("7", Keys.TAB)
    period = page.find_element(By.ID, "t-wan")
    period.clear()
    period.send_keys("250", Keys.TAB)

    with Client() as client:
        control = lambda: (lambda c: (c.arm, c.reorder_every, c.period_s))(client.snapshot().control)  # noqa: E731
        eventually(lambda: control() == ("joint", 7, 0.25), 20)


def test_the_path_of_a_pair_is_shown(page):
    for name in ("tokyo", "virginia"):
        site = page.find_element(By.CSS_SELECTOR, f'#map .site[data-site="{name}"]')
        page.execute_script("arguments[0].dispatchEvent(new MouseEvent('click', { bubbles: true }))", site)

    shown = page.find_element(By.ID, "pair-path").text
    route = known(page, "store.route(2, 3).map((site) => store.siteName(site))")

    assert shown == " → ".join(route)
    assert len(page.find_elements(By.CSS_SELECTOR, "#map .pathway")) == len(route) - 1


def test_two_browsers_agree_and_both_see_a_change_soon(page, address):
    with chromium(900, 700) as other, Client() as client:
        other.get(address)
        eventually(lambda: other.execute_script("return document.body.dataset.state") == "live", 30)
        before = time.monotonic()
        client.blackhole("virginia-oregon")
        for each in (page, other):
            eventually(lambda each=each: known(each, "store.edges[8].state") == "blackhole", 10)
        assert time.monotonic() - before < 10
        edges = "store.edges.map(({ rate, state }) => [rate, state])"
        state = f"JSON.stringify([{edges}, [...store.routes], store.ring, store.settings])"
        eventually(lambda: known(page, state) == known(other, state), 10)
        assert errors(other) == []


def test_light_and_dark_are_both_drawn(page, screenshots):
    backgrounds = set()
    for theme in ("one", "other"):
        page.find_element(By.ID, "theme").click()
        backgrounds.add(page.execute_script("return getComputedStyle(document.body).backgroundColor"))
        page.save_screenshot(str(screenshots / f"theme-{theme}.png"))

    assert len(backgrounds) == 2


def test_a_dashboard_that_dies_is_told_and_the_testbed_stays(address):
    with Client() as client:
        own = b"testbed.live.web\0--socket\0" + str(client.path).encode()
        mine = [p for p in Path("/proc").glob("[0-9]*") if own in _command_line(p)]
        assert len(mine) == 1
        os.kill(int(mine[0].name), signal.SIGKILL)
        eventually(lambda: client.snapshot().dashboard is None, 10)
        assert "the dashboard has died" in client.snapshot().log[-1].text


def _command_line(process):
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
