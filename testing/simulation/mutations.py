# SPDX-License-Identifier: Apache-2.0
"""Safety steps of the engine that are taken out, and seeds that find out."""

from collections.abc import Callable, Collection, Iterable, Sequence
import contextlib
import dataclasses
from typing import Any
from unittest import mock

from specreds_nova.beats import answering
from specreds_nova.beats import message
from specreds_nova.beats import senders
from specreds_nova.beats import voice
from specreds_nova.beats import voices
from specreds_nova.engine.placing import capacity
from specreds_nova.engine.placing import conductor
from specreds_nova.engine.placing import preparation_limit
from specreds_nova.engine.recovery import cleaning
from specreds_nova.engine.recovery import dispatch
from specreds_nova.engine.recovery import evacuation
from specreds_nova.engine.recovery import janitor
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import tenant
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import decide
from specreds_nova.engine.recovery.steps import start
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import monitor as monitors
from specreds_nova.engine.suspicion import sentinels
from specreds_nova.engine.suspicion import votes
from specreds_nova.engine.suspicion import watched
from specreds_nova.engine.suspicion import weighing
from testing.simulation import world as worlds


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One safety step that is taken out.

    :ivar words: what the engine does without it
    :ivar owner: class or module with the step
    :ivar attribute: name of the step in it
    :ivar instead: takes its place
    :ivar seed: a seed that finds it
    :ivar mix: the kinds of faults that seeds have for it; none for all kinds
    :ivar also: other attributes of the owner that take the same step
    """

    name: str
    words: str
    owner: Any
    attribute: str
    instead: Any
    seed: int
    mix: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    def applied(self) -> 'contextlib.AbstractContextManager[object]':
        """Return a context without the safety step."""
        return mock.patch.multiple(
            self.owner, **dict.fromkeys((self.attribute, *self.also), self.instead))


_take = watched.Watched.hear
_hear = monitors.Monitor.heard
_on = start._on
_fresh = voices.Voices._fresh
_answer = voices.Voices._answer
_conductor_forget = conductor.Conductor._forget


def _kernel_ignored(self: watched.Watched, beat: message.Beat, at: float, now: float,
                    learn: bool) -> str | None:
    """Take a beat as if it named neither the kernel nor the domains that run."""
    return _take(self, dataclasses.replace(beat, kernel='', running='', domains=None), at, now,
                 learn)


def _goodbye_clears(self: monitors.Monitor, beat: message.Beat) -> None:
    """Take a beat; a goodbye ends the suspicion of its host."""
    _hear(self, beat)
    host = self._hosts.get(beat.host)
    if beat.leaving and host is not None:
        host.suspected, host.since, host.why = False, None, ()


def _same_disks(run: runs.Run, host: str, superposition: str) -> verdicts.StepVerdict | None:
    """Treat a host that does not answer as one on which no backup was begun."""
    verdict = _on(run, host, superposition)
    if verdict is not None and verdict.kind == verdicts.AGAIN:
        return verdicts.StepVerdict(start._ELSEWHERE, verdict.why)
    return verdict


def _answer_all(self: answering.Answers) -> None:
    """Answer all hosts that are heard, suspected or not."""
    heard: Any = self._heard
    for name, host in heard._hosts.items():
        if host.beat is not None:
            self._answer([answering._Due(name, host.beat.boot, host.beat.number)])


def _as_due(self: answering.Answers, due: Sequence[answering._Due]) -> list[answering._Due]:
    """Return the answers as for a mode to act."""
    del self
    return list(due)


def _as_recorded(self: answering.Answers, shown: Collection[str]) -> frozenset[str]:
    """Take all hosts for recorded."""
    del self
    return frozenset(shown)


def _count_at_once(self: sentinels.Sentinels) -> None:
    """Count on each host on which engines act, whatever it reports."""
    for name, generation in self._database.showing().items():
        if self._mode(name):
            self._database.hide(name, generation)


def _answer_unsuspected(self: monitors.Monitor) -> list[tuple[str, str, int]]:
    """Answer no host that this engine suspects by itself."""
    return [(host.name, host.beat.boot, host.beat.number) for host in self._hosts.values()
            if host.beat is not None and not host.suspected]


def _silent_for(self: weighing.Weighing, host: watched.Watched, horizon: float,
                now: float) -> float:
    """Return the seconds without a beat, whatever the beats report."""
    del self, now
    return max(0.0, horizon - host.accrual.last)


def _any_number(self: senders.Senders, beat: message.Beat, latest: message.Beat, silence: float,
                now: float) -> str | None:
    """Refuse only beats with earlier numbers."""
    del self, silence, now
    return '' if beat.boot == latest.boot and beat.number <= latest.number else None


class _Any(dict[bytes, float]):
    """Nonces, of which each one counts."""

    def __contains__(self, _nonce: object) -> bool:
        return True


def _any_nonce(self: voices.Voices, now: float) -> dict[bytes, float]:
    """Issue nonces, and count each one as issued."""
    self._nonces = _Any(_fresh(self, now))
    return self._nonces


def _renew_always(self: voices.Voices, known: Any, _says: voice.Says) -> bytes:
    """Answer a sentinel, and renew the lease of its host."""
    return _answer(self, known, voice.Says.HIDE)


def _keep_slot(self: conductor.Conductor, recovery_id: str) -> None:
    """Forget a recovery, but not its slot."""
    held = recovery_id in self._capacity.held()
    _conductor_forget(self, recovery_id)
    if held:
        self._capacity.enter(recovery_id)


def _nothing(value: Any = None) -> Callable[..., Any]:
    """Return a function that only returns a value."""
    return lambda *arguments, **values: value


# Modes of hosts change while the hosts lose their links.
_MODES = ('mode', 'mode', 'mode:h1', 'isolated:h1', 'storage:h1', 'control:h1', 'pause:h1')


def _by_name(mutations: Iterable[Mutation]) -> dict[str, Mutation]:
    return {mutation.name: mutation for mutation in mutations}


MUTATIONS = _by_name((
    Mutation('c1-boot-ignored', 'a host that beats again counts as running its servers, whatever '
             'kernel and domains its beats name', watched.Watched, 'hear', _kernel_ignored, 2),
    Mutation('c2-goodbye-clears', 'a goodbye ends the suspicion of its host',
             monitors.Monitor, 'heard', _goodbye_clears, 2343),
    Mutation('c2-goodbye-for-ever', 'silence after a goodbye never counts',
             weighing.Weighing, 'grace', _nothing(float('inf')), 990),
    Mutation('c2-goodbye-unread', 'an engine that starts does not read which hosts have said '
             'goodbye', monitors.Monitor, 'left', _nothing(), 14,
             ('service', 'service', 'engine_killed', 'engine_killed')),
    Mutation('h5-mode', 'the servers of a host are recovered whose mode is not to act',
             gates.Mode, 'reason', _nothing(), 135, ('mode', 'mode', 'power', 'isolated')),
    Mutation('c3-no-lease-wait', 'a backup is promoted before the lease of the primary is over',
             decide, 'wait_unseen', _nothing(), 38),
    Mutation('c3-suspects-answered', 'hosts that are suspected are answered as well',
             answering.Answers, '_answer_all', _answer_all, 14),
    Mutation('living-hidden', 'hosts whose suspicion is held back are not answered',
             monitors.Monitor, 'answerable', _answer_unsuspected, 3,
             ('storage:h1', 'storage:h2', 'storage:h3')),
    Mutation('hidden-in-observe', 'hosts hide servers whatever their mode is',
             answering.Answers, '_instructed', _as_due, 13, _MODES),
    Mutation('shown-unrecorded', 'a host is told to hide no server before that is recorded',
             answering.Answers, '_recorded', _as_recorded, 9, _MODES),
    Mutation('shown-forgotten', 'a host counts as one that hides servers once engines act on it',
             sentinels.Sentinels, '_count_again', _count_at_once, 9, _MODES),
    Mutation('shown-promoted', 'servers of a host are promoted that may hide none',
             gates.Unleased, 'reason', _nothing(), 9, _MODES),
    Mutation('h6-no-votes', 'what the other engines hear does not count', votes.Votes, 'hearing',
             _nothing(()), 24, ('engine_deaf', 'engine_deaf', 'engine_deaf', 'late_write'),
             also=('holding',)),
    Mutation('too-many-silent', 'the servers of most hosts are recovered when all of these hosts '
             'fall silent together', gates.TooMany, 'reason', _nothing(), 1, ('switch',)),
    Mutation('correlated-silence', 'the hosts of a zone that fall silent together have no time to '
             'be heard again', gates.Correlated, 'reason', _nothing(), 8, ('switch',)),
    Mutation('stall-held', 'the hosts of a zone that lose Ceph together are held for ever',
             weighing.Weighing, 'lasts', _silent_for, 18, ('ceph_switch',)),
    Mutation('left-unshown', 'a server that is busy when its host dies has no outcome',
             dispatch.Dispatcher, '_left', _nothing(()), 0, ('endless', 'busy')),
    Mutation('any-number', 'each later number of a beat counts', senders.Senders, 'refusal',
             _any_number, 0, ('forged',)),
    Mutation('voice-ignored', 'the servers of a host are recovered whose nova-compute alone is '
             'silent', weighing.Weighing, 'speaks', _nothing(False), 0,
             ('voices', 'crash_compute')),
    Mutation('old-nonce', 'a beat of a sentinel counts whichever nonce it names',
             voices.Voices, '_fresh', _any_nonce, 3, ('replay', 'power', 'engine_killed')),
    Mutation('farewell-ignored', 'a sentinel that was stopped in good order has no time to return',
             weighing, 'RETURN_S', 0.0, 8, ('farewell', 'farewell', 'crash_compute')),
    Mutation('unhidden', 'the servers of a host that has no sentinel are promoted at once',
             decide, '_is_unhidden', _nothing(False), 67,
             ('sentinel:h1', 'sentinel:h1', 'isolated:h1')),
    Mutation('crash-unseen', 'a nova-compute does not report the guests that crashed before its '
             'start', worlds.World, '_remember', _nothing(), 3,
             ('voices', 'crash_compute', 'crash')),
    Mutation('suspects-renewed', 'each answer to a sentinel renews the lease of its host',
             voices.Voices, '_answer', _renew_always, 2,
             ('voices', 'crash_compute:h1', 'storage:h1')),
    Mutation('lost-request', 'an evacuation that Nova has lost is waited for',
             evacuation._Unclaimed, 'is_lost', _nothing(False), 17,
             ('conductor_dies', 'power', 'isolated')),
    Mutation('power-up', 'servers are moved from a host that boots later than the others',
             gates.PowerUp, 'reason', _nothing(), 0, ('site',)),
    Mutation('flapping', 'the servers of a host are recovered as often as its link fails',
             gates.Flapping, 'reason', _nothing(), 0, ('flapping',)),
    Mutation('late-force-down', 'a host stays down in Nova that a late request has forced down',
             janitor.Janitor, '_lift', _nothing(), 64,
             ('twice:nova', 'late:nova', 'power', 'control')),
    Mutation('second-opinion', 'the sentinel of a silent host is not asked which servers run',
             runs.Run, 'second_opinion', _nothing(), 2, ('drill',)),
    Mutation('spared', 'no last question before the decision whether the host is well',
             runs.Run, 'spared', _nothing(), 175, also=('lives',)),
    Mutation('same-disks', 'a second backup is started while the first one may run',
             start, '_on', _same_disks, 175, ('lost', 'power', 'control', 'control', 'pause')),
    Mutation('standing', 'a decision of an engine that died is not looked for',
             runs.Run, 'standing', _nothing(), 840,
             ('power', 'engine_killed', 'engine_killed', 'slow', 'isolated', 'late_write')),
    Mutation('tenant', 'what users have asked for meanwhile is overridden',
             tenant, '_asked', _nothing(), 13, ('stop', 'isolated', 'power', 'power')),
    Mutation('unfenced-host', 'a host is not recorded as one to be cleaned',
             cleaning, 'require', _nothing(True), 4),
    Mutation('unclean-host', 'a host is trusted again before it is clean',
             janitor.Janitor, '_clean', _nothing(True), 105),
    Mutation('lost-recoveries', 'the recoveries on which no living engine works are left',
             conductor.Conductor, '_take', _nothing(), 9,
             ('engine_without', 'engine_killed', 'engine_cut', 'power', 'engine_killed',
              'engine_without')),
    Mutation('lost-superpositions', 'superpositions of ended recoveries are left',
             janitor.Janitor, '_superpositions', _nothing(), 57,
             ('control:h1', 'late:cinder', 'late:cinder', 'late:cinder', 'control:h1')),
    Mutation('withdraw', 'the backup that has lost is left', decide, 'withdraw', _nothing(), 18,
             ('power', 'power', 'reboot', 'control', 'isolated')),
    Mutation('slot-kept', 'a recovery that is left keeps its slot',
             conductor.Conductor, '_forget', _keep_slot, 54,
             ('engine_killed', 'engine_cut', 'power', 'engine_without')),
    Mutation('place-kept', 'a recovery that has ended counts against the limits of its host',
             capacity.Capacity, 'leave', _nothing(), 4),
    Mutation('preparation-kept', 'a prepared recovery keeps its place among those that prepare',
             preparation_limit.PreparationLimit, 'leave', _nothing(), 4),
))
