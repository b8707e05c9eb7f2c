"""What our pages show and no test runs, with the reason for each.

A block that says `notest` must be in `BLOCKS`, and so it stays a short list that can be read. Commands that begin as in
`COMMANDS` are left out wherever they stand.
"""

BLOCKS = {  # page, the command that the block is about: reason
    ("docs/audit.md", "--follow"): "takes an hour; tests/pipeline/test_audit_follow.py does the same",
    ("README.md", 'holdfast.connect("nats://'): "needs a NATS server; tests/carriers/test_servers.py does the same",
    ("README.md", "mosquitto_sub"): "Mosquitto's clients come with the system; tests/net/test_mqtt.py does the same",
    (
        "docs/carriers.md",
        'holdfast.connect("nats://',
    ): "needs a NATS server; tests/carriers/test_servers.py does the same",
    ("docs/carrier-nats.md", "nats.connect(address)"): "needs a NATS server; tests/examples/test_carriers.py runs it",
    ("docs/carrier-nats.md", "holdfast.connect(address"): "the same",
    ("docs/carrier-mqtt.md", "aiomqtt.Client(host, port)"): "needs Mosquitto; tests/examples/test_carriers.py runs it",
    ("docs/carrier-mqtt.md", "holdfast.connect_sync(address"): "the same",
    ("docs/spark.md", "holdfast match trades wishes/ --stream"): "needs a Kafka, and a package from Maven's servers",
    ("docs/planning.md", "./run holdfast reproduce prediction"): "takes a quarter of an hour; tests/papers "
    "has a part of it",
    ("docs/reproduction.md", "./run holdfast reproduce end-to-end"): "takes a quarter of an hour; tests/papers "
    "takes a small study the same way",
    ("docs/history.md", "holdfast broker --id b1"): "runs for ever; tests/net/test_history.py starts it the same way",
    ("docs/mqtt.md", "mosquitto_sub"): "Mosquitto's clients come with the system; tests/net/test_mqtt.py does the same",
    ("docs/mqtt.md", "user-property '$last' 5"): "the same; tests/net/test_mqtt_history.py does it",
    ("docs/mqtt.md", "paho.mqtt.client"): "runs for ever; tests/net/test_mqtt_clients.py does the same",
    ("docs/cluster.md", "--packages org.apache.hadoop"): "needs a bucket, and a package from Maven's servers",
    ("docs/cluster.md", "SPARK_REMOTE=sc://"): "starts a server; tests/pipeline/test_connect.py does the same",
}

COMMANDS = {  # how a command begins: reason
    "./run python examples/carriers/nats_recovered.py": "needs a NATS server; tests/examples/test_carriers.py runs it",
    "holdfast gateway --broker nats": "needs a NATS server; tests/carriers/test_gateway.py does the same",
    "holdfast keep": "needs a NATS server; tests/carriers/test_servers.py runs it",
    'holdfast sub "temp > 30" --broker nats': "needs a NATS server",
    "git clone": "the tree is there",
    "cd ": "commands run in a folder of their own",
    "pip ": "installs",
    "sudo ": "installs",
    "apt-get": "installs",
    "./run demo": "takes minutes; tests/demo runs it",
    "./run test": "would run itself",
    "./run check": "would run itself",
    "./run bench": "takes minutes",
}
