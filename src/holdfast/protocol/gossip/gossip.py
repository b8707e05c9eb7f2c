"""Epidemic recovery of one broker: it numbers and keeps events, and in rounds of gossip gets what it has lost.

The layer around the broker hands every event to `on_event`, which says where it goes, as the router has it, and notes
what concerns recovery: what our own clients published or wanted is kept for others, and gaps in its numbers are losses.
Rounds come from `on_timer`; what to say is the style's choice. A recovered event goes to our clients and no further:
every broker looks after its own.
"""

from collections.abc import Iterable
from random import Random

import msgspec

from holdfast.model.limits import NODES_MAX
from holdfast.model.messages import (
    Deliver,
    GossipComplete,
    GossipDigest,
    GossipEvent,
    GossipPull,
    GossipRequest,
    GossipVector,
    Publication,
    Publish,
    Stamp,
    Stamped,
)
from holdfast.model.messages import Gossip as Message
from holdfast.protocol.duplicates import Seen
from holdfast.protocol.effects import Effect, Gauges, Incident, Multicast, Send, Unicast
from holdfast.protocol.gossip.buffer import Buffer, BufferedEvent
from holdfast.protocol.gossip.classes import Classes, tag_of
from holdfast.protocol.gossip.lookup import beyond, left_of, named_in
from holdfast.protocol.gossip.losses import LossTracker
from holdfast.protocol.gossip.reconciling import Partners
from holdfast.protocol.gossip.settings import SEARCHED_US, SETTLED_US, GossipSettings, ReconcilingSettings
from holdfast.protocol.gossip.styles import STYLES, AskAnybody, AskOrigin, AskSubscribers, Have, Holdings, Saying
from holdfast.protocol.node import GossipBeginning
from holdfast.protocol.recovery.control import CONTROL_SEQ
from holdfast.protocol.router import Router

_ToOne = GossipRequest | GossipEvent | GossipVector | GossipComplete


