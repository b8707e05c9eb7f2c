"""`holdfast replicate` and `holdfast broker --replaceable` with what cannot be: one clear line, and exit code 2."""

import pytest

from holdfast.cli import main

PEER = ["--peer", "b2=tcp://127.0.0.1:7002"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["replicate", "--faulty", "b2", *PEER], "--peer b2: this is the broker to be replaced; name its neighbours"),
        (["replicate", "--faulty", "b3", *PEER, *PEER], "--peer: a neighbour is named twice"),
        (["replicate", "--faulty", "b3", "--id", "b3", *PEER], "--id b3: the replica needs a name that no other"),
        (["replicate", "--faulty", "b3", "--id", "b2", *PEER], "--id b2: the replica needs a name that no other"),
        (["replicate", "--faulty", "", *PEER], "a broker's name has 1 to 255 characters"),
        (["replicate", "--faulty", "b3", "--peer", "b2"], "write it as NAME=ADDRESS"),
        (["replicate", "--faulty", "b3", "--peer", "b2=nowhere"], "nowhere"),
        (["replicate", "--faulty", "b3", "--routing", "destinations", *PEER], "replicas need a tree"),
        (["replicate", "--faulty", "b3", "--directory", "http://x", *PEER], "write it as zookeeper://HOST:PORT/PATH"),
        (["replicate", "--faulty", "b3"], "Missing option '--peer'"),
        (["broker", "--id", "b1", "--replaceable", "--routing", "destinations"], "replicas need a tree"),
        (["broker", "--id", "b1", "--replaceable", "--hops", "multipath"], "does not go with --hops multipath"),
        (["broker", "--id", "b1", "--directory", "zookeeper://a:1/x"], "only brokers with --replaceable need one"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    assert complaint in capsys.readouterr().err
