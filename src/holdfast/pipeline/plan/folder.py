"""A plan on Spark from end to end: the table of predictions in a folder, and what it comes to for each case."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from holdfast.model.errors import InputError
from holdfast.network.settings import PlanSettings
from holdfast.pipeline.plan.job import advice_of, predictions
from holdfast.pipeline.result_folder import ResultFolder
from holdfast.pipeline.spark_errors import explained
from holdfast.pipeline.spark_path import spark_path
from holdfast.planner.advice import Advice
from holdfast.planner.plan import SCHEMES, Case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Planned:
    advice: Mapping[str, Advice]  # by the words of each case; the file's own has none
    subscribers: int  # rows, over all cases
    pairs: int  # of publishers' brokers and subscribers that they stand for
    seconds: float
    out: Path

    def as_json(self) -> dict[str, object]:
        return {
            "subscribers": self.subscribers,
            "pairs": self.pairs,
            "seconds": round(self.seconds, 3),
            "rows_per_s": round(self.subscribers / self.seconds, 1),
            "pairs_per_s": round(self.pairs / self.seconds, 1),
            "cases": {
                words or "as it is": {
                    "scheme": each.scheme,
                    "means": each.means,
                    "least": {
                        scheme: {"subscriber": who, "value": value} for scheme, (who, value) in each.least.items()
                    },
                    "words": each.words(),
                }
                for words, each in self.advice.items()
            },
            "out": str(self.out),
        }

    def text(self, name: str) -> str:
        lines = [f"{name}: share of events that arrive within their lifetime"]
        for words, each in self.advice.items():
            lines += ["", f"  {words or 'as it is'}", f"  {'':<16}" + "".join(f"{scheme:>16}" for scheme in SCHEMES)]
            lines.append(f"  {'mean':<16}" + "".join(f"{each.means[scheme]:>16.6f}" for scheme in SCHEMES))
            lines.append(f"  {'least':<16}" + "".join(f"{each.least[scheme][1]:>16.6f}" for scheme in SCHEMES))
            lines.append(f"  {each.words()}")
        rate = f"{self.subscribers:,} rows, {self.pairs:,} pairs in {self.seconds:.1f} s: "
        rate += f"{self.subscribers / self.seconds:,.0f} rows and {self.pairs / self.seconds:,.0f} pairs a second"
        return "\n".join([*lines, "", rate, f"predictions in {self.out}"])


def check_free(out: Path, overwrite: bool = False) -> None:
    if os.path.lexists(out):
        raise InputError(f"{out} exists already; name another folder")


def planned(
    spark: "SparkSession", cases: Mapping[str, Case], settings: PlanSettings, seed: str, target: float, out: Path
) -> Planned:
    began = monotonic()
    with explained():
        with ResultFolder(out, False, check_free) as folder:
            made = predictions(spark, list(cases.values()), settings.samples, seed)
            made.write.mode("append").parquet(str(folder.draft.resolve()))  # the draft is there, and empty
        rows = spark.read.parquet(spark_path(out.resolve()))
        found = advice_of(rows, target, settings.endpoints)
        count = rows.count()
    advice = {words: found[number] for number, words in enumerate(cases)}
    pairs = sum(len(case.demand.origins) * len(case.demand.subscribers) for case in cases.values())
    return Planned(advice, count, pairs, monotonic() - began, out)
