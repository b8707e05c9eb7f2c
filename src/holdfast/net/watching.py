"""The pages by which a broker can be watched: /metrics for Prometheus, /health for people and balancers, /status with
all details, for the console."""

import json

from holdfast.net import http
from holdfast.net.address import Address
from holdfast.net.http import HttpResponse, HttpServer
from holdfast.net.metrics import CONTENT_TYPE, exposition
from holdfast.net.node import BrokerNode
from holdfast.net.status import status_of
from holdfast.protocol.effects import Incident


async def watch(node: BrokerNode, place: Address) -> HttpServer:
    """Serve /metrics, /health and /status of a broker until the server is closed.

    A TransportError if the port is taken.
    """
    pages = {"/metrics": lambda: _metrics(node), "/health": lambda: _health(node), "/status": lambda: _status(node)}

    def refused(host: str) -> None:
        node.driver.report(Incident("http_refused", host, reason="it asks more often than its budget allows"))

    return await http.listen(place, pages, node.settings.budgets.http_requests_s, refused)


def _metrics(node: BrokerNode) -> HttpResponse:
    return HttpResponse(exposition(status_of(node)), CONTENT_TYPE)


def _health(node: BrokerNode) -> HttpResponse:
    found = status_of(node).as_json()
    return HttpResponse(json.dumps(found, indent=2) + "\n", code=200 if found["ok"] else 503)


def _status(node: BrokerNode) -> HttpResponse:
    return HttpResponse(json.dumps(status_of(node).details()) + "\n")
