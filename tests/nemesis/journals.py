"""Journals of a run that never took place: a publisher, a subscriber, and everything as it should be."""

from pathlib import Path
from typing import Any

from holdfast.nemesis.journal import JournalWriter, Line, fingerprint
from holdfast.nemesis.judge.evidence import evidence_in
from holdfast.nemesis.judge.verdict import Judgement, Rules, judge

S = 1_000_000
CONDITION = "n > 2 AND symbol LIKE 'A%'"
END = 100 * S
RULES = Rules(
    names_losses=True,
    by_incident=False,
    in_order=True,
    stores=False,
    keeps=False,
    settle_us=2 * S,
    slack_us=S,
    search_us=8 * S,
    again_us=S,
)


class Journals:
    """Lines of each process, to be changed before they are judged; times are seconds from the start of the run."""

    def __init__(self, events: int = 20) -> None:
        self.publisher: list[Line] = [line("begin", 0, node="p", life=0)]
        self.subscriber: list[Line] = [
            line("begin", 0, node="s", life=0),
            line("sub", 0, sub="a", condition=CONDITION),
            line("subscribed", 0.1, sub="a"),
        ]
        self.nemesis: list[Line] = []
        self.others: dict[str, list[Line]] = {}
        for number in range(1, events + 1):  # one a second from 10 s on; the first two do not match
            event, at_s = {"n": number, "symbol": "ABC"}, 9 + number
            self.publisher += [
                line("pub", at_s, id=f"p/0/{number}", event=event, print=fingerprint(event)),
                line("sent", at_s + 0.001, id=f"p/0/{number}", seq=1000 + number),
                line("flushed", at_s + 0.25, upto=number),
            ]
            if number > 2:
                self.subscriber.append(got(number, at_s + 0.01))
        self.publisher.append(line("end", 100))
        self.subscriber.append(line("end", 100))

    @property
    def deliveries(self) -> list[Line]:
        return [each for each in self.subscriber if each["k"] == "got"]

    def add(self, *lines: Line) -> None:
        """To what the subscriber wrote, before its last line."""
        self.subscriber[-1:-1] = lines

    def drop(self, *numbers: int) -> None:
        gone = {f"p/0/{number}" for number in numbers}
        self.subscriber = [each for each in self.subscriber if each.get("id") not in gone]

    def judged(self, folder: Path, **changes: Any) -> Judgement:
        (folder / "journals").mkdir()
        for name, lines in {"client-p-0": self.publisher, "client-s-0": self.subscriber, **self.others}.items():
            JournalWriter(folder / "journals" / f"{name}.jsonl").write_all(lines)
        JournalWriter(folder / "nemesis.jsonl").write_all(self.nemesis)
        return judge(evidence_in(folder), Rules(**{**vars(RULES), **changes}))


def line(kind: str, at_s: float, /, **fields: Any) -> Line:
    return {"k": kind, "t": int(at_s * S), **fields}


def got(number: int, at_s: float, sub: str = "a") -> Line:
    return line("got", at_s, sub=sub, id=f"p/0/{number}", print=fingerprint({"n": number, "symbol": "ABC"}))


def lost(at_s: float, **fields: Any) -> Line:
    plain = {"source": "", "first": 0, "last": 0, "events": 0, "since_us": 0, "until_us": 0, "reason": "a test"}
    return line("lost", at_s, **{**plain, **fields})
