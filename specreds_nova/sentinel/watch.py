# SPDX-License-Identifier: Apache-2.0
"""One look after another at the domains of this host, and what follows from it."""

from collections.abc import Iterator, Sequence
import contextlib
import dataclasses
import pathlib
import time

from oslo_log import log as logging

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_nova.beats import renewals
from specreds_nova.sentinel import act
from specreds_nova.sentinel import decide
from specreds_nova.sentinel import domains
from specreds_nova.sentinel import evidence
from specreds_nova.sentinel import lease
from specreds_nova.sentinel import memory
from specreds_nova.sentinel import processes
from specreds_nova.sentinel import storages

LOG = logging.getLogger(__name__)

# How old the description of a domain's disks may be that is not suspected of anything.
_DESCRIBE_S = 5.0
# Images that may time out in one look; an image that has timed out in the look before is only
# asked for if none has in this one.
_TIMEOUTS = 2
_REMEMBERED = 100


@dataclasses.dataclass(frozen=True)
class Settings:
    """How often to do what, in seconds; see :mod:`conf`.

    :ivar fresh_s: for which it is known which domains run
    """

    learn_s: float = 10.0
    blocklist_s: float = 3.0
    confirm_s: float = 3.0
    fenced_for_good_s: float = 86400.0
    fresh_s: float = 2.0


@dataclasses.dataclass
class _Known:
    """What is remembered of a domain from one look to the next.

    :param described: when
    :param learnt: when its clients were last looked at
    :param ids: RBD's own ids of its images
    :param fenced_since: when it first looked fenced for good, without a break since
    :param judged: by cephx user: the start of the latest look that read everything about it and
        found nothing against it
    :param attempted: when it was last looked at
    :param stuck: when it was, if Ceph did not answer in time then; None if it did
    :param reason: what was last found out about it
    """

    domain: domains.Domain
    process: processes.Process | None
    described: float
    learnt: float = -1e9
    ids: dict[records.VolumeRef, str] = dataclasses.field(default_factory=dict)
    fenced_since: float | None = None
    judged: dict[str, float] = dataclasses.field(default_factory=dict)
    attempted: float = 0.0
    stuck: float | None = None
    reason: str = ''


@dataclasses.dataclass
class Status:
    """What the sentinel can tell of itself.

    :param hypervisor: why libvirt does not answer
    :param silent: why Ceph does not answer, by the user of the disks
    :param ended: UUIDs of the domains that were ended, the last ones
    :param unwatched: why no second opinion can be given on servers with disks in a pool
    :param hidden: network interfaces that are down because the lease on the network is over
    """

    looks: int = 0
    domains: int = 0
    hypervisor: str = ''
    silent: dict[str, str] = dataclasses.field(default_factory=dict)
    ended: list[str] = dataclasses.field(default_factory=list)
    hidden: list[str] = dataclasses.field(default_factory=list)
    unwatched: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def trouble(self) -> str:
        """What does not answer, in words; empty if all is well."""
        silent = [f'storage of user {user}: {why}' for user, why in sorted(self.silent.items())]
        return '; '.join(([self.hypervisor] if self.hypervisor else []) + silent)


