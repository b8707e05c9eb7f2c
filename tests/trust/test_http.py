"""Who connects to the metrics and asks nothing does not keep others from asking."""

import asyncio

import pytest

from holdfast.net.http import HttpResponse, listen, parse_place
from tests.net.harness import live, until


async def asked(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize("hanging", [40, 300])
@live
async def test_hanging_connections_do_not_block_the_metrics(hanging: int) -> None:
    server = await listen(parse_place("127.0.0.1:0"), {"/metrics": lambda: HttpResponse("fine")})
    port = int(server.address.rpartition(":")[2])
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(hanging)]
    assert b"200 OK" in await asked(port)
    if hanging > 256:  # the first to come are the first to go
        await until(held[0][0].at_eof)
    for _, writer in held:
        writer.close()
    server.close()
