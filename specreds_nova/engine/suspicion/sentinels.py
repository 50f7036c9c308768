# SPDX-License-Identifier: Apache-2.0
"""The states of the sentinels of all hosts, in the database: for operators, gates and engines.

Where engines do not act, they tell hosts to hide no server (``beats.answering``), and record that
before. They count on such a host again after ``ACTS_S`` in which they act, by a report that was
sent after these (``doc/source/timing.rst``).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
import itertools

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine import modes as all_modes
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.store import store as stores

LOG = logging.getLogger(__name__)

# Changes that one look records: thousands may be due after an upgrade.
_AT_ONCE = 100
# Seconds of a mode to act until a report counts of a host that has hidden no server before: more
# than FRESH, HEEDED_S and SENTINEL_S together.
ACTS_S = 30.0
# Seconds between two looks after which the mode may have been another one between them.
_UNSEEN_S = 5.0
# By the voices that are heard: level of the log, and words.
_VOICES = {
    model.BOTH: (logging.INFO, 'nova-compute and sentinel are heard'),
    model.NOVA_ALONE: (logging.WARNING, 'its sentinel is not heard by UDP'),
    model.SENTINEL_ALONE: (logging.WARNING, 'nova-compute does not answer; its servers run on, as '
                                            'its sentinel is heard'),
    model.HALF_DEAF: (logging.WARNING, 'its sentinel is heard by UDP, and does not hear this '
                                       'engine'),
    model.UNAUTHENTICATED: (logging.WARNING, 'its sentinel has a wrong key')}


class Sentinels:
    """Records what hosts report of their sentinels. For use by one thread.

    :param reported: returns the state of each sentinel that was reported to this engine
    :param hides: returns whether a sentinel hides servers, by a report after a time: Monitor.hides
    :param voices: returns which voices of each host are heard
    :param silences: returns since when each host is silent: Monitor.silences
    :param hearing: returns the other engines that hear a host
    """

    def __init__(self, reported: Callable[[], Mapping[str, str]],
                 hides: Callable[[str, float], bool | None], modes: all_modes.Modes,
                 database: stores.Store, clock: clocks.Clock,
                 voices: Callable[[], Mapping[str, str]] = dict,
                 silences: Callable[[], Mapping[str, float | None]] = dict,
                 hearing: Callable[[str], Collection[str]] = lambda host: ()) -> None:
        self._reported = reported
        self._hides = hides
        self._modes = modes
        self._database = database
        self._clock = clock
        self._voices = voices
        self._silences = silences
        self._hearing = hearing
        self._recorded: dict[str, str | None] = {}
        # The voices that are recorded, and the voices at the latest look.
        self._heard: dict[str, str | None] = {}
        self._before: Mapping[str, str] = {}
        self._silent: Mapping[str, float | None] = {}
        self._looked = float('-inf')
        # By host that hid no server: since when engines act on it, and its generation then.
        self._acts: dict[str, tuple[float, int]] = {}

    def know(self, hosts: Iterable[model.Host]) -> None:
        """Take what is recorded."""
        hosts = list(hosts)
        self._recorded |= {host.name: host.sentinel for host in hosts}
        self._heard |= {host.name: host.voices for host in hosts}

    def look(self) -> None:
        """Record what has changed."""
        self._record()
        self._record_voices()
        try:
            self._record_silences()
        except exception.EngineError as exc:
            LOG.warning('which hosts are silent is recorded later: %s', exc)
        try:
            self._count_again()
        except exception.EngineError as exc:
            LOG.warning('that hosts hide their servers again is recorded later: %s', exc)

    def _count_again(self) -> None:
        """Record the hosts on which engines act again, and which hide their servers.

        :raises exception.Unreachable: the database does not answer
        """
        showing = self._database.showing()
        acting = {name: generation for name, generation in showing.items() if self._mode(name)}
        # After the modes were read.
        now = self._clock.now()
        before = self._acts if now - self._looked < _UNSEEN_S else {}
        self._looked, self._acts = now, {}
        for name, generation in acting.items():
            since, known = before.get(name, (now, generation))
            if known != generation:
                # Engines have told it once more to hide no server.
                since = now
            hides = self._hides(name, since + ACTS_S)
            if hides and now - since >= ACTS_S and self._database.hide(name, generation):
                LOG.info('host %s hides its servers again when it hears nobody', name)
            elif hides is not False:
                self._acts[name] = since, generation

    def _mode(self, host: str) -> bool:
        """Return whether engines act on a host."""
        try:
            return self._modes.of(host) == model.ACT
        except exception.Unreachable:
            return False

    def _record(self) -> None:
        changed = [(name, state) for name, state in self._reported().items()
                   if self._recorded.get(name) != state]
        for name, state in changed[:_AT_ONCE]:
            try:
                self._database.report(name, 'sentinel', state)
            except exception.EngineError as exc:
                LOG.warning('host %s: that its sentinel is %s is recorded later: %s', name, state,
                            exc)
                return
            self._recorded[name] = state
            if state == model.LIVE:
                LOG.info('host %s: its sentinel is live', name)
            else:
                LOG.warning('host %s: its sentinel is %s: servers there may neither end nor be '
                            'hidden when they are promoted elsewhere', name, state)

    def _record_voices(self) -> None:
        """Record which voices are heard, if that was so at the look before."""
        heard, before = self._voices(), self._before
        self._before = heard
        changed = [(name, state) for name, state in heard.items()
                   if before.get(name) == state != self._heard.get(name)]
        for name, state in changed[:_AT_ONCE]:
            try:
                self._database.report(name, 'voices', state)
            except exception.EngineError as exc:
                LOG.warning('host %s: its voices are recorded later: %s', name, exc)
                return
            self._heard[name] = state
            level, words = _VOICES[state]
            LOG.log(level, 'host %s: %s', name, words)

    def _record_silences(self) -> None:
        """Record which hosts are silent, if they were at the look before, and which are not.

        :raises exception.EngineError: the database does not answer
        """
        silences, before = self._silences(), self._silent
        self._silent = silences
        recorded, ahead = self._database.silent(), self._clock.wall() - self._clock.now()
        changed: dict[str, float | None] = {}
        for name, since in silences.items():
            if since is None:
                if name in recorded:
                    changed[name] = None
            elif (name not in recorded and before.get(name) == since
                    and not self._hearing(name)):
                changed[name] = since + ahead
        self._database.silence(dict(itertools.islice(changed.items(), _AT_ONCE)))
