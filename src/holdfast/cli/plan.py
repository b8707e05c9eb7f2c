"""`holdfast plan`: predict what every subscriber will get, before anything runs."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.spark_options import Conf, Master, Packages, spark_settings
from holdfast.model.errors import InputError

if TYPE_CHECKING:
    from holdfast.network.schema import Network
    from holdfast.network.settings import PlanSettings
    from holdfast.planner.advice import Advice
    from holdfast.planner.loss import Forecast
    from holdfast.planner.pairs import Predictor
    from holdfast.planner.plan import Case, Endpoints, SubscriberPrediction
    from holdfast.protocol.recovery.settings import RecoverySettings

_ROWS_MAX = 40  # subscribers in the table on a screen; --json and --out have all
_TARGET = 0.99  # what a recommendation is for where nobody has said anything
_FEW = 12  # components in the ranking

_OnSpark = Annotated[bool, typer.Option("--spark", help="Predict on Spark, for large networks and many cases.")]


def run(
    path: Annotated[str, typer.Argument(metavar="FILE", help="A network file.")],
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one value.")] = None,
    target: Annotated[
        float | None,
        typer.Option(help="The share that every subscriber is to receive, from 0 to 1, instead of the file's."),
    ] = None,
    endpoints: Annotated[
        str | None, typer.Option(metavar="counted|assumed-up", help="Whether the end brokers may fail.")
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(metavar="CHANGE", help="A case beside the file's: 'remove b3', 'b1-b2=0.999', 'b3.mttr_s=60'."),
    ] = None,
    admit: Annotated[
        str | None, typer.Option(metavar="BROKER", help="Whether a new subscriber at this broker would receive enough.")
    ] = None,
    wants: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="The new subscriber's condition. [default: TRUE]")
    ] = None,
    rank: Annotated[bool, typer.Option(help="Rank the components whose improvement helps most.")] = True,
    picture: Annotated[Path | None, typer.Option(help="Draw the network into this SVG file.")] = None,
    spark: _OnSpark = False,
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    out: Annotated[Path | None, typer.Option(help="With --spark: the folder for the table of predictions.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Predict what share of its events each subscriber will receive.

    Counts what arrives within its lifetime, for the schemes basic, multipath, retransmission and hybrid, from cheap
    to expensive. Recommends the cheapest that gives every subscriber the target.

    Exit code 0: done. 1: no scheme reaches the target that was asked for, or a new subscriber is refused. 2: the file
    or an option is invalid.

    \b
    Example:
      holdfast init --preset planning-10 net.toml
      holdfast plan net.toml --target 0.9 --what-if 'b3=0.999' --picture net.svg
      holdfast plan net.toml --admit b4 --wants 'p1 = TRUE'
      holdfast plan large.toml --spark --out predictions
    """
    from holdfast.network.document import settings_from
    from holdfast.network.load import load

    network = load(path, settings_from(settings or ()))
    asked = _settings(network.plan, target, endpoints)
    for warning in network.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    given = spark_settings(conf, packages)
    _check_together(admit, wants, bool(what_if), picture, spark, bool(master or given), out)
    if network.carrier is not None:
        if admit is not None or what_if or picture is not None or spark:
            raise InputError("--admit, --what-if, --picture and --spark are about brokers; this file has a [carrier]")
        _plan_bus(network, asked, as_json)
        return
    if admit is not None:
        _admit(network, asked, admit, "TRUE" if wants is None else wants, as_json)
        return
    if out is not None:
        _plan_on_spark(network, asked, what_if or (), out, master, given, as_json)
        return
    result = _plan(network, asked, what_if or (), rank)
    if picture is not None:
        _draw(result, asked, picture)
    print(json.dumps(result.as_json(asked)) if as_json else result.text(asked))
    if asked.target is not None and result.advice.scheme is None:
        raise typer.Exit(1)


def _plan_bus(network: "Network", asked: "PlanSettings", as_json: bool) -> None:
    from holdfast.cli.plan_bus import advice_for, bus_text
    from holdfast.planner.bus import predict_bus

    predictions = predict_bus(network, _digests(network).told)
    if not any(each.owed_per_s for each in predictions):
        raise InputError(f"{network.name}: nobody is owed anything; there is nothing to predict")
    recovery, words = advice_for(predictions, _TARGET if asked.target is None else asked.target)
    if as_json:
        rows = [each.as_json() for each in predictions]
        print(json.dumps({"network": network.name, "recovery": recovery, "words": words, "subscribers": rows}))
    else:
        print(bus_text(network, predictions, words))
    if asked.target is not None and recovery is None:
        raise typer.Exit(1)


def _check_together(
    admit: str | None,
    wants: str | None,
    what_if: bool,
    picture: Path | None,
    spark: bool,
    is_spark_meant: bool,
    out: Path | None,
) -> None:
    """What options do not go together, before anything is computed."""
    _check_picture(picture)
    if wants is not None and admit is None:
        raise InputError("--wants goes with --admit BROKER")
    if admit is not None and (what_if or picture):
        raise InputError("--admit answers one question: --what-if and --picture do not go with it")
    if admit is not None and spark:
        raise InputError("--admit is answered on this machine: --spark does not go with it")
    if spark and picture is not None:
        raise InputError("--picture goes with a plan on this machine, not with --spark")
    if spark and out is None:
        raise InputError("--spark writes a table; add --out FOLDER")
    if not spark and (is_spark_meant or out is not None):
        raise InputError("--master, --conf, --packages and --out go with --spark")


