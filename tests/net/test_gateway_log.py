"""A gateway's log: what was appended is read back exactly, a crash loses only what nobody knew of, damage is told."""

import errno
import os
import struct
from pathlib import Path
from random import Random
from shutil import rmtree

import msgspec
import pytest

from holdfast.gateway.folder import GatewayFolder
from holdfast.store.log import GoneError, Log, Retention
from holdfast.store.logged import Logged, encode_row
from holdfast.store.segment import LogDamagedError

ID = "0123456789abcdef0123456789abcdef"
SMALL = Retention(keep_bytes=16_384, segment_bytes=4_096)
HOUR_US = 3_600_000_000


def row(number: int, size: int = 20) -> bytes:
    return encode_row(Logged("desk", number, 0, 0, "original", {"n": number}, b"x" * size))


def rows(*numbers: int) -> list[bytes]:
    return [row(number) for number in numbers]


def opened(folder: Path, retention: Retention | None = None, now_us: int = 0) -> Log:
    return Log(folder, ID, retention or Retention(), now_us)


def seqs(log: Log, lo: int, hi: int, bytes_aim: int = 2**40) -> list[int]:
    return [msgspec.msgpack.decode(each)[1] for each in log.read(lo, hi, bytes_aim)]


def last_file(folder: Path) -> Path:
    return sorted(folder.glob("*.events"))[-1]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_range_reads_as_the_same_range_of_a_list(tmp_path: Path) -> None:
    dice = Random(1)
    log, expected = opened(tmp_path, Retention(segment_bytes=2_000)), []
    while len(expected) < 500:
        batch = [row(len(expected) + each, dice.randrange(100)) for each in range(dice.randint(1, 20))]
        log.append(batch, now_us=1)
        expected += batch
    log.close()
    for log in (opened(tmp_path, Retention(segment_bytes=2_000)) for _ in range(2)):
        assert (log.oldest, log.end) == (0, len(expected))
        for _ in range(200):
            lo = dice.randrange(len(expected) + 1)
            hi = dice.randint(lo, len(expected))
            assert [bytes(each) for each in log.read(lo, hi, 2**40)] == expected[lo:hi]
        log.close()
    assert len(list(tmp_path.glob("*.events"))) > 10