class HostWatch:
    """Looks at the domains of this host.

    :param ceph: gives a cluster by the cephx user of a disk
    :param seen: the clients that were seen
    :param marks: directory that gets a note of each domain that was ended
    """

    def __init__(self, hypervisor: domains.Hypervisor, ceph: storages.Storages,
                 seen: memory.Memory, marks: pathlib.Path, settings: Settings) -> None:
        self._hypervisor = hypervisor
        self._ceph = ceph
        self._seen = seen
        self._marks = marks
        self._settings = settings
        self._known: dict[str, _Known] = {}
        self._fenced: dict[str, frozenset[str]] = {}
        self._asked: dict[str, float] = {}
        # By cephx user: when looks asked the latest question that Ceph answered, and when others
        # did.
        self._heard: dict[str, float] = {}
        self._pinged: dict[str, float] = {}
        # By cephx user: when the latest look began that could read records, or else the first one.
        self._read: dict[str, float] = {}
        # By cephx user and pool: Ceph's latest answer to questions for records, as since when it
        # refuses them; None if it does not.
        self.answers: dict[tuple[str, str], float | None] = {}
        # When libvirt was asked last, and the domains that ran.
        self._unpaused: tuple[float, frozenset[str]] = -1e9, frozenset()
        self.status = Status()

    def guests(self) -> list[lease.Guest]:
        """Return the servers with disks in Ceph. May be called by another thread."""
        return [self._guest(known) for known in list(self._known.values()) if known.domain.images]

    def _guest(self, known: _Known) -> lease.Guest:
        users = {image.user for image in known.domain.images}
        heard = [max(moments) for user in users if (moments := [
            each[user] for each in (self._heard, self._pinged) if user in each])]
        judged = [known.judged[user] for user in users if user in known.judged]
        return lease.Guest(
            known.domain.name, known.domain.taps,
            min(heard) if len(heard) == len(users) else None,
            min(judged) if len(judged) == len(users) else None,
            frozenset((image.user, image.ref.pool) for image in known.domain.images))

    def heard(self, user: str, at: float) -> None:
        """Take a moment at which Ceph was asked something that it answered. For any thread."""
        self._pinged[user] = max(at, self._pinged.get(user, at))

    def places(self) -> set[tuple[str, str]]:
        """Return the cephx users and the pools of local disks. For any thread."""
        return {(image.user, image.ref.pool) for known in list(self._known.values())
                for image in known.domain.images}

    @property
    def looked(self) -> float:
        """The moment since when the records of all local disks have been read."""
        users = {image.user for known in self._known.values() for image in known.domain.images}
        return min((self._read[user] for user in users if user in self._read),
                   default=renewals.now())

    def see(self, hypervisor: domains.Hypervisor) -> None:
        """Note which domains run, whatever looks wait for.

        :param hypervisor: a connection of the calling thread
        :raises HypervisorSilent: libvirt does not answer
        """
        began = time.monotonic()
        self._unpaused = began, hypervisor.unpaused()

    def running(self) -> frozenset[str] | None:
        """Return the servers that run, without those that look fenced, if libvirt answers.

        May be called by another thread, and never waits.
        """
        began, unpaused = self._unpaused
        if time.monotonic() - began >= self._settings.fresh_s:
            return None
        return unpaused - {uuid for uuid, known in list(self._known.items())
                           if known.fenced_since is not None}

    def look(self) -> None:
        """Look at every domain once, and end those that are stale."""
        self.status.looks += 1
        try:
            self._list()
        except domains.HypervisorSilent as exc:
            self._without(exc)
        else:
            if self.status.hypervisor:
                LOG.info('libvirt answers again')
            self.status.hypervisor = ''
        for user in sorted({image.user for known in self._known.values()
                            for image in known.domain.images}):
            self._attempt(user)
        self.status.domains = len(self._known)
        self.status.silent = dict(self._ceph.silent)

    def _without(self, error: domains.HypervisorSilent) -> None:
        """Go on with the domains that were known when libvirt fell silent, as far as they live.

        Without libvirt nobody changes their disks. If that was done just before, by the switch
        of a merge, the record says merged.
        """
        if not self.status.hypervisor:
            LOG.warning('%s; new domains are not seen', error)
        self.status.hypervisor = str(error)
        for uuid, known in list(self._known.items()):
            if known.process is None or known.process.ended(0):
                del self._known[uuid]

    def _attempt(self, user: str) -> None:
        """Look at the domains with disks of a cephx user, if Ceph answers."""
        if not self._ceph.due(user):
            return
        began = renewals.now()
        self._read.setdefault(user, began)
        try:
            judged = self._look_through(user)
        except errors.SuperError as exc:
            self._trouble(user, exc)
        else:
            self._ceph.answered(user)
            self._read[user] = began
            if self._heard.get(user, 0.0) >= began:
                for known in judged:
                    known.judged[user] = began

    @contextlib.contextmanager
    def _hearing(self, user: str, pool: str | None = None) -> Iterator[None]:
        """Note that storage answers what is asked within, as it was when that began.

        :param pool: which the question is for; None for all pools of the user
        """
        start = renewals.now()
        try:
            yield
        except errors.SuperError as exc:
            if evidence.refused(exc):
                for place in self.places():
                    if place[0] == user and pool in (None, place[1]):
                        self.answers[place] = self.answers.get(place) or start
            raise
        self._heard[user] = start

    def _trouble(self, user: str, error: errors.SuperError) -> None:
        self._ceph.failed(user, error)
        # Whatever happened meanwhile is to be known at once when it answers again.
        self._asked.pop(user, None)

    def _list(self) -> None:
        """Note which domains there are, and what they have open."""
        running = self._hypervisor.running()
        now = time.monotonic()
        for uuid in self._known.keys() - running.keys():
            del self._known[uuid]
        for uuid, number in running.items():
            known = self._known.get(uuid)
            if known is None or known.domain.number != number:
                domain = self._hypervisor.describe(uuid)
                if domain is not None:
                    self._known[uuid] = _Known(domain, processes.qemu(uuid), now)
            elif now - known.described > _DESCRIBE_S:
                domain = self._hypervisor.describe(uuid)
                if domain is not None:
                    known.domain, known.described = domain, now
                known.process = known.process or processes.qemu(uuid)
        self._seen.keep(known.process.key for known in self._known.values() if known.process)

    def _look_through(self, user: str) -> list[_Known]:
        """Look at the domains of a user; return those with nothing against them."""
        storage = self._ceph.of(user)
        if time.monotonic() - self._asked.get(user, -1e9) > self._settings.blocklist_s:
            self._read_blocklist(user, storage)
        failed: list[errors.SuperError] = []
        judged: list[_Known] = []
        attempts = timeouts = 0
        for known in sorted(self._known.values(), key=_turn):
            images = [image for image in known.domain.images if image.user == user]
            if not images or known.process is None or (timeouts and known.stuck is not None):
                continue
            known.attempted = time.monotonic()
            attempts += 1
            try:
                if self._consider(known, known.process, images, storage):
                    judged.append(known)
                known.stuck = None
            except errors.SuperError as exc:
                self._say(known, f'nothing is done about it: {exc}')
                failed.append(exc)
                if isinstance(exc, errors.ClusterTimeout):
                    known.stuck = known.attempted
                    timeouts += 1
                    if timeouts == _TIMEOUTS:
                        break
                    # Either the image is stuck, or Ceph is silent, which raises.
                    self._read_blocklist(user, storage)
        # One unreadable image must not keep us from the others; all of them are another matter.
        if failed and len(failed) == attempts and timeouts < _TIMEOUTS:
            raise failed[0]
        return judged

    def _read_blocklist(self, user: str, storage: evidence.Storage) -> None:
        now = time.monotonic()
        with self._hearing(user):
            self._fenced[user] = storage.suspected(self._settings.fenced_for_good_s)
        self._asked[user] = now

    def _consider(self, known: _Known, process: processes.Process, images: list[domains.Image],
                  storage: evidence.Storage) -> bool:
        """End a domain if it is stale; return whether all was read and nothing is against it."""
        self._learn(known, process, images, storage)
        if self._suspicious(known, process, images, storage):
            return self._judge(known, process, images[0].user)
        known.fenced_since = None
        return True

    def _learn(self, known: _Known, process: processes.Process, images: list[domains.Image],
               storage: evidence.Storage) -> None:
        """See which clients a domain's process has, unless that was done just now."""
        now = time.monotonic()
        if now - known.learnt < self._settings.learn_s:
            return
        clients = {}
        for image in images:
            with self._hearing(image.user, image.ref.pool):
                opened = storage.opened(image.ref)
            if opened is None:
                known.ids.pop(image.ref, None)
                continue
            known.ids[image.ref] = opened.image_id
            if self._only_user(known, image):
                clients[str(image.ref)] = opened.local - self._fenced[image.user]
        self._seen.learn(process.key, clients)
        known.learnt = now

    def _only_user(self, known: _Known, image: domains.Image) -> bool:
        return not any(image.ref == other.ref for neighbour in self._known.values()
                       if neighbour is not known for other in neighbour.domain.images)

    def _suspicious(self, known: _Known, process: processes.Process,
                    images: list[domains.Image], storage: evidence.Storage) -> bool:
        """Return whether it is worth while to collect all facts."""
        for image in images:
            own = self._seen.clients(process.key, str(image.ref))
            if own & self._fenced[image.user]:
                return True
            if image.ref in known.ids:
                with self._hearing(image.user, image.ref.pool):
                    record = storage.record(image.ref, known.ids[image.ref])
                self.answers[image.user, image.ref.pool] = None
                if record is not None and (record.state in states.DECIDED
                                           or record.outcome == states.LATE_DIRTY):
                    return True
        return False

    def _judge(self, known: _Known, process: processes.Process, user: str) -> bool:
        """Collect all facts anew, in the order that :mod:`decide` asks for, and act on them.

        :param user: cephx user whose images are looked at
        :return: whether all facts were collected, and none is against the domain
        """
        domain: domains.Domain | None = known.domain
        with contextlib.suppress(domains.HypervisorSilent):
            domain = self._hypervisor.describe(known.domain.uuid)
        if domain is None or domain.number != known.domain.number:
            return False
        known.domain = domain
        uses: list[decide.Use | None] = []
        hosts: frozenset[str] = frozenset()
        troubles: dict[str, errors.SuperError] = {}
        for image in domain.images:
            try:
                storage = self._ceph.of(image.user)
                uses.append(self._use(image, process, storage))
                hosts |= storage.hosts
            except errors.SuperError as exc:
                uses.append(None)
                troubles[image.user] = exc
        verdict = self._verdict(domain, hosts, uses, troubles)
        for other in troubles.keys() - {user}:
            self._trouble(other, troubles[other])
        if user in troubles:
            known.fenced_since = None
            raise troubles[user]
        self._say(known, verdict.reason)
        if self._confirmed(known, verdict):
            self._end(domain, process, verdict.reason)
        return verdict.kind is decide.Kind.KEEP

    def _verdict(self, domain: domains.Domain, hosts: frozenset[str],
                 uses: Sequence[decide.Use | None], troubles: dict[str, errors.SuperError]
                 ) -> decide.Verdict:
        """Return what follows from the facts, and collect the last of them only if need be.

        Which records name a client takes a look at all of them: thousands, when the hundred
        servers of a host that is back are to be ended at once, each of which its own record
        convicts.

        :param troubles: receives the errors by cephx user
        """
        facts = decide.Facts(domain.backup_of, hosts, tuple(uses))
        verdict = decide.decide(facts)
        if verdict.kind is decide.Kind.STALE or not any(
                use and use.blocklisted and not use.watched for use in uses):
            return verdict
        noted = []
        for image, use in zip(domain.images, uses, strict=True):
            if use is not None and use.blocklisted:
                try:
                    storage = self._ceph.of(image.user)
                    use = dataclasses.replace(use, noted=storage.noted(image.ref))
                except errors.SuperError as exc:
                    use = None
                    troubles[image.user] = exc
            noted.append(use)
        return decide.decide(dataclasses.replace(facts, uses=tuple(noted)))

    def _use(self, image: domains.Image, process: processes.Process,
             storage: evidence.Storage) -> decide.Use:
        """Find out what is known of an image: the blocklist first, records afterwards.

        All clients are taken for noted, which clears them, until :meth:`_verdict` looks.
        """
        own = self._seen.clients(process.key, str(image.ref))
        fenced = storage.blocklisted(self._settings.fenced_for_good_s)
        opened = storage.opened(image.ref)
        record = storage.record(image.ref, opened.image_id) if opened is not None else None
        return decide.Use(
            image=str(image.ref),
            superposition=decide.Superposition.of(record) if record is not None else None,
            clients=own, blocklisted=own & fenced,
            noted=own & fenced,
            watched=opened is not None and bool(opened.local - fenced),
            through_overlay=record is not None and any(
                overlay in process.command for overlay in evidence.overlays(record, image.ref)))

    @staticmethod
    def _say(known: _Known, reason: str) -> None:
        if reason != known.reason:
            LOG.info('domain %s of server %s: %s', known.domain.name, known.domain.uuid, reason)
            known.reason = reason

    def _confirmed(self, known: _Known, verdict: decide.Verdict) -> bool:
        if verdict.kind is not decide.Kind.FENCED:
            known.fenced_since = None
            return verdict.kind is decide.Kind.STALE
        now = time.monotonic()
        if known.fenced_since is None:
            known.fenced_since = now
        return now - known.fenced_since >= self._settings.confirm_s

    def _end(self, domain: domains.Domain, process: processes.Process, reason: str) -> None:
        LOG.warning('ending domain %s of server %s: %s', domain.name, domain.uuid, reason)
        began = time.monotonic()
        act.silence(domain)
        silenced = time.monotonic()
        try:
            # Before libvirt reports the end to Nova.
            act.mark(self._marks, domain, reason)
        except OSError as exc:
            LOG.error('it is not written down that domain %s is ended: %s', domain.name, exc)
        if act.end(process):
            self.status.ended = [*self.status.ended, domain.uuid][-_REMEMBERED:]
            self._known.pop(domain.uuid, None)
            LOG.warning('domain %s has ended: its network after %.0f ms, itself after %.0f ms',
                        domain.name, (silenced - began) * 1e3, (time.monotonic() - began) * 1e3)
        else:
            LOG.error('domain %s (QEMU process %d) does not end; its network is down: have an '
                      'administrator look at it', domain.name, process.pid)


def _turn(known: _Known) -> tuple[float, float]:
    """Return what domains are sorted by: those that are stuck last, each after a turn of its own.

    A look may end before it has come to all of them.
    """
    return known.stuck or 0.0, known.attempted
