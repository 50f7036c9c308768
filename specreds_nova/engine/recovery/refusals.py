# SPDX-License-Identifier: Apache-2.0
"""The reasons why Nova would fail to evacuate a server, which hosts and Cinder report beforehand.

Nova's API refuses some servers for what its API does not show, such as mounted shares or a virtual
TPM of the image. A nova-compute reads that from Nova's database. Cinder lets Nova attach no volume
that is busy, such as one that is being backed up: Nova accepts the request, and fails.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.clients import backups as backup_clients

# Hosts to ask at most.
_ASKED = 3

Answer = Mapping[str, Any] | backup_errors.BackupError | exception.Unreachable


def ask(backups: backup_clients.Backups, hosts: Sequence[str], server_id: str
        ) -> Iterator[tuple[str, Answer]]:
    """Yield hosts, and whether each could run a server's backup, or the error of the question.

    :param hosts: the best first; the caller stops when it knows enough
    """
    for host in hosts[:_ASKED]:
        try:
            yield host, backups.check(host, server_id)
        except (backup_errors.BackupError, exception.Unreachable) as exc:
            yield host, exc


def reason(answers: Iterable[tuple[str, Answer]]) -> str | None:
    """Return why Nova would refuse to evacuate a server; None if it would not, or no host knows.

    All hosts of a cell that know have the same answer. A host without the plug-in does not know.

    :raises exception.Unreachable: all hosts are silent
    """
    silent: list[str] = []
    hosts = 0
    for host, answer in answers:
        hosts += 1
        if isinstance(answer, Mapping):
            immovable: str | None = answer['immovable']
            return immovable
        if not isinstance(answer, backup_errors.ServerNotEligible):
            silent.append(f'{host}: {answer}')
    if silent and len(silent) == hosts:
        raise exception.Unreachable(
            f'no host reports whether Nova would evacuate the server: {"; ".join(silent)}')
    return None


def of_volumes(eligible: Mapping[str, model.Eligibility]) -> list[str]:
    """Return why Cinder would not let Nova attach volumes to another host; none if it would."""
    return [f'volume {volume} cannot be attached to another host: {"; ".join(each.reasons)}'
            for volume, each in eligible.items() if not each.movable]
