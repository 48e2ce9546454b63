"""The provider of a conversation: answers each request by what is in it, and holds that none is made once too often."""

import json
from collections import Counter
from collections.abc import Mapping

from tests.crash.served.conversations import Conversation, place_of
from tests.threads.models.wire.reply import Reply
from tests.threads.models.wire.server import Heard


class Provider:
    """`ModelServer(provider)`"""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        # How often each answer was asked for; that is how often it was paid for.
        self.asked: Counter[tuple[str, int]] = Counter()
        self.wrong: list[str] = []
        # By turn, how many answers were on record when this life of the server began.
        self._known: Mapping[str, int] = {}
        self._in_this_life: set[tuple[str, int]] = set()

    def begin_life(self, known: Mapping[str, int]) -> None:
        self._known = known
        self._in_this_life = set()

    def __call__(self, heard: Heard) -> Reply:
        request = json.dumps(heard.body)
        key, number = place = place_of(request)
        if number <= self._known.get(key, 0):
            self.wrong.append(f"answer {key}.{number} was on record, and was asked for again")
        if place in self._in_this_life:
            self.wrong.append(f"answer {key}.{number} was asked for twice by one server")
        self._in_this_life.add(place)
        self.asked[place] += 1
        return self._conversation.reply(key, number, request)
