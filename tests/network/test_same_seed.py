"""Same file and seed, same network and publications, whatever the process's hash seed is."""

import os
import subprocess
import sys

PROGRAM = """
import hashlib
from itertools import islice
from holdfast.network.load import parse_text
from holdfast.network.presets import PRESETS, preset_text
from tests.network.examples import FULL

seen = hashlib.sha256()
texts = {name: preset_text(name) for name in PRESETS} | {"full": FULL}
for name, text in texts.items():
    network = parse_text(text, name)
    for part in (network.brokers, network.links, network.clients, network.faults):
        seen.update(repr(part).encode())
    for each in islice(network.publications(5), 2_000):
        seen.update(repr(each).encode())
    for each in islice(network.timeline(5), 200):
        seen.update(repr(each).encode())
moving = {"topology": {"kind": "tree", "shape": "attached", "brokers": 40}, "reconfiguration": {"every_s": 0.1}}
seen.update(repr(list(parse_text(moving).timeline())).encode())
mesh = {"routing": "destinations", "topology": {"kind": "random", "brokers": 40}, "reconfiguration": {"every_s": 1}}
seen.update(repr(list(parse_text(mesh).timeline())).encode())
print(seen.hexdigest())
"""


def digest(hash_seed: str) -> str:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=True, text=True
    )
    return finished.stdout


def test_two_processes_with_different_hash_seeds_draw_the_same() -> None:
    assert digest("1") == digest("2")
