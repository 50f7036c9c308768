# SPDX-License-Identifier: Apache-2.0
"""Requests for evacuations that no host has claimed, and that Nova has lost on the way to one.

Nova's API sets the server to ``rebuilding``, and leaves the rest to its conductor, which asks the
scheduler for a host. Nova resets the server after a few errors of that way only. After all others,
such as a scheduler that does not answer or a port that is deleted meanwhile, or if the conductor
dies, the server would be ``rebuilding`` for ever.
"""

from oslo_log import log as logging

from specreds_nova import tasks
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs

LOG = logging.getLogger(__name__)

# Seconds after which Nova is asked what has become of a request: a little longer than its
# conductor waits for the scheduler (rpc_response_timeout, 60 s by default). Seconds between two
# questions, each of which costs as much as a look at the server.
_ASK_NOVA = 75.0
_ASK_AGAIN = 30.0
# Seconds after which a request counts as lost that the conductor has not given up. A queue of
# requests for a whole rack takes minutes, and one that is in it still will be fulfilled later. So
# the time doubles with each such request.
_LOST = 300.0


class Unclaimed:
    """What is known of the latest request while no host has claimed it.

    :ivar given_up: Nova has said that it will not fulfill the request
    :ivar lost: Nova never fulfills the request
    """

    def __init__(self, run: runs.Run) -> None:
        self._run = run
        # Since when the engine sees the request, when it has asked Nova, and what that has shown.
        self._since: float | None = None
        self._asked = float('-inf')
        self.lost = self.given_up = False
        # Whether a request on which Nova says nothing counts as lost after some time.
        self._may_be_lost = True
        # How many requests have been lost in a row without a word of Nova.
        self._times = 0

    def begin(self) -> None:
        """Note that there is another request."""
        self.forget()
        self._since = self._run.now

    def forget(self) -> None:
        """Forget what was seen of a request, since a host has claimed it."""
        self._since, self._asked = None, float('-inf')
        self.lost = self.given_up = False

    def is_undecided(self, server: model.Server) -> bool:
        """Return whether it will turn out later that Nova has lost the request for a server."""
        return (self._since is not None and tasks.is_rebuild(server.task) and not self.lost
                and (self._asked < self._since or self._may_be_lost))

    def is_lost(self, server: model.Server, host: str | None) -> bool:
        """Return whether Nova never fulfills the request for a server.

        :param host: destination of the request; empty if Nova chooses it, None without a record of
            the request
        """
        now = self._run.now
        if not tasks.is_rebuild(server.task):
            return False
        if self._since is None:
            self._since = now
        if now - self._since >= _ASK_NOVA and now - self._asked >= _ASK_AGAIN:
            self._asked = now
            self.lost = self._ask(server, host, now - self._since)
        return self.lost

    def is_given_up(self, server: model.Server) -> bool:
        """Return whether Nova's conductor has given up the latest request for a server."""
        return self._request(server) == model.GIVEN_UP

    def _request(self, server: model.Server) -> str | None:
        try:
            return self._run.insist(self._run.context.compute.evacuation_request, server.id)
        except exception.Refused as exc:
            LOG.debug('recovery %s: Nova does not say what has become of its request: %s',
                      self._run.id, exc)
            return model.PENDING

    def _ask(self, server: model.Server, host: str | None, seconds: float) -> bool:
        request = self._request(server)
        self.given_up = request == model.GIVEN_UP
        if self.given_up:
            self._times = 0
            return True
        # A host that Nova has not named may have the server yet, and must not get a rival.
        self._may_be_lost = request is not None and host != ''
        if not self._may_be_lost or seconds < _LOST * 2.0 ** self._times:
            return False
        self._times += 1
        return True
