"""`ringroad view` in a real browser: the slider takes the page to any moment of a run."""

import pytest
from pages import dashboard
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from synthetic import make_run
from waiting import eventually

from filming.browser import chromium, errors, resize


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run") / "r", blocks=2)


@pytest.fixture(scope="module")
def browser(folder):
    with dashboard("testbed.cli", "view", folder.path, "--json") as page, chromium() as opened:
        opened.get(page.address)
        eventually(lambda: opened.execute_script("return document.body.dataset.state") == "run", 30)
        yield opened
        assert errors(opened) == []


def go(browser, second):
    """Move the slider as a hand does."""
    browser.execute_script(
        "const slider = document.getElementById('time'); slider.value = arguments[0];"
        "slider.dispatchEvent(new Event('input'));",
        second,
    )


def known(browser, what):
    return browser.execute_script(f"const {{ store, replay }} = ringroad; return {what};")


def choose(browser, arm):
    browser.find_element(By.CSS_SELECTOR, f"#arms [data-arm={arm}]").click()


def test_the_slider_shows_as_many_collectives_as_had_ended_by_then(browser, folder):
    choose(browser, "wan")
    start = next(line["started_at"] for line in folder.read_arms() if (line["block"], line["arm"]) == (1, "wan"))
    ends = [record["end"] - start for record in folder.read(1, "wan", "collectives")]

    for second in (0.0, ends[3] + 0.01, ends[-1] + 0.01, ends[7] + 0.01):
        go(browser, second)
        assert known(browser, "store.collectives.length") == sum(end <= second + 0.01 for end in ends)


def test_a_pair_is_on_the_path_that_it_had_at_that_moment(browser):
    choose(browser, "joint")
    path = "store.route(4, 5).map((site) => store.siteName(site))"

    go(browser, 0)
    assert known(browser, path) == ["tokyo", "oregon", "virginia"]
    go(browser, 5)
    assert known(browser, path) == ["tokyo", "virginia"]
    go(browser, 0)
    assert known(browser, path) == ["tokyo", "oregon", "virginia"]


def test_capacities_are_those_of_the_trace_at_that_moment(browser, folder):
    choose(browser, "static")
    first, second = (record for record in folder.read(1, "static", "changes")[:2])
    rates = [{(a, b): bps for a, b, bps in record["rates"]}[("tokyo", "oregon")] for record in (first, second)]

    go(browser, 5)
    assert known(browser, "store.edges[0].rate") == rates[0]
    go(browser, 11)
    assert known(browser, "store.edges[0].rate") == rates[1]


def test_all_arms_of_a_block_are_in_the_plot_and_another_block_can_be_chosen(browser):
    columns = "ringroad.times.u.data.slice(2).map((column) => column.filter((value) => value != null).length)"
    assert known(browser, columns) == [20, 20, 20, 20]

    browser.find_element(By.CSS_SELECTOR, "#block option[value='2']").click()

    eventually(lambda: known(browser, "replay.block") == 2, 10)
    assert known(browser, "replay.arms.length") == 4


def test_it_plays_and_pauses_from_the_keyboard(browser):
    go(browser, 0)
    button = browser.find_element(By.ID, "play")
    button.send_keys(Keys.ENTER)
    eventually(lambda: known(browser, "replay.at") > 0.5, 10)
    button.send_keys(Keys.ENTER)

    assert known(browser, "replay.playing") is None


def test_nothing_can_be_changed_in_what_is_over(browser):
    link = browser.find_element(By.CSS_SELECTOR, "#map .link")
    browser.execute_script("arguments[0].focus()", link)
    link.send_keys(Keys.ENTER)

    card = browser.find_element(By.ID, "link-card")
    assert card.is_displayed()
    assert card.find_elements(By.CSS_SELECTOR, "#fail, #heal, #rate") == []
    assert not browser.find_element(By.ID, "reorder-every").is_enabled()
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not card.is_displayed()


def test_every_request_goes_to_the_dashboard_itself(browser):
    asked = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")

    assert len(asked) > 10
    assert {name for name in asked if not name.startswith(browser.current_url)} == set()
    assert "token" not in browser.current_url


def test_everything_that_can_be_acted_on_has_a_name_and_can_be_reached_with_tab(browser):
    nameless = browser.execute_script("""
        const acted = [...document.querySelectorAll("button, input, select, [role=button]")];
        const name = (each) => each.getAttribute("aria-label") || each.textContent || each.labels?.[0]?.textContent;
        return acted.filter((each) => each.getClientRects().length)
            .filter((each) => !name(each)?.trim() || (each.tabIndex < 0 && !each.disabled))
            .map((each) => each.outerHTML);
    """)

    assert nameless == []


@pytest.mark.parametrize("width", [1440, 1000, 420])
def test_nothing_is_wider_than_the_window(browser, width):
    resize(browser, width, 900)
    try:
        wide = browser.execute_script("return document.documentElement.scrollWidth")
    finally:
        resize(browser, 1440, 900)

    assert wide <= width