class Gossip:
    def __init__(
        self,
        name: str,
        epoch: int,
        settings: GossipSettings,
        classes: Classes,
        router: Router,
        seen: Seen,
        hops_max: int,
        rng: Random,
    ) -> None:
        self._name = name
        self._epoch = epoch
        self._settings = settings
        self._classes = classes
        self._router = router
        self._seen = seen
        self._hops_max = hops_max
        self._dice = rng
        self._style = STYLES[settings.style]
        self.by_unicast = settings.transfer == "direct"  # brokers without a link between them talk to each other
        self._records_route = self._style.routes or (not self.by_unicast and self._style.next_message is None)
        self._buffer = Buffer(settings.buffer, settings.places_max, by_class=not self._style.numbers)
        self._losses = LossTracker(settings.lost_max, settings.search_us, settings.streams_max)
        self._holdings = Holdings(classes, self._buffer, self._losses, settings, rng)
        self._local: dict[str, int] = {}  # conditions of our clients, and how many want each
        self._since: dict[str, int] = {}  # and from when on an event is theirs
        self._behind_us: dict[str, int] = {}  # by source: what takes the times of its events to our clock
        self._routes: dict[str, tuple[str, ...]] = {}  # by origin: the brokers from there to here
        self._reconciling = ReconcilingSettings()
        self._partners = Partners(self._reconciling, settings.origins_max) if self._style.next_message is None else None
        self._phase_us = epoch + int(settings.interval_us * rng.random())
        self._stretch = 1
        self.due_us: int | None = None  # when the next round is
        self._asked = False  # since the last round
        self._active_us = epoch
        self.counts = dict.fromkeys(("rounds", "silent rounds", "recovered", "recovered twice", "not ours"), 0)

    def gauges(self) -> Gauges:
        gauges = {"events kept": (len(self._buffer), self._settings.buffer)}
        if self._style.numbers:
            gauges["numbers kept"] = self._buffer.places, self._settings.places_max
            gauges["events looked for"] = len(self._losses), self._settings.lost_max
            gauges["origins known"] = len(self._partners or self._routes), self._settings.origins_max
        return gauges

    def has_settled(self, now_us: int) -> bool:
        """Whether nothing has come on its own for so long that little more is to be expected."""
        if self._partners is None:
            return now_us - self._active_us >= SETTLED_US
        searches = self._partners.wait_for_answers
        return not self._losses and now_us - self._active_us >= (SEARCHED_US if searches else SETTLED_US)

    # Where a driver takes over -----------------------------------------------------------------------

    def begin_elsewhere(self) -> GossipBeginning:
        return GossipBeginning(self._dice.random, self._phase_us, tuple(self._router.brokers))

    def take_appeared(self) -> list[str]:
        """Conditions that have appeared, and are not taken in here."""
        assert all(self._classes.has_changed.values()), "whoever takes over does not know that conditions vanish"
        taken = list(self._classes.has_changed)
        self._classes.has_changed.clear()
        return taken

    @property
    def wanted(self) -> dict[str, int]:
        """The conditions of our clients, and since when."""
        return {condition: self._losses.wanted[tag_of(condition)] for condition in self._local}

    # Our clients -----------------------------------------------------------------------------------

    def on_local(self, added: Iterable[str], dropped: Iterable[str], now_us: int) -> None:
        """What our clients want has changed."""
        for condition in dropped:
            self._local[condition] -= 1
            if not self._local[condition]:
                del self._local[condition], self._since[condition]
                self._losses.unwant(tag_of(condition))
        for condition in added:
            self._local[condition] = self._local.get(condition, 0) + 1
            if self._local[condition] == 1:
                # What clients want when a broker begins, they may have wanted of the broker that it was before.
                young = now_us - self._epoch < self._reconciling.sync_us
                self._since[condition] = self._epoch - self._reconciling.before_us if young else now_us
                self._losses.want(tag_of(condition), now_us)

    # Events ----------------------------------------------------------------------------------------

    def on_event(self, sender: str, from_client: bool, publish: Publish | Stamped, now_us: int) -> list[Effect]:
        """An event on its way: where it goes, dressed for those who come after us."""
        publication = publish.publication
        if publication.seq == CONTROL_SEQ:
            return self._router.forward(sender, publish)
        if self._classes.has_changed:
            self._classes.take_in(now_us)
        stamp, route = (publish.stamp, publish.route) if type(publish) is Stamped else (None, ())
        if from_client and self._style.numbers:
            stamp = self._classes.stamp(publication)
        passed = (*route, self._name) if self._records_route and len(route) < NODES_MAX else ()
        effects = self._router.forward(sender, publish, stamp, passed)
        is_ours = from_client
        for effect in effects:
            if type(effect) is not Incident and type(effect.message) is Deliver:  # type: ignore[union-attr]
                is_ours = True
                break
        if is_ours:
            self._active_us = now_us
            self._compare_clocks(publication, now_us)
            self._keep(publication, stamp, now_us)
            if stamp is not None and not from_client:
                self._on_stamp(stamp, route, now_us)
        elif self._partners is not None and stamp is not None and self._local:
            self._partners.heard(stamp.origin, route, False, now_us)
        return effects

    def _compare_clocks(self, publication: Publication, now_us: int) -> None:
        """By an event that came on its own: it left just now. Without one of its source, clocks are taken to agree."""
        if publication.source not in self._behind_us and len(self._behind_us) >= self._settings.origins_max:
            del self._behind_us[next(iter(self._behind_us))]
        self._behind_us[publication.source] = now_us - publication.time_us

    def _keep(self, publication: Publication, stamp: Stamp | None, now_us: int) -> None:
        if self._seen.first_time(publication.source, publication.seq):
            tags = () if self._style.numbers else self._classes.tags_of(publication.attributes)
            self._buffer.add(publication, stamp, tags, now_us)
            if self.due_us is None and not self._style.numbers:
                self._wake(now_us)

    def _on_stamp(self, stamp: Stamp, route: tuple[str, ...], now_us: int) -> None:
        before, unsure = self._losses.noticed, self._losses.begun_unsure
        self._losses.on_stamp(stamp, now_us)
        if self._style.routes:
            self._learn_route(stamp.origin, route)
        if self._partners is not None:
            self._partners.heard(stamp.origin, route, self._losses.noticed > before, now_us)
            if self._losses.begun_unsure > unsure:
                self._partners.ask_what_was_before(stamp.origin, now_us)
        if self._losses.noticed > before:
            self._stretch = 1
        if self.due_us is None and (self._losses or self._partners is not None):
            self._wake(now_us)

    def _learn_route(self, origin: str, route: tuple[str, ...]) -> None:
        if not route:
            return
        if len(self._routes) >= self._settings.origins_max and origin not in self._routes:
            del self._routes[next(iter(self._routes))]
        self._routes[origin] = route

    # Rounds ----------------------------------------------------------------------------------------

    def _wake(self, now_us: int) -> None:
        """The next round, in the rhythm that this broker has always had."""
        interval_us = self._settings.interval_us * self._stretch
        self.due_us = now_us + interval_us - (now_us - self._phase_us) % interval_us

    def on_timer(self, now_us: int) -> list[Effect]:
        if self.due_us is None or now_us < self.due_us:
            return []
        self._classes.settle(now_us)
        self._losses.give_up_old(now_us)
        self._buffer.drop_older(now_us - self._settings.kept_us)
        effects = self._round(now_us)
        self.counts["rounds" if effects else "silent rounds"] += 1
        if self._settings.adaptive:
            self._stretch = min(2 * self._stretch, self._settings.stretch_max) if self._is_idle(effects) else 1
        self.due_us = None
        if self._has_more_to_send(now_us):
            self._wake(now_us)
        given_up = self._losses.take_given_up()
        return effects + [Incident("gossip_gave_up", origin, count) for origin, count in given_up.items()]

    def _is_idle(self, effects: list[Effect]) -> bool:
        """Pull: nothing to ask for. Push: nobody has asked for anything since the last round."""
        asked, self._asked = self._asked, False
        return not asked if not self._style.numbers else not effects

    def _has_more_to_send(self, now_us: int) -> bool:
        if not self._style.numbers:
            return len(self._buffer) > 0
        return bool(self._losses) or (self._partners is not None and self._partners.next_due_us() is not None)

    def _round(self, now_us: int) -> list[Effect]:
        if self._style.next_message is None:
            return self._compare(now_us)
        saying = self._style.next_message(self._holdings)
        return [] if saying is None else self._send_saying(saying)

    def _send_saying(self, saying: Saying) -> list[Effect]:
        path = (self._name,)
        match saying:
            case Have(tag, ids):
                return self._send_on(GossipDigest(path, tag, ids), tag, (), "")
            case AskSubscribers(tag, missing):
                return self._send_on(GossipPull(path, missing, tag), tag, (), "")
            case AskOrigin(origin, missing):
                route = self._routes.get(origin, ())[::-1]
                return self._along(GossipPull(path, missing), route)
            case AskAnybody(missing):
                return self._to_anybody(GossipPull(path, missing), "")

    def _compare(self, now_us: int) -> list[Effect]:
        assert self._partners is not None
        effects: list[Effect] = []
        for origin, in_vain in self._partners.take(now_us, dict.fromkeys(self._losses.origins)):
            effects += self._ask_origin(origin)
            if in_vain >= self._reconciling.tries_origin:
                for _, _, tag, _ in self._losses.of_origin(origin, 1):
                    missing = self._losses.of_class(tag, self._settings.digest_max)
                    effects += self._send_saying(AskSubscribers(tag, missing))
        return effects

    def _ask_origin(self, origin: str) -> list[Effect]:
        got = {condition: self._losses.reached(origin, tag_of(condition)) for condition in self._local}
        epoch = max((each for each, _ in got.values()), default=0)
        reached = []
        for condition, (counted_in, number) in got.items():
            tag = tag_of(condition)
            expected = 1 if number and counted_in < epoch else number  # an earlier epoch: all of this one is missing
            missing = self._losses.missing(origin, epoch, tag, self._settings.digest_max)
            reached.append((tag, expected, 0 if number else max(0, self._since[condition]), missing))
        return self._to(origin, self._route_to(origin), GossipVector((self._name,), epoch, tuple(reached)))

    def _route_to(self, origin: str) -> tuple[str, ...]:
        assert self._partners is not None
        return self._partners.route(origin)[::-1]

    # What others say -------------------------------------------------------------------------------

    def on_message(self, sender: str, message: Message, now_us: int) -> list[Effect]:
        if self._classes.has_changed:
            self._classes.take_in(now_us)
        if not isinstance(message, GossipEvent | GossipComplete) and len(message.path) >= NODES_MAX:
            return []  # there is no room for our name: sent on, others would refuse it, and us with it
        match message:
            case GossipDigest():
                return self._on_digest(sender, message)
            case GossipPull():
                return self._on_pull(sender, message)
            case GossipEvent(route=()):
                return self._on_recovered(message, now_us)
            case GossipRequest(route=()):
                self._asked = True
                return self._hand_out(named_in(message.ids, self._buffer), message.path)
            case GossipVector(route=()):
                return self._on_vector(message, now_us)
            case GossipComplete(route=()):
                if self._partners is not None:
                    self._partners.complete(message.origin, now_us)
                return []
            case _:
                return self._pass_on(message)

    def _on_digest(self, sender: str, digest: GossipDigest) -> list[Effect]:
        effects: list[Effect] = []
        condition = self._classes.condition(digest.tag)
        if condition in self._local:
            has = self._seen.has
            lacking = [(source, tuple([seq for seq in seqs if not has(source, seq)])) for source, seqs in digest.ids]
            wanted = tuple([each for each in lacking if each[1]])
            if wanted:
                effects += self._back(digest.path, GossipRequest((self._name,), wanted))
        return effects + self._send_on(digest, digest.tag, digest.homes, sender)

    def _on_pull(self, sender: str, pull: GossipPull) -> list[Effect]:
        found, left = left_of(pull.missing, self._buffer)
        effects = self._hand_out(found, pull.path)
        if not left:
            return effects
        rest = msgspec.structs.replace(pull, missing=left)
        if pull.route:
            return effects + self._along(rest, pull.route)
        if pull.tag is not None:
            return effects + self._send_on(rest, pull.tag, pull.homes, sender)
        goes_on = self._dice.random() < self._settings.forward_ratio
        return effects + (self._to_anybody(rest, sender) if goes_on else [])

    def _on_vector(self, vector: GossipVector, now_us: int) -> list[Effect]:
        """Somebody tells how far it has got with what we let in: hand it the rest, or say that there is none."""
        kept: dict[tuple[str, int], BufferedEvent] = {}
        is_complete = True
        settled_us, count_max = now_us - self._reconciling.settle_us, self._settings.digest_max
        for tag, (number, asked_us, missing) in {each[0]: each[1:] for each in vector.reached}.items():
            since_us = 0 if asked_us > now_us else asked_us  # its clock is ahead of ours
            known = number if vector.epoch == self._epoch or not number else 1
            last = self._classes.last_number(tag)
            here = self._buffer.numbers(self._name, self._epoch, tag)
            asked = [each for number in missing if (each := here.get(number)) is not None]
            newer = beyond(here, last, max(known, last - count_max + 1), since_us)
            for found in (*asked, *(each for each in newer if each.at_us <= settled_us)):
                kept[found.publication.source, found.publication.seq] = found
            is_complete = is_complete and not asked and not newer  # it may be on its way, or not arrive
            if len(kept) >= count_max:
                break
        if is_complete:
            return self._back(vector.path, GossipComplete(self._name))
        return self._hand_out(list(kept.values())[:count_max], vector.path)

    def _hand_out(self, kept: list[BufferedEvent], path: tuple[str, ...]) -> list[Effect]:
        return [effect for each in kept for effect in self._back(path, GossipEvent(each.publication, each.stamp))]

    def _on_recovered(self, event: GossipEvent, now_us: int) -> list[Effect]:
        publication, stamp = event.publication, event.stamp
        if self._seen.has(publication.source, publication.seq):
            self.counts["recovered twice"] += 1
            return []
        clients = self._router.home(publication.attributes)
        since = [self._since[each] for each in self._classes.of(publication.attributes) if each in self._since]
        left_us = publication.time_us + self._behind_us.get(publication.source, 0)
        is_dated = left_us >= now_us - self._settings.kept_us  # nobody keeps older ones: clocks do not agree
        if not clients or (is_dated and left_us < min(since, default=0)):
            self.counts["not ours"] += 1
            self._seen.first_time(publication.source, publication.seq)
            return []
        self._keep(publication, stamp, now_us)
        if stamp is not None and self._style.numbers:
            self._on_stamp(stamp, (), now_us)
            if self._partners is not None:
                self._partners.brought(stamp.origin, now_us)
        if publication.lifetime_us is not None and publication.expired(now_us):
            return [Incident("expired", source=publication.source, first=publication.seq)]
        self.counts["recovered"] += 1
        return [Multicast(clients, Deliver(publication, "gossip"))]

    # Ways ------------------------------------------------------------------------------------------

    def _send_on(
        self, message: GossipDigest | GossipPull, tag: int, homes: tuple[str, ...], sender: str
    ) -> list[Effect]:
        """To each neighbour behind which the class is wanted, with the probability for it."""
        condition = self._classes.condition(tag)
        if condition is None or message.hops > self._hops_max:
            return []
        chosen: dict[tuple[str, ...], list[str]] = {}
        for name, behind in self._router.towards(condition, homes, sender):
            if self._dice.random() < self._settings.forward_ratio:
                chosen.setdefault(behind, []).append(name)
        path = self._longer(message.path)
        replace = msgspec.structs.replace
        return [
            Multicast(tuple(names), replace(message, path=path, homes=behind, hops=message.hops + 1))
            for behind, names in chosen.items()
        ]

    def _longer(self, path: tuple[str, ...]) -> tuple[str, ...]:
        return path if self.by_unicast or path[-1] == self._name else (*path, self._name)

    def _along(self, pull: GossipPull, route: tuple[str, ...]) -> list[Effect]:
        if not route or route[0] not in self._router.brokers:
            return []  # the route is broken
        return [Send(route[0], msgspec.structs.replace(pull, path=self._longer(pull.path), route=route[1:]))]

    def _to_anybody(self, pull: GossipPull, sender: str) -> list[Effect]:
        others = [each for each in self._router.brokers if each != sender]
        if not others or pull.hops > self._hops_max:
            return []
        name = others[int(self._dice.random() * len(others))]
        return [Send(name, msgspec.structs.replace(pull, path=self._longer(pull.path), hops=pull.hops + 1))]

    def _back(self, path: tuple[str, ...], message: _ToOne) -> list[Effect]:
        return self._to(path[0], path[::-1], message)

    def _to(self, broker: str, route: tuple[str, ...], message: _ToOne) -> list[Effect]:
        """To one broker: directly, or along this route."""
        if self.by_unicast:
            return [Unicast(broker, message)]
        return self._pass_on(msgspec.structs.replace(message, route=route))

    def _pass_on(self, message: _ToOne) -> list[Effect]:
        if not message.route or message.route[0] not in self._router.brokers:
            return []  # the route is broken
        hop, rest = message.route[0], message.route[1:]
        if isinstance(message, GossipEvent | GossipComplete):
            return [Send(hop, msgspec.structs.replace(message, route=rest))]
        return [Send(hop, msgspec.structs.replace(message, route=rest, path=self._longer(message.path)))]
