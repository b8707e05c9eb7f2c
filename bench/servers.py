"""Install the servers of other projects that benchmarks and tests of carriers start: on Debian, as root.

Mosquitto, Redis, RabbitMQ and ActiveMQ come from Debian's packages; the servers of NATS and Zenoh came with the Python
packages that `./run bench` has installed. Nothing is configured: each test starts a server of its own, on a free port.
"""

import os
import shutil
import subprocess
import sys

from holdfast.carriers.servers import SERVERS

PACKAGES = ("mosquitto", "redis-server", "rabbitmq-server", "activemq")


def main() -> int:
    missing = [bus for bus, kind in SERVERS.items() if kind.missing()]
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES]
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], check=False, env=environment)
        subprocess.run(command, check=False, env=environment)
    elif missing:
        print(f"run: sudo apt-get install {' '.join(PACKAGES)}")
    for bus, kind in SERVERS.items():
        print(f"{bus:<10}{kind.missing() or 'installed'}")
    return 1 if any(kind.missing() for kind in SERVERS.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
