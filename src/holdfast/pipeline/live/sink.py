"""Publish the rows of a table through a gateway: `df.writeStream.format("holdfast")`, and `df.write` for one batch.

Tasks stage their rows with the gateway, which keeps them durably; the driver then commits the batch, and only then are
they published. A batch that Spark runs again after a crash has the same query and number, so the gateway knows that
it is committed and publishes nothing twice. Attempts of one task do not mix: each stages under a token of its own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from holdfast.gateway.client import BlockingGateway, GatewayClient, chunks
from holdfast.gateway.folder import running_at
from holdfast.gateway.messages import EventToPublish, Part
from holdfast.model.errors import InputError
from holdfast.net.address import parse_address
from holdfast.net.tls import TlsFiles
from holdfast.pipeline.live.columns import ColumnEvents
from holdfast.pipeline.live.options import StreamOptions


@dataclass
class StagedPart(WriterCommitMessage):
    """What one task tells the driver."""

    query: str
    part: Part


class _Staging:
    """What both writers do: stage in a task, commit or abort on the driver."""

    def __init__(self, schema: StructType, options: StreamOptions) -> None:
        self._options = options
        self._events = ColumnEvents(schema)
        self._address = parse_address(gateway_address(options))

    def _gateway(self) -> BlockingGateway:
        options = self._options
        tls = TlsFiles(options.certificate, options.key, options.ca)
        return BlockingGateway(GatewayClient(self._address, tls, options.patience_s, wait_for_it=True))

    def stage(self, query: str, batch: int, tables: Iterator[pa.RecordBatch]) -> StagedPart:
        task = TaskContext.get()
        assert task is not None
        with self._gateway() as gateway:
            part = gateway.do(gateway.client.stage(query, batch, task.partitionId(), self._chunks(tables)))
        for _ in tables:
            pass  # the rest of a batch that is committed already: Spark wants its rows to be taken
        return StagedPart(query, part)

    def _chunks(self, tables: Iterator[pa.RecordBatch]) -> Iterator[list[EventToPublish]]:
        lifetime_us = self._options.lifetime_us
        rows = (
            EventToPublish(attributes, payload, lifetime_us)
            for attributes, payload in chain.from_iterable(map(self._events.events, tables))
        )
        return chunks(rows)

    def commit_parts(self, batch: int, messages: Iterable[WriterCommitMessage | None]) -> None:
        staged = [each for each in messages if isinstance(each, StagedPart)]
        if staged:  # a batch without a single partition has nothing to publish
            with self._gateway() as gateway:
                gateway.do(gateway.client.commit(staged[0].query, batch, [each.part for each in staged]))

    def abort_parts(self, batch: int, messages: Iterable[WriterCommitMessage | None]) -> None:
        staged = [each for each in messages if isinstance(each, StagedPart)]
        if staged:
            with self._gateway() as gateway:
                gateway.do(gateway.client.abort(staged[0].query, batch, [each.part for each in staged]))


class LiveStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, schema: StructType, options: StreamOptions) -> None:
        self._staging = _Staging(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:
        task = TaskContext.get()
        assert task is not None
        query = task.getLocalProperty("sql.streaming.queryId")
        batch = task.getLocalProperty("streaming.sql.batchId")
        assert query is not None and batch is not None, "Spark does not say which batch this is"
        return self._staging.stage(query, int(batch), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._staging.commit_parts(batchId, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._staging.abort_parts(batchId, messages)


class LiveBatchWriter(DataSourceArrowWriter):
    """One table, published once: the whole write is one batch, of the query that options name or of one of its own."""

    def __init__(self, schema: StructType, overwrite: bool, options: StreamOptions) -> None:
        if overwrite:
            raise InputError("published events cannot be overwritten; use mode append")
        self._staging = _Staging(schema, options)
        self._query = options.query or f"write-{uuid4().hex}"
        self._batch = options.batch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:
        return self._staging.stage(self._query, self._batch, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._staging.commit_parts(self._batch, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._staging.abort_parts(self._batch, messages)


def gateway_address(options: StreamOptions) -> str:
    """The gateway that was named, or the one that uses the named folder now."""
    if options.gateway is not None:
        return options.gateway
    assert options.log is not None
    address = running_at(options.log)
    if address is None:
        broker = options.broker[0] if options.broker else "ADDRESS"
        raise InputError(
            f"no gateway runs in {options.log}; start one: holdfast gateway --broker {broker} --log {options.log}"
        )
    return address
