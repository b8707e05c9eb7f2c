"""Topic aliases of one connection, one way each: a small number stands for a topic that was named before."""

from holdfast.mqtt.packets import PublishPacket, replaced
from holdfast.mqtt.reasons import ALIAS_INVALID, MqttError, protocol_error

_ALIAS = "topic_alias"


class ReceivedAliases:
    def __init__(self, most: int) -> None:
        self._most = most
        self._topics: dict[int, str] = {}

    def resolve_untrusted(self, publish: PublishPacket) -> PublishPacket:
        """The same packet with its topic and without the alias."""
        alias = publish.properties.get(_ALIAS)
        if alias is None:
            return publish
        if alias > self._most:
            raise MqttError(ALIAS_INVALID, f"alias {alias}; the largest is {self._most}")
        if publish.topic:
            self._topics[alias] = publish.topic
        elif alias not in self._topics:
            raise protocol_error(f"alias {alias} stands for no topic")
        properties = {name: value for name, value in publish.properties.items() if name != _ALIAS}
        return replaced(publish, topic=self._topics[alias], properties=properties)


class SentAliases:
    """The first topics get one each, and keep it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._aliases: dict[str, int] = {}

    def shorten(self, publish: PublishPacket) -> PublishPacket:
        alias = self._aliases.get(publish.topic)
        if alias is not None:
            return replaced(publish, topic="", properties={**publish.properties, _ALIAS: alias})
        if len(self._aliases) == self._most:
            return publish
        alias = self._aliases[publish.topic] = len(self._aliases) + 1
        return replaced(publish, properties={**publish.properties, _ALIAS: alias})
