"""Clients of a bus who share a key for digests, and somebody who does not."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.carriers.memory import MemoryBus
from holdfast.model.errors import InputError
from holdfast.model.messages import Publication, Publish
from holdfast.net.signing import Signing
from holdfast.protocol.records import RecordSettings, RecordWriter
from holdfast.protocol.recovery.control import Digest, encoded, labels
from holdfast.protocol.settings import Guarantees
from holdfast.wire.codec import encode_message
from tests.carriers import riding
from tests.net.harness import live, settled, take, until, values


@pytest.mark.parametrize("shared", [False, True], ids=["plain", "blinded"])
@live
async def test_over_a_bus_a_forged_digest_deceives_only_who_shares_no_key(tmp_path: Path, shared: bool) -> None:
    (tmp_path / "digests.key").write_text(f"{bytes(32).hex()}\n")
    key = str(tmp_path / "digests.key") if shared else None
    quick = replace(riding.QUICK, search_us=200_000, retry_us_max=50_000)
    bus = MemoryBus(seed=3)
    async with (
        riding.client(bus, "feed", riding.RECOVERS, signing=Signing(digest_key=key)) as feed,
        riding.client(bus, "desk", Guarantees(quick), signing=Signing(digest_key=key)) as desk,
        riding.client(bus, "mallory", riding.RECOVERS) as mallory,
    ):
        wanted = desk.subscribe("n >= 0")
        await settled(desk, feed)
        for n in range(10):
            await feed.publish({"n": n})
        await feed.flush()
        assert sorted(values(await take(wanted, 10))) == list(range(10))
        first = feed._machine.last_seq - 9
        now_us = mallory.driver.now_us()
        writer = RecordWriter(RecordSettings(time_unit_us=1_024), first + 10, 100)
        for n in range(10):
            writer.add({"n": n}, now_us)
        digest = Digest(now_us, first + 19, first, writer.digest(first + 10, first + 19, now_us, with_book=True))
        control = Publication("feed", 0, now_us, None, labels(digest, (), "feed"), encoded(digest))
        (link,) = mallory.driver.links.values()
        mallory.driver.send(link, encode_message(Publish(control)))
        if shared:
            await until(lambda: "bad_recovery_message" in desk.counters.incidents)
            await feed.publish({"n": 10})
            assert values(await take(wanted, 1)) == [10] and not desk.losses()
        else:
            async with asyncio.timeout(20):
                loss = await anext(aiter(desk.losses()))
            assert loss.source == "feed"


def test_a_file_without_a_digest_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "digests.key").write_text("zz\n")
    with pytest.raises(InputError, match=r"digest key .*line 1: expected hexadecimal"):
        Signing(digest_key=str(tmp_path / "digests.key")).parts()
