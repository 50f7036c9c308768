# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for a cluster, and a record."""

from collections.abc import Mapping, Sequence
import contextlib
import dataclasses
import types
from typing import Any

import rados

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.truth import record
from specreds_cinder.superposition.truth import states

POOL_ID = 2
PREFIX = 'rbd_data.1a'


def pool(**changes: Any) -> ceph.Pool:
    """Return the facts of pool ``volumes``."""
    plain = ceph.Pool(id=POOL_ID, name='volumes', pg_num=8, merges='null', erasure=False,
                      cache_tier=False, rbd=True)
    return dataclasses.replace(plain, **changes)


def volume(**changes: Any) -> record.Volume:
    """Return a volume of 64 MiB in pool ``volumes``."""
    plain = record.Volume(
        pool='volumes', namespace='', image='vol-1', image_id='1a', pool_id=POOL_ID,
        data_pool_id=POOL_ID, data_pool='volumes', data_prefix=PREFIX, size_bytes=64 << 20,
        object_size=4 << 20, features=0x3d, overlay='vol-1.super-x',
        clients=('192.0.2.1:0/17',))
    return dataclasses.replace(plain, **changes)


def superposition(**changes: Any) -> record.Record:
    """Return a record of one volume whose cut bounds every placement group at version 100."""
    plain = record.Record(
        id='0b5b9f6e-6f0e-4d55-8a3c-1d1c3b3e7a01', state=states.SUPERPOSED, volumes=(volume(),),
        created_at='2020-01-01T00:00:00.000+00:00', updated_at='2020-01-01T00:00:00.000+00:00',
        cuts={POOL_ID: record.Cut(8, 'null', (100,) * 8)})
    return dataclasses.replace(plain, **changes)


class Ioctx:
    """A python-rados I/O context on objects of a test."""

    def __init__(self, objects: Mapping[str, bytes] | None = None) -> None:
        self.objects = dict(objects or {})
        self.reads: list[tuple[str, int, int]] = []

    def read(self, oid: str, length: int = 8192, offset: int = 0) -> bytes:
        """Return the part of the range that exists."""
        if oid not in self.objects:
            raise rados.ObjectNotFound(f'no {oid}')
        self.reads.append((oid, length, offset))
        return self.objects[oid][offset:offset + length]

    def get_last_version(self) -> int:
        """Return a version."""
        return 7

    def get_pool_id(self) -> int:
        """Return the pool's id."""
        return POOL_ID


class AioIoctx:
    """The asynchronous context: versions by object name; writes get rising ones."""

    def __init__(self, versions: Mapping[bytes, int] | None = None) -> None:
        self.versions = dict(versions or {})
        self.statted: list[bytes] = []
        self.written: list[list[bytes]] = []
        self.silent: set[bytes] = set()

    def stat_versions(self, names: Sequence[bytes], depth: int) -> list[int]:
        """Return the versions, 0 for missing objects.

        :raises ClusterTimeout: one of the objects is silent
        """
        if self.silent.intersection(names):
            raise errors.ClusterTimeout('stat: Ceph did not answer in time')
        self.statted += names
        return [self.versions.get(name, 0) for name in names]

    def stat_answered(self, names: Sequence[bytes], patience_s: float) -> list[int | None]:
        """Return the versions, None for silent objects."""
        self.statted += [name for name in names if name not in self.silent]
        return [None if name in self.silent else self.versions.get(name, 0) for name in names]

    def write_answered(self, names: Sequence[bytes], data: bytes,
                       patience_s: float) -> list[int | None]:
        """Return a version per name, None for silent objects."""
        self.written.append(list(names))
        return [None if name in self.silent else number
                for number, name in enumerate(names, 1)]


class Cluster:
    """A cluster of one pool with one context of each kind.

    :param pools: successive answers of the monitors; the last one stays
    """

    conffile = '/etc/ceph/ceph.conf'
    user = 'cinder'
    timeout = 10.0

    def __init__(self, io: Any = None, aio: Any = None,
                 pools: Sequence[Mapping[int, ceph.Pool]] = ({POOL_ID: pool()},)) -> None:
        self._io = io
        self._pools = list(pools)
        self.aio = types.SimpleNamespace(ioctx=lambda _pool_id, _namespace: aio)

    def ioctx(self, _pool: str, _namespace: str = '') -> contextlib.AbstractContextManager[Any]:
        """Return the context of the pool."""
        return contextlib.nullcontext(self._io)

    def pools(self) -> Mapping[int, ceph.Pool]:
        """Return the answer of the monitors."""
        return self._pools.pop(0) if len(self._pools) > 1 else self._pools[0]


class Store:
    """Records in memory."""

    def __init__(self, *stored: record.Record) -> None:
        self.stored = {each.id: each for each in stored}

    def read(self, superposition: str, _home: record.Home) -> record.Record:
        """Return a record."""
        if superposition not in self.stored:
            raise errors.NotSuperposed(f'there is no superposition {superposition}')
        return self.stored[superposition]

    def change(self, old: record.Record, **changes: Any) -> record.Record:
        """Change a record, as another controller does."""
        stored = self.read(old.id, old.home)
        self.stored[old.id] = dataclasses.replace(
            stored, version=stored.version + 1, **changes)
        return self.stored[old.id]

    def swap(self, old: record.Record, new: record.Record) -> record.Record:
        """Replace a record, unless it was changed."""
        if self.read(old.id, old.home).version != old.version:
            raise errors.RecordChanged(f'superposition {old.id} was changed')
        self.stored[old.id] = dataclasses.replace(new, version=old.version + 1)
        return self.stored[old.id]
