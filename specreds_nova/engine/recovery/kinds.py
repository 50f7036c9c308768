# SPDX-License-Identifier: Apache-2.0
"""How long a backup is expected to take until it is ready: by server, or else by kind of server.

A server that fails for the first time has no history, but others like it have. A kind is what a
tenant says of readiness and the size of the server: both are known before there is a backup. The
image is not part of it, as Nova does not say from which image a volume was made.
"""

from collections.abc import Sequence
import json
import uuid

from specreds_nova.engine import interfaces
from specreds_nova.engine import model

_NAMESPACE = uuid.UUID('5d3b8f0e-6a57-5c1d-9f42-7c0e2b94a1d6')
_READY = 'specreds:ready'
# A flavor as Nova describes it inside a server, which does not have its id.
_SIZE = ('original_name', 'vcpus', 'ram', 'disk')


def kind(server: model.Server) -> str:
    """Return the id of a server's kind, which has the form of a server's id."""
    parts = [server.metadata.get(_READY), *(server.flavor.get(name) for name in _SIZE)]
    return str(uuid.uuid5(_NAMESPACE, json.dumps(parts)))


def expected(store: interfaces.Store, servers: Sequence[model.Server]) -> dict[str, float]:
    """Return the expected seconds until a backup is ready, by the id of each known server.

    :raises exception.Unreachable: the database does not answer
    """
    by_kind = {server.id: kind(server) for server in servers}
    learned = store.expected({*by_kind, *by_kind.values()})
    return {server: learned.get(server, learned.get(its, 0.0))
            for server, its in by_kind.items() if server in learned or its in learned}


def learn(store: interfaces.Store, server: model.Server, seconds: float) -> None:
    """Remember how long a server's backup took, for the server and for its kind.

    :raises exception.Unreachable: the database does not answer
    """
    store.learn(server.id, seconds)
    store.learn(kind(server), seconds)
