"""A gateway as a child of the program that needs one, for as long as that program lives.

For a query that reads from a broker without a gateway of its own running somewhere. The log is as durable as any, but
nobody listens while the query is not running, so what is published then is not in it. The child (`child_process`) ends
when its standard input does, which the operating system sees to even when the parent is killed.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from holdfast.gateway.dialling import BusSpace
from holdfast.model.errors import InputError, TransportError
from holdfast.net.tls import TlsFiles

_PROGRAM = "import sys; from holdfast.gateway.child_process import serve; serve(*sys.argv[1:])"
_STOP_S = 10.0


class EmbeddedGateway:
    def __init__(self, folder: Path, brokers: Sequence[str], tls: TlsFiles, listen: str, bus: BusSpace) -> None:
        given = list(brokers), [tls.certificate, tls.key, tls.ca], [bus.space, bus.lanes, bus.body]
        command = [sys.executable, "-c", _PROGRAM, str(folder), listen, *map(json.dumps, given)]
        # Not our standard error: Spark takes what its workers write there for a sign of trouble.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        try:
            answer = json.loads(line)
        except ValueError:
            self.stop()
            raise TransportError(f"the gateway for {folder} did not start") from None
        if "problem" in answer:
            self.stop()
            raise InputError(f"the gateway for {folder} did not start: {answer['problem']}")
        self.address: str = answer["listen"]

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
