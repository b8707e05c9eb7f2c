"""What was owed, what arrived and how late, asked of a trace in plain SQL: no Spark, no Holdfast code.

    ./run holdfast init net.toml
    ./run holdfast sim net.toml --out run-7
    ./run python examples/audit_with_duckdb.py run-7

Each `# %%` begins a cell in editors that know notebooks. Conditions are SQL, so DuckDB itself decides which
publication a subscriber was owed; `holdfast audit` must come to the same numbers. (duckdb comes with the packages
of the tests, which `./run bench` installs before it lists the benchmarks; elsewhere: pip install duckdb.)
"""

# %% The tables of the run
import sys
from pathlib import Path

import duckdb

run = Path(sys.argv[1] if len(sys.argv) > 1 else "run-7")
db = duckdb.connect()
for table in ("publications", "subscriptions", "deliveries"):
    db.execute(f"CREATE VIEW {table} AS FROM read_parquet('{run / table}/*.parquet')")

# %% The publications with their attributes under their own names, as conditions know them
columns = [row[0] for row in db.execute("DESCRIBE publications").fetchall() if row[0].startswith("attr:")]
attributes = ", ".join(f'"{each}" AS "{each.removeprefix("attr:")}"' for each in columns)
own = "source AS _source, seq AS _seq, time_us AS _time_us"
db.execute(f"CREATE TABLE events AS SELECT {own}, {attributes} FROM publications")

# %% Who was owed what: every subscription that was live as the event was published, asked in its own words
db.execute("CREATE TABLE owed (subscriber VARCHAR, source VARCHAR, seq BIGINT)")
for subscriber, condition, from_us, until_us in db.execute(
    "SELECT subscriber, condition, from_us, until_us FROM subscriptions"
).fetchall():
    db.execute(
        f"""INSERT INTO owed SELECT ?, _source, _seq FROM events
            WHERE ({condition}) AND _time_us >= ? AND (? IS NULL OR _time_us < ?)""",
        [subscriber, from_us, until_us, until_us],
    )

# %% What became of it, by subscriber
print(
    db.sql("""
    WITH wanted AS (SELECT DISTINCT * FROM owed),
         got AS (SELECT subscriber, source, seq, min(time_us) AS time_us FROM deliveries GROUP BY ALL)
    SELECT wanted.subscriber, count(*) AS owed, count(got.seq) AS delivered, count(*) - count(got.seq) AS lost,
           round(median(got.time_us - publications.time_us) / 1000, 1) AS median_ms
    FROM wanted
    LEFT JOIN got USING (subscriber, source, seq)
    JOIN publications ON publications.source = wanted.source AND publications.seq = wanted.seq
    GROUP BY ALL ORDER BY lost DESC, subscriber
""")
)

# %% And in all
owed, delivered = db.execute("""
    SELECT count(*), count(*) FILTER (EXISTS (FROM deliveries AS d
        WHERE d.subscriber = o.subscriber AND d.source = o.source AND d.seq = o.seq))
    FROM (SELECT DISTINCT * FROM owed) AS o
""").fetchone()
print(f"owed {owed}, delivered {delivered}, lost {owed - delivered}")