def test_a_read_may_stop_early_but_not_before_one_event(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(10):
        log.append(rows(number), now_us=1)
    assert seqs(log, 3, 10, bytes_aim=1) == [3]


def test_a_write_cut_short_at_any_byte_is_cut_off_and_counted(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(rows(0, 1), now_us=1)
    whole = last_file(tmp_path).stat().st_size
    log.append(rows(2, 3), now_us=2)
    log.close()
    data = last_file(tmp_path).read_bytes()
    for cut in range(whole + 1, len(data)):
        last_file(tmp_path).write_bytes(data[:cut])
        log = opened(tmp_path)
        assert (log.end, log.torn_bytes) == (2, cut - whole)
        log.append(rows(4), now_us=3)
        assert seqs(log, 0, 3) == [0, 1, 4]
        log.close()
        last_file(tmp_path).write_bytes(data)


@pytest.mark.parametrize("damage", [b"\0" * 64, b"\xff" * 7, os.urandom(500)], ids=["zeros", "few bytes", "anything"])
def test_what_a_power_cut_leaves_at_the_end_is_cut_off(tmp_path: Path, damage: bytes) -> None:
    log = opened(tmp_path)
    log.append(rows(0, 1), now_us=1)
    log.close()
    good = last_file(tmp_path).read_bytes()
    last_file(tmp_path).write_bytes(good + damage)
    log = opened(tmp_path)
    assert (seqs(log, 0, 2), log.end, log.torn_bytes) == ([0, 1], 2, len(damage))
    log.close()
    assert last_file(tmp_path).read_bytes() == good


def test_a_flipped_bit_before_the_last_write_is_damage_and_nothing_is_touched(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(3):
        log.append(rows(number), now_us=1)
    log.close()
    data = last_file(tmp_path).read_bytes()
    length = (len(data) - 64) // 3  # three frames of one size behind the header
    for at in range(0, len(data) - length):
        bad = bytearray(data)
        bad[at] ^= 0x40
        last_file(tmp_path).write_bytes(bad)
        before = snapshot(tmp_path)
        with pytest.raises(LogDamagedError, match=r"\.events: "):
            opened(tmp_path)
        assert snapshot(tmp_path) == before


def test_damage_in_an_older_file_is_told_by_who_reads_it(tmp_path: Path) -> None:
    log = opened(tmp_path, SMALL)
    for number in range(100):
        log.append([row(number, 100)], now_us=1)
    log.close()
    first = sorted(tmp_path.glob("*.events"))[0]
    bad = bytearray(first.read_bytes())
    bad[-1] ^= 1
    first.write_bytes(bad)
    log = opened(tmp_path, SMALL)
    assert seqs(log, 60, 100) == list(range(60, 100))
    with pytest.raises(LogDamagedError, match="damaged at byte"):
        log.read(0, 100, 2**40)
    sorted(tmp_path.glob("*.events"))[1].unlink()
    with pytest.raises(LogDamagedError, match="missing"):
        log.read(40, 100, 2**40)


def test_another_version_or_another_file_is_refused_and_kept(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append(rows(0), now_us=1)
    log.close()
    file = last_file(tmp_path)
    good = file.read_bytes()
    for data, complaint in [
        (
            good[:8] + struct.pack("<H", 7) + good[10:],
            "written in format 7, this version reads 1; use a newer Holdfast",
        ),
        (b"PAR1" + good[4:], "not a file of a log"),
        (good[:20], "not a file of a log"),
        (b"", "not a file of a log"),
    ]:
        file.write_bytes(data)
        with pytest.raises(LogDamagedError, match=complaint):
            opened(tmp_path)
        assert file.read_bytes() == data
    file.write_bytes(good)
    with pytest.raises(LogDamagedError, match="belongs to another log"):
        Log(tmp_path, "f" * 32, Retention(), 0)
    file.rename(tmp_path / f"{7:020}.events")
    with pytest.raises(LogDamagedError, match="which does not agree with its name"):
        opened(tmp_path)


def test_the_oldest_files_are_dropped_when_there_are_too_many_bytes(tmp_path: Path) -> None:
    log = opened(tmp_path, SMALL)
    for number in range(300):
        log.append([row(number, 100)], now_us=1)
        log.drop_old(now_us=1)
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= SMALL.keep_bytes + 4_096
    assert log.end == 300
    assert log.oldest == log.dropped_unread > 150
    with pytest.raises(GoneError, match=f"event 5 is no longer in the log, which begins at {log.oldest}") as caught:
        log.read(5, 300, 2**40)
    assert caught.value.oldest == log.oldest
    assert seqs(log, log.oldest, 300) == list(range(log.oldest, 300))
    log.close()
    again = opened(tmp_path, SMALL)
    assert (again.oldest, again.end) == (log.oldest, 300)


def test_files_whose_events_are_too_old_are_dropped_even_if_nothing_new_comes(tmp_path: Path) -> None:
    log = opened(tmp_path, Retention(keep_s=3_600, segment_bytes=200))
    log.append([row(0, 300)], now_us=1)
    log.append([row(1, 300)], now_us=HOUR_US // 2)
    log.drop_old(now_us=HOUR_US)
    assert log.oldest == 0
    log.drop_old(now_us=HOUR_US + 2)
    assert log.oldest == 1
    log.drop_old(now_us=2 * HOUR_US)
    assert (log.oldest, log.end) == (2, 2)
    log.append(rows(2), now_us=2 * HOUR_US)
    assert seqs(log, 2, 3) == [2]


@pytest.mark.parametrize(("drops", "left"), [(False, 0), (True, 2)])
def test_an_acknowledgement_is_a_hint_that_counts_only_when_asked_for(tmp_path: Path, drops: bool, left: int) -> None:
    log = opened(tmp_path, Retention(segment_bytes=200, drop_acknowledged=drops))
    for number in range(4):
        log.append([row(number, 300)], now_us=1)
    log.acknowledge("fast", 4)
    log.acknowledge("slow", 2)
    log.drop_old(now_us=1)
    assert (log.oldest, log.dropped_unread) == (left, 0)


def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path)
    log.append(rows(0), now_us=1)

    def refuse(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", refuse)
        before = snapshot(tmp_path)
        with pytest.raises(OSError, match="No space"):
            log.append(rows(1), now_us=2)
        assert snapshot(tmp_path) == before
    assert log.end == 1
    log.append(rows(2), now_us=3)
    log.close()
    assert seqs(opened(tmp_path), 0, 2) == [0, 2]


def test_a_log_whose_folder_was_removed_begins_anew_and_tells_what_is_gone(tmp_path: Path) -> None:
    """Else it would write to a file that nobody can open any more."""
    folder = tmp_path / "log"
    folder.mkdir()
    log = opened(folder)
    log.append(rows(1, 2, 3), now_us=1)
    rmtree(folder)
    log.append(rows(4, 5), now_us=2)
    assert (log.removed, log.oldest, log.end) == (3, 3, 5)
    with pytest.raises(GoneError):
        log.read(0, 5, 2**40)
    log.close()
    log = opened(folder)
    assert seqs(log, 3, 5) == [4, 5]
    log.close()


def test_a_log_that_lost_one_of_its_files_refuses_to_go_on(tmp_path: Path) -> None:
    log = opened(tmp_path, SMALL)
    while len(log.firsts) == 1:
        log.append(rows(*range(100)), now_us=1)
    last_file(tmp_path).unlink()
    with pytest.raises(OSError, match=r"\.events was removed"):
        log.append(rows(1), now_us=2)
    log.close()


def test_the_newest_ids_are_read_back_for_recognising_duplicates(tmp_path: Path) -> None:
    log = opened(tmp_path, SMALL)
    for number in range(60):
        log.append([row(number, 100)], now_us=1)
    assert list(log.recent_ids(2**40)) == [("desk", number) for number in range(60)]
    recent = list(log.recent_ids(5_000))
    assert 5 < len(recent) < 60
    assert recent[-1] == ("desk", 59)


def test_one_folder_has_one_gateway_at_a_time(tmp_path: Path) -> None:
    first = GatewayFolder(tmp_path / "gw", None, now_us=5)
    with pytest.raises(Exception, match="a gateway uses this folder already"):
        GatewayFolder(tmp_path / "gw", None, now_us=6)
    first.close()
    second = GatewayFolder(tmp_path / "gw", None, now_us=7)
    assert second.identity == first.identity
    second.close()
    with pytest.raises(Exception, match=f"this is the folder of the gateway {first.identity.name}, not other"):
        GatewayFolder(tmp_path / "gw", "other", now_us=8)
    for damage, complaint in [('{"format": 9}', "written in format 9"), ("{", "damaged"), ('{"format": 1}', "damaged")]:
        (tmp_path / "gw" / "gateway.json").write_text(damage)
        with pytest.raises(Exception, match=complaint):
            GatewayFolder(tmp_path / "gw", None, now_us=9)
        assert (tmp_path / "gw" / "gateway.json").read_text() == damage
