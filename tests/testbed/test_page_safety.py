"""Who the dashboard refuses: by Host, by Origin, by token."""

import pytest

from testbed.live.web.safety import Gate, Refused, new_token

HOST = "127.0.0.1:8080"
OWN_PAGE = {"host": HOST, "origin": f"http://{HOST}", "content-type": "application/json"}
OPEN = Gate(token=None, loopback=True)
BEYOND = Gate(token=None, loopback=False, hostname="lab")


def refusal(gate, method, headers, query_token=None):
    try:
        gate.check(method, headers, query_token)
    except Refused as refused:
        return refused.status
    return None


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8080", "localhost:9", "[::1]:8080", "LOCALHOST", "127.0.0.2:80"]
)
def test_loopback_by_any_of_its_names_is_served(host):
    assert refusal(OPEN, "GET", {"host": host}) is None


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil"]
)
def test_a_name_that_is_not_loopback_is_refused_so_that_no_page_can_be_rebound_to_it(host):
    assert refusal(OPEN, "GET", {"host": host}) == 403


def test_beyond_loopback_literal_addresses_and_the_machines_own_name_are_served_and_no_other_name():
    assert refusal(BEYOND, "GET", {"host": "192.0.2.7:8080"}) is None
    assert refusal(BEYOND, "GET", {"host": "[2001:db8::7]:8080"}) is None
    assert refusal(BEYOND, "GET", {"host": "lab:8080"}) is None
    assert refusal(BEYOND, "GET", {"host": "evil.example:8080"}) == 403


def test_a_change_from_its_own_page_is_taken():
    assert refusal(OPEN, "POST", OWN_PAGE) is None


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8080", None]
)
def test_a_change_from_another_origin_or_from_none_is_refused(origin):
    headers = {**OWN_PAGE, "origin": origin} if origin else {k: v for k, v in OWN_PAGE.items() if k != "origin"}

    assert refusal(OPEN, "POST", headers) == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_change_as_a_form_could_send_it_is_refused(kind):
    assert refusal(OPEN, "POST", {**OWN_PAGE, "content-type": kind}) == 415


def test_what_a_browser_says_was_asked_by_another_site_is_refused_but_a_link_may_be_followed():
    cross = {"host": HOST, "sec-fetch-site": "cross-site"}

    assert refusal(OPEN, "GET", {**cross, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}) == 403
    assert refusal(OPEN, "GET", {**cross, "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}) == 403
    assert refusal(OPEN, "GET", {**cross, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}) is None


def test_a_token_is_taken_from_the_address_the_cookie_or_the_header_and_without_it_nothing_is_served():
    gate = Gate(token="correct0horse0battery", loopback=True, cookie="ringroad_8080")
    given = {"host": HOST}

    assert refusal(gate, "GET", given) == 403
    assert refusal(gate, "GET", given, "wrong") == 403
    assert refusal(gate, "GET", {**given, "cookie": "ringroad_9=correct0horse0battery"}) == 403
    assert refusal(gate, "GET", {**given, "cookie": "ringroad_8080=\xe9"}) == 403
    assert refusal(gate, "GET", given, "correct0horse0battery") is None
    assert refusal(gate, "GET", {**given, "cookie": "a=b; ringroad_8080=correct0horse0battery"}) is None
    assert refusal(gate, "GET", {**given, "authorization": "Bearer correct0horse0battery"}) is None


def test_tokens_are_long_and_never_the_same():
    assert len({new_token() for _ in range(100)}) == 100
    assert all(len(new_token()) >= 24 for _ in range(10))
