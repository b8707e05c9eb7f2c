"""Output that nobody reads does not stop the loop, and is not waited for."""

import asyncio
import os

import pytest

from holdfast.cli.slow_output import SlowOutput


@pytest.fixture
def pipe() -> tuple[int, int]:
    return os.pipe()


def test_everything_is_written_in_order(pipe: tuple[int, int]) -> None:
    reader, writer = pipe

    async def write() -> None:
        output = SlowOutput(writer)
        for number in range(5):
            await output.write(b"%d\n" % number)

    asyncio.run(write())
    assert os.read(reader, 100) == b"0\n1\n2\n3\n4\n"


def test_a_pipe_that_nobody_reads_does_not_stop_the_loop_and_can_be_given_up(pipe: tuple[int, int]) -> None:
    _, writer = pipe

    async def write() -> int:
        stuck = asyncio.create_task(SlowOutput(writer).write(bytes(2**20)))  # more than a pipe holds
        turns = 0
        while turns < 100 and not stuck.done():
            await asyncio.sleep(0)
            turns += 1
        stuck.cancel()
        return turns

    assert asyncio.run(write()) == 100


def test_a_reader_that_has_gone_is_told_to_whoever_writes(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        asyncio.run(SlowOutput(writer).write(b"anybody?"))
