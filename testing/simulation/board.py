# SPDX-License-Identifier: Apache-2.0
"""The board of jobs in a simulated etcd: :class:`specreds_nova.engine.jobs.Board`."""

from collections.abc import Collection, Sequence
import dataclasses

from specreds_nova.engine import jobs
from specreds_nova.engine import model
from testing.simulation import hub as hubs
from testing.simulation import wire as wires


class Board:
    """The board, as one process of an engine uses it."""

    def __init__(self, hub: hubs.Hub, etcd: wires.Etcd, wire: wires.Wire, engine: str,
                 process: str, lease: float) -> None:
        self._hub = hub
        self._etcd = etcd
        self._wire = wire
        self._engine = engine
        self._process = process
        self._seconds = lease
        # By job: its claim when the jobs were listed.
        self._seen: dict[int, wires.Claim] = {}

    def post(self, recovery: model.Recovery, *, ours: bool = False) -> jobs.Posted:
        """Post the job of a recovery."""
        def act() -> jobs.Posted:
            etcd = self._etcd
            etcd.count += 1
            posted = jobs.Posted(recovery.id, recovery.project, recovery.host, recovery.priority,
                                 recovery.expected, etcd.count, etcd.count)
            etcd.jobs[etcd.count] = posted
            if ours:
                self._hold(posted.job)
            return posted
        return self._wire.call('board', 'post', act, 0.001, 0.01)

    def unclaimed(self, dead: Collection[str] = (), known: Collection[tuple[str | None, str]] = ()
                  ) -> list[jobs.Posted]:
        """Return the jobs of recoveries of which no engine has claimed a job, the oldest first.

        :param dead: names of engines whose claims do not count
        :param known: pairs of such an engine and a recovery whose jobs are left out
        """
        def act() -> list[jobs.Posted]:
            etcd, now = self._etcd, self._hub.now()
            held = {key: claim for key, claim in etcd.claims.items() if etcd.claimed(key, now)}
            self._seen = {key: claim for key, claim in held.items() if claim.engine in dead}
            claimed = {etcd.jobs[key].recovery for key in held.keys() - self._seen.keys()
                       if key in etcd.jobs}
            free = [dataclasses.replace(posted, owner=self._seen[key].engine)
                    if key in self._seen else posted for key, posted in etcd.jobs.items()
                    if posted.recovery not in claimed]
            return [posted for posted in free if (posted.owner, posted.recovery) not in known]
        return self._wire.call('board', 'unclaimed', act, 0.001, 0.01)

    def known(self) -> set[str]:
        """Return the recoveries that have jobs, claimed or not."""
        return self._wire.call('board', 'known', lambda: {
            posted.recovery for posted in self._etcd.jobs.values()}, 0.001, 0.01)

    def claim(self, posted: jobs.Posted) -> bool:
        """Claim a job; return False if another engine has claimed it, or it is done."""
        def act() -> bool:
            etcd = self._etcd
            seen = self._seen.pop(posted.job, None)
            if posted.job not in etcd.jobs or (
                    etcd.claimed(posted.job, self._hub.now())
                    and (seen is None or etcd.claims[posted.job] != seen)):
                return False
            self._hold(posted.job)
            return True
        return self._wire.call('board', 'claim', act, 0.001, 0.01)

    def claim_all(self, wanted: Sequence[jobs.Posted]) -> list[jobs.Posted]:
        """Claim jobs, and return those that are claimed."""
        return [posted for posted in wanted if self.claim(posted)]

    def consume(self, posted: jobs.Posted) -> None:
        """Remove a job that is done, unless another engine has claimed it meanwhile."""
        self._release(posted, done=True)

    def abandon(self, posted: jobs.Posted) -> None:
        """Release a job for other engines, unless one of them has claimed it meanwhile."""
        self._release(posted, done=False)

    def keep(self) -> None:
        """Renew the claims."""
        self._wire.call('board', 'keep', self._renew, 0.001, 0.01)

    def close(self) -> None:
        """Release all claims."""
        self._etcd.leases.pop(self._process, None)

    def _release(self, posted: jobs.Posted, *, done: bool) -> None:
        def act() -> None:
            etcd, claim = self._etcd, self._etcd.claims.get(posted.job)
            if claim is not None and claim.engine == self._engine:
                del etcd.claims[posted.job]
                if done:
                    etcd.jobs.pop(posted.job, None)
        self._wire.call('board', 'release', act, 0.001, 0.01)

    def _hold(self, job: int) -> None:
        """Claim a job for as long as this process lives."""
        lease = self._lease()
        self._etcd.count += 1
        self._etcd.claims[job] = wires.Claim(self._engine, self._process, lease, self._etcd.count)

    def _lease(self) -> int:
        number, until = self._etcd.leases.get(self._process, (-1, 0.0))
        return number if self._hub.now() < until else self._renew()

    def _renew(self) -> int:
        etcd, now = self._etcd, self._hub.now()
        number, until = etcd.leases.get(self._process, (-1, 0.0))
        if now >= until:
            etcd.count += 1
            number = etcd.count
        etcd.leases[self._process] = number, now + self._seconds
        return number
