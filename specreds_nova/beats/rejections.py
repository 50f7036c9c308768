# SPDX-License-Identifier: Apache-2.0
"""Messages that an engine does not believe: they are counted, and change nothing."""

import collections
from collections.abc import Mapping
import threading

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

# Reasons: a field is malformed; an echo that this engine has not sent; a beat whose number is far
# ahead; a beat of a second sender that has the name of a host; one of a sentinel with a wrong key.
MALFORMED, ECHO, JUMP, SENDER, UNAUTHENTICATED = REASONS = (
    'malformed', 'echo', 'jump', 'sender', 'unauthenticated')
# Senders of which the log names a rejection: anybody who can send can make up names.
_NAMED = 1000


class Rejections:
    """Counts the rejected messages by reason. Every method may be called by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: collections.Counter[str] = collections.Counter()
        self._named: set[tuple[str, str]] = set()

    def note(self, reason: str, sender: str, what: str) -> None:
        """Count a rejected message, and log the first one for each reason and sender.

        :param sender: the name that the message gives
        :param what: what is wrong with it, in words
        """
        with self._lock:
            self._counts[reason] += 1
            if (reason, sender) in self._named or len(self._named) >= _NAMED:
                return
            self._named.add((reason, sender))
        LOG.warning('a message of %s is rejected, and so are further ones like it: %s', sender,
                    what)

    def taken(self) -> Mapping[str, int]:
        """Return the numbers of rejected messages since the last call, by reason."""
        with self._lock:
            counts, self._counts = self._counts, collections.Counter()
        return counts
