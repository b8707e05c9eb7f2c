"""MQTT 3.1, 3.1.1 and 5 as a broker speaks them: packets, sessions and topics as pure machines, without sockets."""
