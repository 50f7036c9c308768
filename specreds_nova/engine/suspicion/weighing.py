# SPDX-License-Identifier: Apache-2.0
"""What speaks against a host: its silence, its own reports, and the words of others.

A host has two voices. Its nova-compute is silent if its beats are late. That says nothing of the
machine while the sentinel is heard, if the sentinel belongs to the same boot of the host, and
reports that Ceph answers: then servers run on, and nobody is recovered. A voice that this engine
has never heard, or of which nothing is known, decides nothing.

A sentinel that is stopped in good order may return within a minute. Meanwhile nothing tells a host
whose nova-compute is silent from a dead one, and the servers of a living host may be idle. So its
servers are left alone for that minute. A sentinel that is alone, and misses some beats, has a
little more time than a sentinel beside a nova-compute.

The goodbye of a nova-compute excuses the silence of the nova-compute. It excuses the silence of
the sentinel for a minute only, as both are upgraded together: everybody with the password of the
broker can say goodbye in the name of a host.
"""

from collections.abc import Callable

from specreds_nova.beats import voice
from specreds_nova.beats import voices as all_voices
from specreds_nova.engine import model
from specreds_nova.engine.suspicion import evidence
from specreds_nova.engine.suspicion import settings as monitoring
from specreds_nova.engine.suspicion import watched

# Seconds that a sentinel has to return after its own goodbye, or the goodbye of nova-compute.
RETURN_S = 60.0


class Weighing:
    """Collects the evidence against hosts. A monitor calls it with its lock.

    :param now: returns the time by the engine's clock
    """

    def __init__(self, settings: monitoring.Settings, voices: all_voices.Voices,
                 now: Callable[[], float]) -> None:
        self._settings = settings
        self._voices = voices
        self._now = now

    def speaks(self, host: watched.Watched) -> bool:
        """Return whether a sentinel says that its host is well, whatever nova-compute does."""
        last = self._voices.last(host.name)
        if last is None:
            return False
        patience = host.accrual.deadline - host.accrual.last
        alone = host.heard is None or last - host.heard > patience
        state = self._voices.state(
            host.name, all_voices.ALONE if alone else all_voices.PATIENCE)
        if state != all_voices.HEARD and not (
                state == all_voices.LEFT and self._now() - last < RETURN_S):
            return False
        age = self._voices.storage_age(host.name)
        if age is not None and age > self._settings.storage_patience:
            return False
        before = (host.kernel if host.beat is None else host.beat.kernel) or ''
        # The servers of another boot are not those that ran when nova-compute was heard.
        return not before or self._voices.kernel(host.name) == voice.kernel_id(before)

    def excused(self, host: watched.Watched, now: float) -> bool:
        """Return whether the silence of a host is expected after a goodbye.

        :param now: time by the engine's clock
        """
        if not host.leaving:
            return False
        last = self._voices.last(host.name)
        return (last is None or now - last < RETURN_S
                or self._voices.state(host.name) != all_voices.SILENT)

    def late(self, host: watched.Watched, horizon: float) -> bool:
        """Return whether the beats of a nova-compute do not arrive, or were never heard."""
        return host.beat is None or (
            horizon - host.accrual.last > self._settings.doubt * host.interval)

    def evidence(self, host: watched.Watched, horizon: float,
                 now: float) -> list[evidence.Evidence]:
        """Return the evidence against a host, and forget what is too old.

        :param horizon: time of the listening clock, by which silence counts
        :param now: time by the engine's clock
        """
        pieces = []
        if host.word == model.SUSPECT:
            pieces.append(evidence.of(evidence.OPERATOR, host.word_reason, now))
        for kind, piece in list(host.noted.items()):
            if now - piece.at > self._settings.evidence_lifetime:
                del host.noted[kind]
            else:
                pieces.append(piece)
        pieces += [evidence.of(kind, age, now) for kind, age, _ in self._overdue(host, horizon)]
        if not self.excused(host, now) and not self.speaks(host):
            silence = self._silence(host, horizon, now)
            if horizon >= host.accrual.deadline:
                pieces.insert(0, evidence.of(evidence.SILENCE, silence, now))
            elif pieces and self.late(host, horizon):
                share = host.accrual.phi(horizon) / self._settings.detector.threshold
                pieces.append(evidence.of(evidence.SILENCE, silence, now, min(share, 1.0)))
        return pieces

    def lasts(self, host: watched.Watched, horizon: float, now: float) -> float:
        """Return for how many seconds a host has been silent, or a service has been late there.

        Other parameters: :meth:`evidence`.
        """
        return max(0.0, self._silence(host, horizon, now),
                   *(age - patience for _, age, patience in self._overdue(host, horizon)))

    def grace(self, host: watched.Watched) -> float:
        """Return the seconds for which silence is meaningless after the host's goodbye."""
        return self._settings.graces.get(host.goodbye or '', 0.0)

    def _silence(self, host: watched.Watched, horizon: float, now: float) -> float:
        """Return for how many seconds neither voice of a host was heard."""
        silence = horizon - host.accrual.last
        last = self._voices.last(host.name)
        if last is None or self._voices.state(host.name) == all_voices.HEARD:
            return silence
        return min(silence, now - last)

    def _overdue(self, host: watched.Watched, horizon: float) -> list[tuple[str, float, float]]:
        """Return the services that are late on a host: kind, age of the answer, and patience.

        Of a host whose nova-compute is silent, the sentinel knows better.
        """
        beat, settings = host.beat, self._settings
        if beat is None or beat.leaving:
            return []
        libvirt, storage = beat.libvirt_age, beat.storage_age
        if (self.late(host, horizon)
                and self._voices.state(host.name) == all_voices.HEARD):
            libvirt, storage = None, self._voices.storage_age(host.name)
        services = ((evidence.LIBVIRT, libvirt, settings.libvirt_patience),
                    (evidence.STORAGE, storage, settings.storage_patience))
        return [(kind, age, patience) for kind, age, patience in services
                if age is not None and age > patience]
