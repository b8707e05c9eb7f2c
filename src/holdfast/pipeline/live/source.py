"""The Spark data source `holdfast`: a gateway's log as a streaming or batch table, and the sink beside it.

    spark.readStream.format("holdfast").option("gateway", "tcp://127.0.0.1:7100").option("condition", "price < 10")

Offsets are those of the log, together with its id. A micro-batch is a range of offsets and its tasks are parts of that
range, so a batch that Spark runs again after a crash reads exactly the same events. Only what is on the gateway's disk
has an offset. An offset that retention has dropped, or of a log that was replaced, fails the query unless
`failOnDataLoss` is false.
"""

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from holdfast.gateway.client import BlockingGateway, GatewayClient
from holdfast.gateway.dialling import BusSpace, addresses_of
from holdfast.gateway.embedded import EmbeddedGateway
from holdfast.gateway.folder import running_at
from holdfast.gateway.messages import StreamState
from holdfast.model.errors import HoldfastError, InputError
from holdfast.net.address import parse_address
from holdfast.net.tls import TlsFiles
from holdfast.pipeline.live.columns import DEFAULT_SCHEMA, EventColumns
from holdfast.pipeline.live.options import DEFAULT_STREAM, StreamOptions, stream_options
from holdfast.pipeline.live.sink import LiveBatchWriter, LiveStreamWriter, gateway_address
from holdfast.store.log import GoneError


