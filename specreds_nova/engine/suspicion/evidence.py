# SPDX-License-Identifier: Apache-2.0
"""Evidence that a host has failed, and its weight.

Each kind has a weight; a host is suspected if the weights of its evidence add up to 1.
"""

from collections.abc import Iterable, Mapping
import dataclasses
from typing import Any

# Evidence about hosts.
SILENCE = 'silence'
LIBVIRT = 'libvirt'
STORAGE = 'storage'
NOVA = 'nova'
OPERATOR = 'operator'
# Evidence about one server, never about its host.
CRASH = 'crash'
# Beside a crash: the server has ended with its host.
BOOT = 'boot'
# Of a server that is well, whose backup is only tried.
DRILL = 'drill'

# Sum of weights that makes a suspicion.
ENOUGH = 1.0
# Weights are sums of decimal fractions.
_ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of evidence.

    :ivar weight: weight from 0, which does not count, to 1, which decides alone
    :ivar words: its text; ``{0}`` stands for the measured value
    """

    name: str
    weight: float
    words: str


KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (
    Kind(SILENCE, 1.0, 'no beat for {0:.2f} s'),
    # Servers run on without nova-compute.
    Kind(LIBVIRT, 0.5, 'libvirt has not answered for {0:.0f} s'),
    Kind(STORAGE, 1.0, 'its storage has not answered for {0:.0f} s'),
    # Nova is a minute late, and a stopped service looks the same.
    Kind(NOVA, 0.3, 'Nova takes its service for down: {0}'),
    Kind(OPERATOR, 1.0, 'an operator says so: {0}'),
    Kind(CRASH, 1.0, 'the domain of server {0} has crashed'),
    Kind(BOOT, 0.0, '{0} has booted'),
    Kind(DRILL, 0.0, 'a drill, requested by user {0}'),
)}


@dataclasses.dataclass(frozen=True)
class Evidence:
    """A piece of evidence for a failure.

    :ivar share: its share of its kind's weight, from 0 to 1
    :ivar at: time by the engine's clock
    """

    kind: str
    words: str
    at: float
    share: float = 1.0

    def told(self, ahead: float = 0.0) -> Mapping[str, Any]:
        """Return it as :class:`model.Host` keeps it: ``kind``, ``words``, ``at``.

        :param ahead: seconds by which the system's clock is ahead of the evidence's
        """
        return {'kind': self.kind, 'words': self.words, 'at': self.at + ahead}


def of(kind: str, measured: object, at: float, share: float = 1.0) -> Evidence:
    """Make evidence of a kind.

    :param measured: value for the words of the kind
    :raises KeyError: there is no such kind
    """
    return Evidence(kind, KINDS[kind].words.format(measured), at, share)


def enough(pieces: Iterable[Evidence]) -> bool:
    """Return whether evidence is enough for a suspicion."""
    return sum(KINDS[piece.kind].weight * piece.share for piece in pieces) >= ENOUGH - _ROUNDING
