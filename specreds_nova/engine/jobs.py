# SPDX-License-Identifier: Apache-2.0
"""The board of jobs in etcd: the recoveries to work on, and which engine has claimed them.

It is TaskFlow's board with fewer requests. TaskFlow uses a lease for each claim, three requests to
post a job and one request to read each job, which takes longer than many recoveries do. Here an
engine has one lease, so that all its claims expire at once when it dies, and one request posts a
job, or reads all jobs. Claims keep two engines from the same work; the database keeps them from
doing harm if both work all the same.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
import dataclasses
import functools
import threading
import time
from typing import Any, TypeVar

import etcd3gw
from etcd3gw import exceptions as etcd_exceptions
from etcd3gw import utils as etcd_utils
from oslo_config import cfg
from oslo_log import log as logging
from oslo_serialization import jsonutils
from oslo_utils import timeutils
from oslo_utils import uuidutils
import requests
from taskflow import exceptions as taskflow_exceptions
from taskflow.jobs import base
from taskflow.jobs.backends import impl_etcd

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.clients import connections
from specreds_nova.engine.recovery import policies

LOG = logging.getLogger(__name__)

_T = TypeVar('_T')

_PATH = 'specreds'
_TIMEOUT = 2.0
_CONNECTIONS = 64
_API = '/v3/'
# Jobs that one request claims at most: each needs 2 of the 128 conditions that etcd permits.
_BATCH = 60
# Sequence numbers of jobs are microseconds since the epoch.
_PER_SECOND = 1_000_000


@dataclasses.dataclass(frozen=True)
class Posted:
    """A job that no engine has claimed, or only one whose claims do not count.

    :ivar sequence: orders jobs by the time at which they were posted
    :ivar owner: that engine; None without one
    """

    recovery: str
    project: str
    host: str
    priority: int
    expected: float | None
    sequence: int
    job: Any
    owner: str | None = None

    @property
    def waiting(self) -> policies.Waiting:
        """Return the properties that the turn of the recovery depends on."""
        return policies.Waiting(self.recovery, self.project, self.host, self.priority,
                                self.expected, self.sequence / _PER_SECOND)


class Board:
    """The board. May be used by several threads.

    :param client: client of etcd
    :param who: name of the engine
    :param lease: seconds for which a claim holds without a renewal
    :raises exception.Unreachable: every method, if etcd does not answer
    """

    def __init__(self, client: etcd3gw.Etcd3Client, who: str, lease: int) -> None:
        self._board = _Board(client, who, lease)
        self._who = who

    def post(self, recovery: model.Recovery, *, ours: bool = False) -> Posted:
        """Post the job of a recovery.

        :param ours: claim the job at once
        """
        job = _translated(lambda: self._board.put(recovery.id, {
            'project': recovery.project, 'host': recovery.host,
            'priority': recovery.priority, 'expected': recovery.expected}, ours))
        return _posted(job)

    def unclaimed(self, dead: Collection[str] = (), known: Collection[tuple[str | None, str]] = ()
                  ) -> list[Posted]:
        """Return the jobs that no engine has claimed, in the order in which they were posted.

        Engines that find a recovery without a job at the same time each post one. While one of
        its jobs is claimed, the others are not returned: engines that take them would take the
        recovery from each other for ever.

        :param dead: names of engines whose claims do not count; jobs that these have claimed are
            returned, too
        :param known: pairs of such an engine and a recovery whose jobs are left out: an engine has
            thousands of its own
        """
        free = _translated(lambda: self._board.look(dead, known)[0])
        return sorted(map(_posted, free), key=lambda posted: posted.sequence)

    def known(self) -> set[str]:
        """Return the recoveries that have jobs, claimed or not."""
        return _translated(lambda: self._board.look()[1])

    def claim(self, posted: Posted) -> bool:
        """Claim a job; return False if another engine has claimed it, or it is done."""
        return self._claim([posted])

    def _claim(self, wanted: Sequence[Posted]) -> bool:
        return _translated(lambda: self._board.try_claim(*(posted.job for posted in wanted)))

    def claim_all(self, wanted: Sequence[Posted]) -> list[Posted]:
        """Claim jobs, and return those that are claimed.

        The others are claimed by another engine, or done.
        """
        claimed: list[Posted] = []
        for first in range(0, len(wanted), _BATCH):
            batch = wanted[first:first + _BATCH]
            if self._claim(batch):
                claimed += batch
            elif len(batch) > 1:
                # Another engine has claimed at least one of them meanwhile.
                claimed += filter(self.claim, batch)
        return claimed

    def consume(self, posted: Posted) -> None:
        """Remove a job that is done, unless another engine has claimed it meanwhile."""
        self._release(self._board.consume, posted)

    def abandon(self, posted: Posted) -> None:
        """Release a job for other engines, unless one of them has claimed it meanwhile."""
        self._release(self._board.abandon, posted)

    def keep(self) -> None:
        """Renew the claims. To be called several times within a lease."""
        _translated(self._board.keep)

    def close(self) -> None:
        """Release all claims."""
        _translated(self._board.release)

    def _release(self, how: Callable[[Any, str], None], posted: Posted) -> None:
        try:
            _translated(lambda: how(posted.job, self._who))
        except (taskflow_exceptions.NotFound, taskflow_exceptions.JobFailure) as exc:
            LOG.info('recovery %s: another engine has its job: %s', posted.recovery, exc)


class _Job(impl_etcd.EtcdJob):
    """A job on the board.

    :param claimed: revision of a claim that does not count; None without one
    :param owner: the engine that has claimed it so; None without one
    """

    def __init__(self, *arguments: Any, claimed: str | None = None, owner: str | None = None,
                 **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.claimed = claimed
        self.owner = owner


class _Board(impl_etcd.EtcdJobBoard):
    """TaskFlow's board without its watch, which does not survive a restart of etcd."""

    def __init__(self, client: etcd3gw.Etcd3Client, who: str, seconds: int) -> None:
        super().__init__(_PATH, {'path': _PATH}, client=client)
        self._who = who
        self._seconds = seconds
        self._lease: Any = None
        self._lease_lock = threading.Lock()
        # By key, as etcd encodes it: the job, and its posting; None for a claim.
        self._known: dict[str, tuple[str, dict[str, Any] | None]] = {}

    def put(self, name: str, details: dict[str, Any], ours: bool) -> _Job:
        """Post a job in one request: times order jobs as well as a counter does."""
        sequence, job_id = time.time_ns() // 1000, uuidutils.generate_uuid()
        posting = base.format_posting(job_id, name, details=details,
                                      created_on=timeutils.utcnow()) | {'sequence': sequence}
        job = _Job(
            self, name, self._client, self._create_path(
                self._root_path, f'{self.JOB_PREFIX}{sequence}-{job_id}'),
            uuid=job_id, details=details, sequence=sequence)
        puts = [{'key': self._data(job), 'value': etcd_utils._encode(jsonutils.dumps(posting))}]
        if ours:
            puts.append(self._lock_of(job))
        self._client.transaction({'compare': [], 'failure': [],
                                  'success': [{'request_put': put} for put in puts]})
        return job

    def look(self, dead: Collection[str] = (), known: Collection[tuple[str | None, str]] = ()
             ) -> tuple[list[_Job], set[str]]:
        """Return the jobs of which none of that name is claimed, and the names of all jobs.

        :param dead: owners of claims that do not count
        :param known: pairs of an owner and a name whose jobs are left out
        """
        data, locks, claims = {}, set(), {}
        parsed: dict[str, tuple[str, dict[str, Any] | None]] = {}
        for entry in self._entries():
            # A job is not changed after it was posted, and thousands may be read each time.
            encoded = entry['key']
            job, posting = parsed[encoded] = self._known.get(encoded) or self._read(entry)
            if posting is not None:
                data[job] = posting
            else:
                owner = _owner(entry['value'])
                if owner in dead:
                    claims[job] = {'claimed': entry['mod_revision'], 'owner': owner}
                else:
                    locks.add(job)
        self._known = parsed
        claimed = {data[key]['name'] for key in locks & data.keys()}
        free = [_Job(self, posting['name'], self._client, key, uuid=posting['uuid'],
                     details=posting.get('details') or {}, sequence=posting['sequence'],
                     **claims.get(key, {}))
                for key, posting in data.items() if posting['name'] not in claimed
                and (claims.get(key, {}).get('owner'), posting['name']) not in known]
        return free, {posting['name'] for posting in data.values()}

    def _entries(self) -> list[dict[str, str]]:
        """Return the keys and values of all jobs and claims, as etcd encodes them."""
        first = self._create_path(self._root_path, self.JOB_PREFIX)
        answer = self._client.post(self._client.get_url('/kv/range'), json={
            'key': str(etcd_utils._encode(first)),
            'range_end': str(etcd_utils._encode(etcd_utils._increment_last_byte(first)))})
        entries: list[dict[str, str]] = answer.get('kvs', [])
        return entries

    def _read(self, entry: Mapping[str, str]) -> tuple[str, dict[str, Any] | None]:
        """Return the key of a job, and its posting unless the entry is a claim."""
        key = etcd_utils._decode(entry['key']).decode()
        if key.endswith(self.LOCK_POSTFIX):
            return key.removesuffix(self.LOCK_POSTFIX), None
        posting: dict[str, Any] = jsonutils.loads(etcd_utils._decode(entry['value']))
        return key.removesuffix(self.DATA_POSTFIX), posting

    def try_claim(self, *wanted: _Job) -> bool:
        """Claim jobs if all exist and are as they were read; return whether that succeeded."""
        compare: list[dict[str, Any]] = []
        locks = [self._lock_of(job) for job in wanted]
        for job, lock in zip(wanted, locks, strict=True):
            unchanged = ({'target': 'CREATE', 'create_revision': 0} if job.claimed is None
                         else {'target': 'MOD', 'mod_revision': job.claimed})
            compare += [{'key': lock['key'], 'result': 'EQUAL', **unchanged},
                        {'key': self._data(job), 'target': 'CREATE', 'result': 'GREATER',
                         'create_revision': 0}]
        answer = self._client.transaction({
            'compare': compare, 'success': [{'request_put': lock} for lock in locks],
            'failure': []})
        return bool(answer.get('succeeded'))

    def consume(self, job: impl_etcd.EtcdJob, who: str) -> None:
        """Remove a job that the engine has claimed.

        One request is enough if the job was claimed by the lease of today.
        """
        if self._lease is None or not self._remove(job):
            super().consume(job, who)

    def _remove(self, job: impl_etcd.EtcdJob) -> bool:
        """Remove a job if it is claimed by the lease of the engine; return whether it was."""
        data, lock = self._data(job), self._lock_of(job)
        answer = self._client.transaction({
            'compare': [{'key': lock['key'], 'target': 'VALUE', 'result': 'EQUAL',
                         'value': lock['value']},
                        {'key': data, 'target': 'CREATE', 'result': 'GREATER',
                         'create_revision': 0}],
            'success': [{'request_delete_range': {'key': key}} for key in (data, lock['key'])],
            'failure': []})
        return bool(answer.get('succeeded'))

    def _data(self, job: impl_etcd.EtcdJob) -> str:
        return str(etcd_utils._encode(job.key + self.DATA_POSTFIX))

    def _lock_of(self, job: impl_etcd.EtcdJob) -> dict[str, Any]:
        """Return the key that claims a job for as long as this engine lives."""
        with self._lease_lock:
            lease = self._lease or self._renew()
        return {'key': str(etcd_utils._encode(job.key + self.LOCK_POSTFIX)), 'lease': lease.id,
                'value': str(etcd_utils._encode(jsonutils.dumps(
                    {'owner': self._who, 'lease_id': lease.id})))}

    def keep(self) -> None:
        """Renew the lease; create a new one if it has expired, for new claims."""
        with self._lease_lock:
            if self._lease is None or self._lease.refresh() <= 0:
                self._renew()

    def release(self) -> None:
        """End the lease, and with it all claims."""
        with self._lease_lock:
            lease, self._lease = self._lease, None
        if lease is not None:
            lease.revoke()

    def _renew(self) -> Any:
        self._lease = self._client.lease(ttl=self._seconds)
        return self._lease


