"""The client that a network has asked for."""

from holdfast.protocol.client import Client
from holdfast.protocol.hops.durable_client import DurableClient
from holdfast.protocol.hops.settings import HopSettings

AnyClient = Client | DurableClient


def with_hops(client: Client, hops: HopSettings, runs: bool = False, confirms: bool = False) -> AnyClient:
    return DurableClient(client, hops.handover, runs, confirms) if hops.durable else client