def _check_picture(picture: Path | None) -> None:
    if picture is None:
        return
    if picture.suffix != ".svg":
        raise InputError(f"--picture {picture}: expected the name of an SVG file, such as net.svg")
    try:
        if not picture.parent.is_dir() or picture.is_dir():
            why = "it is a folder" if picture.is_dir() else "there is no such folder"
            raise InputError(f"--picture {picture}: {why}")
    except OSError as problem:  # such as a name that is too long
        raise InputError(f"--picture {picture}: {problem.strerror}") from None


def _settings(plan: "PlanSettings", target: float | None, endpoints: str | None) -> "PlanSettings":
    if target is not None and not 0 < target <= 1:
        raise InputError(f"--target {target:g}: expected a share above 0, up to 1")
    if endpoints not in (None, "counted", "assumed-up"):
        raise InputError(f'--endpoints {endpoints}: expected "counted" or "assumed-up"')
    return replace(
        plan,
        target=plan.target if target is None else target,
        endpoints=endpoints or plan.endpoints,  # type: ignore[arg-type]
    )


@dataclass(frozen=True)
class _Result:
    name: str
    case: "Case"
    predictions: list["SubscriberPrediction"]
    advice: "Advice"
    cases: dict[str, "Advice"]  # by the words of --what-if
    ranked: bool
    losses: list["Forecast"]  # where links lose messages

    def as_json(self, asked: "PlanSettings") -> dict[str, object]:
        lifetime_s = self.case.lifetime_s
        return {
            "network": self.name,
            "endpoints": asked.endpoints,
            "target": self.advice.target,
            "lifetime_s": lifetime_s,
            "recommendation": _advice_json(self.advice),
            "what_if": {words: _advice_json(advice) for words, advice in self.cases.items()},
            "losses": [each.as_json() for each in self.losses],
            "subscribers": [each.as_json(asked.endpoints, lifetime_s) for each in self.predictions],
        }

    def text(self, asked: "PlanSettings") -> str:
        from holdfast.planner.advice import can_rank
        from holdfast.planner.plan import SCHEMES

        other: Endpoints = "assumed-up" if asked.endpoints == "counted" else "counted"
        lines = [f"{self.name}: share of events that arrive within their lifetime, end brokers {asked.endpoints}", ""]
        lines += _table(self.predictions, asked)
        lines += ["", f"  {'':<16}" + "".join(f"{scheme:>16}" for scheme in SCHEMES)]
        lines.append(f"  {'mean':<16}" + "".join(f"{self.advice.means[each]:>16.6f}" for each in SCHEMES))
        lines.append(f"  {'least':<16}" + "".join(f"{self.advice.least[each][1]:>16.6f}" for each in SCHEMES))
        means = [_mean(self.predictions, each, other) for each in SCHEMES]
        lines.append(f"  {'mean, ' + other:<16}" + "".join(f"{each:>16.6f}" for each in means))
        for words, advice in self.cases.items():
            lines += ["", f"  what if {words}"]
            lines.append(f"  {'mean':<16}" + "".join(f"{advice.means[each]:>16.6f}" for each in SCHEMES))
            lines.append(f"  {'least':<16}" + "".join(f"{advice.least[each][1]:>16.6f}" for each in SCHEMES))
            lines.append(f"  {advice.words()}")
        if self.advice.gains:
            lines += ["", f"  what helps most with {self.advice.about}, if it never failed"]
            lines.append(f"  {'':<16}{'up now':>16}{'mean gain':>16}{'of the least':>16}")
            lines += [
                f"  {gain.component:<16}{gain.availability:>16.6f}{gain.mean:>16.6f}{gain.worst:>16.6f}"
                for gain in self.advice.gains[:_FEW]
            ]
        elif self.ranked:
            none_fails = "in this file no broker and no link ever fails"
            too_many = "too many components to try each; ask with --what-if"
            lines += ["", f"  {none_fails if can_rank(self.case.overlay) else too_many}"]
        if self.losses:
            lines += ["", "  links lose messages; approximately delivered, by mechanism, and extra transmissions"]
            for each in self.losses:
                extra = "" if each.overhead is None else f"{each.overhead:>16.4f}"
                lines.append(f"  {each.mechanism:<26}{each.delivered:>16.6f}{extra}")
        return "\n".join([*lines, "", self.advice.words()])


def _mean(predictions: Sequence["SubscriberPrediction"], scheme: str, endpoints: "Endpoints") -> float:
    return sum(each.of(scheme, endpoints) for each in predictions) / len(predictions)


