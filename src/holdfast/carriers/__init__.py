"""Whose bus our clients ride on: NATS, MQTT, Redis, RabbitMQ, Zenoh, STOMP; a stub broker stands for the bus."""
