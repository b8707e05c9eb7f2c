"""Who gets in: no other origin, no other name for our address, nobody without a token where one is needed."""

import pytest

from holdfast.console.access import ConsoleAccess, RequestRefused


def access(host: str = "127.0.0.1", acts: bool = True) -> ConsoleAccess:
    made = ConsoleAccess(host, acts)
    made.port = 8180
    return made


@pytest.mark.parametrize("host", ["127.0.0.1:8180", "localhost:8180", "[::1]:8180", "127.0.0.2:8180"])
def test_the_names_of_the_loopback_interface_are_ours(host: str) -> None:
    access().check("GET", {"Host": host})


@pytest.mark.parametrize(
    "host", ["", "evil.example:8180", "127.0.0.1", "127.0.0.1:81", "127.0.0.1.evil.example:8180", "10.0.0.1:8180", "[:"]
)
def test_a_name_of_somebody_else_does_not_lead_here(host: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        access().check("GET", {"Host": host})
    assert refused.value.code == 421


def test_beyond_the_loopback_interface_bare_addresses_and_the_own_name_are_ours() -> None:
    open_one = access("0.0.0.0")
    open_one.check("GET", {"Host": "192.0.2.7:8180"})
    with pytest.raises(RequestRefused):
        open_one.check("GET", {"Host": "evil.example:8180"})
    access("bus.example").check("GET", {"Host": "bus.example:8180"})


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_page_of_another_origin_gets_nothing(method: str, headers: dict[str, str]) -> None:
    with pytest.raises(RequestRefused) as refused:
        access().check(method, {"Host": "127.0.0.1:8180", "Content-Type": "application/json", **headers})
    assert refused.value.code == 403


def test_a_request_that_changes_something_says_its_origin_and_is_json() -> None:
    host = {"Host": "127.0.0.1:8180"}
    with pytest.raises(RequestRefused, match="Origin"):
        access().check("POST", {**host, "Content-Type": "application/json"})
    own = {**host, "Origin": "http://127.0.0.1:8180"}
    with pytest.raises(RequestRefused, match="application/json"):
        access().check("POST", {**own, "Content-Type": "text/plain"})
    access().check("POST", {**own, "Content-Type": "application/json; charset=utf-8"})


def test_on_loopback_everybody_may_look_and_nobody_acts_without_the_token() -> None:
    made = access()
    assert (made.rights({}).reads, made.rights({}).acts) == (True, False)
    session = made.open_session(made.token)
    assert made.rights({made.cookie: session}).acts
    assert not made.rights({made.cookie: session[:-1]}).acts


def test_elsewhere_nobody_may_look_without_the_token_and_without_act_nobody_acts() -> None:
    made = access("0.0.0.0", acts=False)
    assert not made.rights({}).reads
    rights = made.rights({made.cookie: made.open_session(made.token)})
    assert (rights.reads, rights.acts) == (True, False)


def test_guessing_is_slow_and_sessions_end() -> None:
    now_s = 0.0
    made = ConsoleAccess("127.0.0.1", True, now_s=lambda: now_s)
    made.port = 8180
    for _ in range(20):
        with pytest.raises(RequestRefused, match="not valid"):
            made.open_session("guess")
    with pytest.raises(RequestRefused, match="too many"):
        made.open_session(made.token)
    now_s = 61.0
    cookies = {made.cookie: made.open_session(made.token)}
    assert made.rights(cookies).acts
    now_s += 13 * 3600
    assert not made.rights(cookies).acts


def test_a_hundred_browsers_share_a_bounded_number_of_sessions() -> None:
    made = access()
    sessions = [made.open_session(made.token) for _ in range(100)]
    assert not made.rights({made.cookie: sessions[0]}).acts
    assert made.rights({made.cookie: sessions[-1]}).acts
