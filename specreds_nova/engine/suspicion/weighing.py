# SPDX-License-Identifier: Apache-2.0
"""What speaks against a host: its silence, its own reports, and the words of others."""


from specreds_nova.engine import model
from specreds_nova.engine.suspicion import evidence
from specreds_nova.engine.suspicion import settings as monitoring
from specreds_nova.engine.suspicion import watched


class Weighing:
    """Collects the evidence against hosts. A monitor calls it with its lock."""

    def __init__(self, settings: monitoring.Settings) -> None:
        self._settings = settings

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
        pieces += [evidence.of(kind, age, now) for kind, age in self._ages(host)]
        if not host.leaving:
            silence = horizon - host.accrual.last
            if horizon >= host.accrual.deadline:
                pieces.insert(0, evidence.of(evidence.SILENCE, silence, now))
            elif pieces and self._silence(host, horizon) > self._settings.doubt:
                share = host.accrual.phi(horizon) / self._settings.detector.threshold
                pieces.append(evidence.of(evidence.SILENCE, silence, now, min(share, 1.0)))
        return pieces

    def lasts(self, host: watched.Watched, horizon: float) -> float:
        """Return for how many seconds a host has been silent, or a service has been late there.

        :param horizon: time of the listening clock, by which silence counts
        """
        return max(0.0, horizon - host.accrual.last,
                   *(age - patience for _, age, patience in _overdue(host, self._settings)))

    def _ages(self, host: watched.Watched) -> list[tuple[str, float]]:
        """Return the services that do not answer the host, and for how long each has not."""
        return [(kind, age) for kind, age, _ in _overdue(host, self._settings)]

    def grace(self, host: watched.Watched) -> float:
        """Return the seconds for which silence is meaningless after the host's goodbye."""
        return self._settings.graces.get(host.goodbye or '', 0.0)

    def _silence(self, host: watched.Watched, horizon: float) -> float:
        """Return the silence of a host in intervals."""
        return (horizon - host.accrual.last) / host.interval


def _overdue(host: watched.Watched, settings: monitoring.Settings
             ) -> list[tuple[str, float, float]]:
    """Return the services that are late on a host: kind, age of the answer, and patience."""
    beat = host.beat
    if beat is None or beat.leaving:
        return []
    services = ((evidence.LIBVIRT, beat.libvirt_age, settings.libvirt_patience),
                (evidence.STORAGE, beat.storage_age, settings.storage_patience))
    return [(kind, age, patience) for kind, age, patience in services
            if age is not None and age > patience]
