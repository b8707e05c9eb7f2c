"""Which subscription wants which line of a CSV file: a Spark job in a few lines.

    ./run python examples/spark_match_your_csv.py EVENTS.csv SUBSCRIPTIONS.toml

Without arguments it takes trades.csv and wishes.toml beside this file. The first line of the CSV names the attributes;
the TOML has a table [subscriptions] with a condition for each name. `holdfast match` does the same from the command
line and writes the result; this is for jobs of your own. (Spark comes with `./run holdfast match --help`.)
"""

import sys
from pathlib import Path

from pyspark.sql import functions as F

from holdfast.spark import match, session

HERE = Path(__file__).parent
events, subscriptions = map(Path, sys.argv[1:3] or (HERE / "trades.csv", HERE / "wishes.toml"))

spark = session("match your CSV")
table = spark.read.csv(str(events), header=True, inferSchema=True)
key = table.columns[0]

pairs = match(table, subscriptions, key=[key])  # a DataFrame: join it, count it, write it
wanted_by = pairs.groupBy(key).agg(F.sort_array(F.collect_list("subscription")).alias("wanted_by"))
for row in table.join(wanted_by, key, "left").orderBy(key).collect():
    print(*[row[name] for name in table.columns], "->", ", ".join(row.wanted_by or ["nobody"]))
spark.stop()