def _table(predictions: Sequence["SubscriberPrediction"], asked: "PlanSettings") -> list[str]:
    from holdfast.planner.plan import SCHEMES

    lines = [f"  {'subscriber':<16}{'broker':<10}" + "".join(f"{each:>16}" for each in SCHEMES) + "  method"]
    for each in predictions[:_ROWS_MAX]:
        values = "".join(f"{each.of(scheme, asked.endpoints):>16.6f}" for scheme in SCHEMES)
        error = f" ±{each.error:.5f}" if each.error else ""
        lines.append(f"  {each.subscriber:<16}{each.broker:<10}{values}  {each.method}{error}")
    if len(predictions) > _ROWS_MAX:
        lines.append(f"  and {len(predictions) - _ROWS_MAX:,} more; --json has them all")
    return lines


def _advice_json(advice: "Advice") -> dict[str, object]:
    return {
        "scheme": advice.scheme,
        "words": advice.words(),
        "binding_subscriber": advice.least[advice.about][0],
        "means": advice.means,
        "least": {scheme: {"subscriber": who, "value": value} for scheme, (who, value) in advice.least.items()},
        "components": [
            {"component": each.component, "availability": each.availability, "mean": each.mean, "least": each.worst}
            for each in advice.gains
        ],
    }


def _plan(network: "Network", asked: "PlanSettings", what_if: Sequence[str], rank: bool) -> _Result:
    from holdfast.planner.advice import advise, can_rank, gains
    from holdfast.planner.pairs import Predictor
    from holdfast.planner.plan import case_of, predict
    from holdfast.planner.what_if import changed

    case = case_of(network)
    if not case.demand.subscribers or not case.demand.origins:
        raise InputError(f"{network.name}: nobody subscribes or nobody publishes; there is nothing to predict")
    others = {words: changed(case, words) for words in what_if}  # all are understood before the first is computed
    target = _TARGET if asked.target is None else asked.target

    def predictor(of: "Case") -> "Predictor":
        return Predictor(of.overlay, asked.samples, f"{network.seed}/plan")

    used = predictor(case)
    predictions = list(predict(case, used))
    advice = advise(predictions, target, asked.endpoints)
    if rank and can_rank(case.overlay):
        found = gains(case, used, advice.about, asked.endpoints, advice.least[advice.about][0])
        advice = replace(advice, gains=tuple(found))
    cases = {
        words: advise(list(predict(each, predictor(each))), target, asked.endpoints) for words, each in others.items()
    }
    return _Result(network.name, case, predictions, advice, cases, rank, _losses(network, case))


def _losses(network: "Network", case: "Case") -> list["Forecast"]:
    from holdfast.planner.loss import forecasts, gossip_of
    from holdfast.protocol.recovery.srm.settings import SrmSettings

    asked = network.reliability.guarantees.recovery
    records = asked if isinstance(asked, SrmSettings) else SrmSettings()
    return forecasts(
        case, _digests(network).told, records.record, network.reliability.hops.nack.tries, gossip_of(network)
    )


def _digests(network: "Network") -> "RecoverySettings":
    """How publishers tell of their events, where the file says it; otherwise as they would."""
    from holdfast.protocol.recovery.settings import RecoverySettings

    asked = network.reliability.guarantees.recovery
    return asked if isinstance(asked, RecoverySettings) else RecoverySettings()


def _draw(result: _Result, asked: "PlanSettings", picture: Path) -> None:
    from holdfast.planner.drawing import svg

    drawn = svg(result.case, result.predictions, result.advice.about, asked.endpoints)
    draft = picture.with_name(f".holdfast-{os.getpid()}.svg")  # beside it, so that a picture is there wholly or not
    try:
        draft.write_text(drawn, encoding="utf-8")
        draft.replace(picture)
    except OSError as problem:
        draft.unlink(missing_ok=True)
        raise InputError(f"--picture {picture}: cannot be written ({problem.strerror})") from None


def _admit(network: "Network", asked: "PlanSettings", broker: str, wants: str, as_json: bool) -> None:
    from holdfast.planner.admission import admission

    found = admission(network, broker, wants, _TARGET if asked.target is None else asked.target, asked)
    print(json.dumps(found.as_json()) if as_json else found.words())
    if not found.accepted:
        raise typer.Exit(1)


def _plan_on_spark(
    network: "Network",
    asked: "PlanSettings",
    what_if: Sequence[str],
    out: Path,
    master: str | None,
    settings: dict[str, str],
    as_json: bool,
) -> None:
    from holdfast.pipeline.plan.folder import check_free, planned
    from holdfast.pipeline.session import plain_interrupts, session
    from holdfast.planner.plan import case_of
    from holdfast.planner.what_if import changed

    check_free(out)  # before Spark begins
    case = case_of(network)
    if not case.demand.subscribers or not case.demand.origins:
        raise InputError(f"{network.name}: nobody subscribes or nobody publishes; there is nothing to predict")
    cases = {"": case, **{words: changed(case, words) for words in what_if}}
    plain_interrupts()
    target = _TARGET if asked.target is None else asked.target
    found = planned(session("holdfast plan", master, settings), cases, asked, f"{network.seed}/plan", target, out)
    print(json.dumps({"network": network.name, **found.as_json()}) if as_json else found.text(network.name))
    if asked.target is not None and found.advice[""].scheme is None:
        raise typer.Exit(1)
