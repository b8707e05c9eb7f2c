"""`holdfast doctor`: say whether this machine can run brokers and Spark jobs, and what to do if not."""

import json
import os
from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from holdfast.cli.machine_checks import Finding


def run(
    port: Annotated[
        list[int] | None, typer.Option(min=1, max=65_535, help="A port that must be free, too; may be repeated.")
    ] = None,
    compile_now: Annotated[
        bool, typer.Option("--compile", help="Compile the fast loops now, so that no first run waits for that.")
    ] = False,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Skip Java and Spark.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check whether this machine is fit, and say what to do if not.

    Tries what brokers and Spark jobs need. Each line is ok, warn (it works, but worse or only in parts) or fail.
    HOLDFAST_NO_SPARK=1 is --no-spark.

    With --compile nothing is looked at: matcher, simulator and planner are compiled for this machine, once.

    Exit code 0: nothing fails. 1: something does.

    \b
    Example:
      holdfast doctor
      holdfast doctor --port 7002 --port 9100 --no-spark
      holdfast doctor --compile
    """
    if compile_now:
        _compile()
        return
    from holdfast.cli import machine_checks
    from holdfast.cli.running_brokers import brokers

    asked = tuple(port or ())
    without = no_spark or os.environ.get("HOLDFAST_NO_SPARK") == "1"
    findings: list[Finding] = []
    for check in (*machine_checks.CHECKS, brokers):
        if check is machine_checks.java and without:
            continue
        for finding in machine_checks.ports(asked) if check is machine_checks.ports else check():
            findings.append(finding)
            if not as_json:
                print(_line(finding), flush=True)  # as it is found: Spark takes a while
    failed = any(each.level == "fail" for each in findings)
    if as_json:
        print(json.dumps({"ok": not failed, "findings": [asdict(each) for each in findings]}))
    if failed:
        raise typer.Exit(1)


def _compile() -> None:
    from holdfast.cli.kernels import STEPS

    for name, step in STEPS.items():
        began_s = monotonic()
        step()
        print(f"{name:<10} compiled, {monotonic() - began_s:.1f} s", flush=True)


def _line(finding: "Finding") -> str:
    advice = f"\n{'':19}{finding.advice}" if finding.advice else ""
    return f"{finding.level:<6}{finding.check:<13}{finding.found}{advice}"