class HoldfastSource(DataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._options = stream_options(options)
        # So that a wrong one is told when the table is named, not when it is read.
        addresses_of(self._options.broker)
        if self._options.gateway is not None:
            parse_address(self._options.gateway)

    @classmethod
    def name(cls) -> str:
        return "holdfast"

    def schema(self) -> StructType:
        return DEFAULT_SCHEMA

    def reader(self, schema: StructType) -> "LiveBatchReader":
        return LiveBatchReader(schema, self._options)

    def streamReader(self, schema: StructType) -> "LiveStreamReader":
        return LiveStreamReader(schema, self._options)

    def writer(self, schema: StructType, overwrite: bool) -> LiveBatchWriter:
        return LiveBatchWriter(schema, overwrite, self._options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LiveStreamWriter:
        return LiveStreamWriter(schema, self._options)


@dataclass
class LogRange(InputPartition):
    """What one task reads, and from where: tasks do not look for the gateway themselves."""

    gateway: str
    stream: StreamState
    lo: int
    hi: int


class _Tasks:
    """Split a range of the log into tasks, and do one."""

    def __init__(self, schema: StructType, options: StreamOptions) -> None:
        self._options = options
        self._columns = EventColumns(schema, options.permissive)

    def split(self, gateway: str, stream: StreamState, lo: int, hi: int) -> list[LogRange]:
        step = self._options.rows_per_partition
        return [LogRange(gateway, stream, at, min(at + step, hi)) for at in range(lo, hi, step)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, LogRange):
            return  # what Spark makes up when there are none
        lo = partition.lo
        with connect(partition.gateway, self._options, wait_for_it=True) as gateway:
            while lo < partition.hi:
                try:
                    for rows in gateway.each(gateway.client.batches(partition.stream, lo, partition.hi)):
                        yield self._columns.batch(rows.first, rows.rows)
                        lo = rows.first + len(rows.rows)
                except GoneError as problem:
                    if self._options.fail_on_data_loss:
                        raise _data_loss(partition.stream.name, str(problem)) from None
                    lo = max(lo, problem.oldest)


class LiveBatchReader(DataSourceReader):
    """The log as it is when the query is planned."""

    def __init__(self, schema: StructType, options: StreamOptions) -> None:
        self._options = options
        self._tasks = _Tasks(schema, options)

    def partitions(self) -> list[LogRange]:
        address = gateway_address(self._options)
        with connect(address, self._options) as gateway:
            stream = stream_of(gateway, self._options)
        lo, hi = _place(self._options.starting_offset, stream), _place(self._options.ending_offset, stream)
        if hi > stream.end:
            raise InputError(f"option endingOffset is {hi}, but the stream {stream.name} ends at {stream.end}")
        if lo < stream.oldest and self._options.fail_on_data_loss:
            raise _data_loss(stream.name, f"event {lo} is no longer in the log, which begins at {stream.oldest}")
        return self._tasks.split(address, stream, max(lo, stream.oldest), hi)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._tasks.read(partition)


class LiveStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """On the driver it knows the gateway and where the log ends; in a task it only reads."""

    def __init__(self, schema: StructType, options: StreamOptions) -> None:
        self._options = options
        self._tasks = _Tasks(schema, options)
        self._target: int | None = None  # with AvailableNow: where to stop
        self._address = ""
        self._gateway: BlockingGateway | None = None
        self._embedded: EmbeddedGateway | None = None
        self._name = ""

    def _now(self) -> StreamState:
        """The stream as it is now."""
        if self._gateway is None:
            self._address = self._find_gateway()
            self._gateway = connect(self._address, self._options)
            self._name = stream_of(self._gateway, self._options).name
        return self._gateway.do(self._gateway.client.ends(self._name))

    def _find_gateway(self) -> str:
        options = self._options
        if options.gateway is not None or options.log is None or not options.broker:
            return gateway_address(options)
        running = running_at(options.log)
        if running is not None:
            return running
        tls = TlsFiles(options.certificate, options.key, options.ca)
        bus = BusSpace(options.space, options.lanes, options.body)
        self._embedded = EmbeddedGateway(options.log.absolute(), options.broker, tls, options.listen, bus)
        return self._embedded.address

    def initialOffset(self) -> dict[str, Any]:
        now = self._now()
        return _offset(now, _place(self._options.starting_offset, now))

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.rows_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._now().end

    def reportLatestOffset(self) -> dict[str, Any]:
        now = self._now()
        return _offset(now, now.end)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        now = self._now()
        begin = self._beginning(start, now)
        end = now.end if self._target is None else min(now.end, self._target)
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        elif isinstance(limit, ReadMinRows) and end - begin < limit.min_rows and self._target is None:
            end = begin
        return _offset(now, end) if end > begin else start

    def _beginning(self, start: dict[str, Any], now: StreamState) -> int:
        """Where a batch that begins at an offset really begins: later only if data may be lost, and was."""
        problem = _lost(start, now)
        if problem is None:
            return int(start["offset"])
        if self._options.fail_on_data_loss:
            raise _data_loss(now.name, problem)
        return now.oldest

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[LogRange]:
        now = self._now()
        if end["log"] != now.log or end["offset"] > now.end:  # a batch that was planned on what is no longer there
            if self._options.fail_on_data_loss:
                raise _data_loss(now.name, _lost(end, now) or "")
            return []
        return self._tasks.split(self._address, now, self._beginning(start, now), int(end["offset"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._tasks.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        now = self._now()
        if end["log"] == now.log and self._gateway is not None:
            self._gateway.do(self._gateway.client.acknowledge(now, self._options.reader, int(end["offset"])))

    def stop(self) -> None:
        if self._gateway is not None:
            self._gateway.close()
            self._gateway = None
        if self._embedded is not None:
            self._embedded.stop()
            self._embedded = None


def connect(address: str, options: StreamOptions, wait_for_it: bool = False) -> BlockingGateway:
    tls = TlsFiles(options.certificate, options.key, options.ca)
    return BlockingGateway(GatewayClient(parse_address(address), tls, options.patience_s, wait_for_it))


def stream_of(gateway: BlockingGateway, options: StreamOptions) -> StreamState:
    try:
        if options.condition is not None:
            return gateway.do(gateway.client.open(options.condition, options.stream))
        return gateway.do(gateway.client.ends(options.stream or DEFAULT_STREAM))
    except HoldfastError as problem:
        raise InputError(" ".join(str(problem).split())) from None  # in one line, as all that Spark shows of ours


def _offset(stream: StreamState, offset: int) -> dict[str, Any]:
    return {"log": stream.log, "offset": offset}


def _place(asked: int | str, stream: StreamState) -> int:
    return {"earliest": stream.oldest, "latest": stream.end}[asked] if isinstance(asked, str) else asked


def _lost(start: dict[str, Any], now: StreamState) -> str | None:
    if start["log"] != now.log:
        return f"the checkpoint is of another log ({start['log']}) than the stream has now ({now.log})"
    if start["offset"] < now.oldest:
        return f"event {start['offset']} is no longer in the log, which begins at {now.oldest}"
    if start["offset"] > now.end:
        return f"the log ends at {now.end}, before event {start['offset']}: is it an older copy?"
    return None


def _data_loss(stream: str, problem: str) -> InputError:
    return InputError(
        f"stream {stream}: {problem}; keep more (holdfast gateway --keep-mb, --keep-hours), "
        "or set option failOnDataLoss to false to continue without them"
    )
