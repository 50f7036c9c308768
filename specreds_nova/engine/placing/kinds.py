# SPDX-License-Identifier: Apache-2.0
"""What earlier backups let expect: by server, or else by kind of server.

A server that fails for the first time has no history, but similar servers may have one. A kind
consists of the server's conditions of readiness, its size, and the image from which it boots: all
are known before the backup exists. Servers that boot from volumes are of one kind whatever their
image, because Nova does not report the image of a volume.
"""

from collections.abc import Sequence
import json
import uuid

from specreds_nova.engine import model
from specreds_nova.engine.store import store as stores

_NAMESPACE = uuid.UUID('5d3b8f0e-6a57-5c1d-9f42-7c0e2b94a1d6')
_READY = 'specreds:ready'
# Keys of the flavor as Nova embeds it in a server, without its id.
_SIZE = ('original_name', 'vcpus', 'ram', 'disk')


def kind(server: model.Server) -> str:
    """Return the id of a server's kind, which has the form of a server's id."""
    parts = [server.metadata.get(_READY), *(server.flavor.get(name) for name in _SIZE)]
    if server.image is not None:
        parts.append(server.image)
    return str(uuid.uuid5(_NAMESPACE, json.dumps(parts)))


def expected(store: stores.Store, servers: Sequence[model.Server]
             ) -> dict[str, float]:
    """Return the seconds that a backup is expected to take, by the id of each known server.

    :raises exception.Unreachable: the database does not answer
    """
    by_kind = {server.id: kind(server) for server in servers}
    learned = store.expected({*by_kind, *by_kind.values()})
    return {server: learned[server if server in learned else its]
            for server, its in by_kind.items() if server in learned or its in learned}


def learn(store: stores.Store, server: model.Server, seconds: float) -> None:
    """Remember how long a server's backup took, for the server and for its kind.

    :raises exception.Unreachable: the database does not answer
    """
    store.learn(server.id, seconds)
    store.learn(kind(server), seconds)