def from_conf(conf: cfg.ConfigOpts) -> Board:
    """Return the board of the configured etcd."""
    options = conf.engine
    session = connections.Session(_CONNECTIONS)
    if options.jobboard_ca_cert:
        session.verify = options.jobboard_ca_cert
    if options.jobboard_cert and options.jobboard_key:
        session.cert = (options.jobboard_cert, options.jobboard_key)
    client = etcd3gw.Etcd3Client(
        host=options.jobboard_host, port=options.jobboard_port,
        protocol=options.jobboard_protocol, timeout=_TIMEOUT, api_path=_API, session=session)
    return Board(client, options.name, options.job_lease)


@functools.lru_cache
def _owner(value: str) -> str:
    """Return the engine that a claim names."""
    return str(jsonutils.loads(etcd_utils._decode(value))['owner'])


def _posted(job: Any) -> Posted:
    details = job.details
    return Posted(job.name, details.get('project', ''), details.get('host', ''),
                  details.get('priority', 0), details.get('expected'), job.sequence, job,
                  job.owner)


def _translated(ask: Callable[[], _T]) -> _T:
    try:
        return ask()
    except (etcd_exceptions.Etcd3Exception, requests.RequestException) as exc:
        raise exception.Unreachable(f'etcd does not answer: {exc}') from exc
