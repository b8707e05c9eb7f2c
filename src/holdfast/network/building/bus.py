"""A file with `[carrier]`: a bus in the place of brokers.

The bus is one broker without links, to which every client is attached. So drivers, faults and traces know it by the
same means as any broker; what there is only between brokers is refused here.
"""

from dataclasses import replace

from holdfast.model.errors import InputError
from holdfast.network.keys.declared import made
from holdfast.network.problems import Problems
from holdfast.network.settings import BUS, CarrierSettings
from holdfast.network.tables import Values

_SCHEMES = {  # of addresses
    "nats": ["nats", "nats+tls"],
    "mqtt": ["mqtt", "mqtts"],
    "redis": ["redis", "rediss"],
    "rabbitmq": ["amqp", "amqps"],
    "zenoh": ["zenoh"],
    "stomp": ["stomp"],
}
_LINK_FAULTS = ("link-down", "link-up", "link-replace", "partition")


def build_bus(values: Values, problems: Problems) -> CarrierSettings | None:
    """None: the file has brokers of its own. Otherwise the graph in `values` becomes the bus alone."""
    given = values["carrier"]
    if given is None:
        return None
    _check_alone(values, problems)
    _check_reliability(values["reliability"], problems)
    carrier = made(CarrierSettings, given, ("carrier",), problems)
    _check_names(carrier, problems)
    values["topology"] = {"kind": "listed", "brokers": [BUS], "prefix": "", "links": None}
    values["broker"] = values["link"] = None
    return carrier


def _check_alone(values: Values, problems: Problems) -> None:
    """What has no meaning without brokers and links."""
    advice = "leave it out, or leave [carrier] out"
    if values["topology"]["brokers"] is not None or values["topology"]["kind"] != "listed":
        problems.add(("topology",), "a file with [carrier] has the bus in the place of brokers", advice)
    for name in ("broker", "link", "replication", "reconfiguration"):
        if values[name]:
            problems.add((name,), "there are no brokers and links in a file with [carrier]", advice)
    if values["routing"] != "subscriptions":
        problems.add(("routing",), "a bus routes by lanes", 'leave it out: lanes = "..." in [carrier] says how')
    for number, entry in enumerate(values["fault"] or ()):
        if entry.get("kind") in _LINK_FAULTS:
            message = "there are no links between brokers in a file with [carrier]"
            problems.add(("fault", number), message, f'crash, hang, restart and resume of "{BUS}" are possible')


def _check_reliability(values: Values, problems: Problems) -> None:
    for key, plain in (("hops", "basic"), ("gossip", "none")):
        if values[key] != plain and not problems.within("reliability", key):
            message = f'"{values[key]}" is done by brokers, and a bus has none of it'
            problems.add(("reliability", key), message, 'use recovery = "end-to-end"')


def _check_names(carrier: CarrierSettings, problems: Problems) -> None:
    for key, named in (("space", replace(carrier, lanes=None)), ("lanes", carrier)):
        try:
            assert named.template
        except InputError as problem:
            problems.add(("carrier", key), str(problem))
            break
    scheme = "" if carrier.address is None else carrier.address.partition("://")[0]
    if scheme and scheme not in _SCHEMES[carrier.bus]:
        expected = f"{_SCHEMES[carrier.bus][0]}://host:port"
        problems.add(
            ("carrier", "address"), f"{carrier.address!r} is no address of {carrier.bus}", f"such as {expected}"
        )
