# SPDX-License-Identifier: Apache-2.0
"""Superpositions in a volume service: what becomes of them, from the request to the merge.

The protocol and the only truth are in Ceph; this adds what Cinder needs to know, and sets.

A *set* is what is superposed together. On one back end it is one record, and the protocol decides
it at once. On several back ends, which may be on several clusters, each has a record under the
same id, and the back end of the first volume *leads*:

* nobody decides alone: a record that is one of several can only be prepared and committed;
* all are prepared (fenced, and clean behind the fence) before the leader commits its own record,
  which is the one commit point; a prepared record stays as it is for as long as it takes;
* the leader's record outlives the others' decision, so a back end that was cut off asks for it:
  decided for the backup, or not, or gone, which means that the primary's version is the real one.
"""

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
import contextlib
import threading
import time
from typing import Any

from cinder import context
from cinder import coordination
from cinder import exception as cinder_exception
from cinder import objects
from oslo_config import cfg
from oslo_log import log as logging

from specreds_cinder import conf
from specreds_cinder import driver as drivers
from specreds_cinder import eligibility
from specreds_cinder import exception
from specreds_cinder import hints
from specreds_cinder import notifications
from specreds_cinder import rpcapi
from specreds_cinder.superposition import states

CONF = cfg.CONF
conf.register(CONF)
LOG = logging.getLogger(__name__)

View = dict[str, Any]

_DIRTY_WAIT_S = 30.0
_NO_CHECK: View = {'dirty': True, 'first': None, 'objects': 0, 'seconds': 0.0}


class Superpositions:
    """The superpositions of one back end.

    :param host: the back end's ``host@backend``, or its cluster's name
    """

    def __init__(self, driver: drivers.SuperRBDDriver, host: str) -> None:
        self._driver = driver
        self._host = host
        self._peers = rpcapi.SuperAPI()
        self._merging: set[str] = set()
        self._deciding: set[str] = set()
        self._merges = threading.BoundedSemaphore(CONF.specreds.merges)
        self._lock = threading.Lock()

    # For the API

    def get(self, ctxt: Any, superposition_id: str) -> View:
        """Describe a superposition as far as it is here.

        :raises SuperpositionNotFound: it is not
        """
        return self._view(self._ask(ctxt, 'show', superposition=superposition_id))

    def list(self, ctxt: Any, brief: bool) -> builtins.list[View]:
        """Describe everything that is superposed here.

        :param brief: leave the sizes of overlays out, which take a sweep each
        """
        found = self._ask(ctxt, 'list')
        return [self._view(one) if brief else self.get(ctxt, one['id']) for one in found]

    def eligibility(self, ctxt: Any, volume_ids: Sequence[str]) -> builtins.list[dict[str, Any]]:
        """Tell of each volume whether it can be superposed, and why not."""
        volumes = eligibility.volumes(volume_ids)
        asked = self._ask(ctxt, 'eligibility', images=[volume.name for volume in volumes])
        reasons = [eligibility.reasons(volume) + found
                   for volume, found in zip(volumes, asked, strict=True)]
        return [{'volume_id': volume.id, 'eligible': not found, 'reasons': found}
                for volume, found in zip(volumes, reasons, strict=True)]

    def connection(self, ctxt: Any, superposition_id: str,
                   connector: Mapping[str, Any]) -> builtins.list[dict[str, Any]]:
        """Give what a hypervisor needs to open the child versions that are here."""
        found = self._ask(ctxt, 'show', superposition=superposition_id)
        if found['state'] in states.DECIDED:
            raise _conflict(found, 'attach the volumes, which are what was promoted')
        if found['state'] != states.SUPERPOSED:
            raise _conflict(found, 'only while it is superposed is there a child version to open')
        volumes = eligibility.volumes(builtins.list(found['labels']['volumes'].values()))
        return [{'volume_id': volume.id,
                 **self._driver.child_connection(volume, connector, found)}
                for volume in volumes]

    def current_connection(self, ctxt: Any, volume_id: str, connector: Mapping[str, Any],
                           hand_out: bool) -> dict[str, Any]:
        """Give what ``initialize_connection`` would give now.

        :param hand_out: somebody may open it; otherwise it is only looked at
        """
        del ctxt
        return self._driver.current_connection(_volume(volume_id), connector, hand_out=hand_out)

    def create(self, ctxt: Any, superposition_id: str, volumes: Sequence[Mapping[str, str]],
               server_id: str | None, reason: str, expires_at: float) -> View:
        """Put volumes into superposition, here and elsewhere: all of them, or none.

        :param volumes: each with its id and its back end's host; the first one is here
        :param expires_at: seconds since the epoch after which nobody waits for it any more
        """
        if time.time() > expires_at:
            raise exception.SuperpositionUnavailable(
                f'superposition {superposition_id} was asked for too long ago: ask again')
        began = time.monotonic()
        here: dict[str, builtins.list[str]] = {}
        for volume in volumes:
            here.setdefault(volume['host'], []).append(volume['id'])
        request = {'superposition_id': superposition_id, 'members': builtins.list(here),
                   'server_id': server_id, 'reason': reason}
        asked = {'id': superposition_id, 'server_id': server_id, 'reason': reason,
                 'volumes': [{'id': volume['id']} for volume in volumes],
                 'user_id': ctxt.user_id, 'project_id': ctxt.project_id}
        with self._announced(ctxt, 'create', asked) as told:
            try:
                views = self._on_each(ctxt, builtins.list(here), 'create', lambda host: {
                    **request, 'volume_ids': here[host]})
            except Exception:
                with self._left_for_later(self._host, superposition_id):
                    self._drop_all(ctxt, superposition_id, builtins.list(here))
                raise
            view = _joined(views)
            view['durations'] = {'storage': views[0]['storage_s'],
                                 'total': time.monotonic() - began}
            told.update(view=view, durations=view['durations'])
        LOG.info('superposition %s of volumes %s for server %s took %.0f ms', superposition_id,
                 ', '.join(volume['id'] for volume in volumes), server_id,
                 view['durations']['total'] * 1e3)
        return view

    def check(self, ctxt: Any, superposition_id: str) -> dict[str, Any]:
        """Sweep what is here."""
        return self.member_check(ctxt, superposition_id)

    def collapse(self, ctxt: Any, superposition_id: str, durable: bool) -> dict[str, Any]:
        """Decide for the backup, unless the primary has written. Called where it is led.

        :param durable: the backup's disks have been flushed, and are flushed from now on
        """
        found = self._ask(ctxt, 'show', superposition=superposition_id)
        members = found['labels']['members']
        with self._deciding_on(superposition_id), self._announced(
                ctxt, 'collapse', self._view(found), decision='promote') as told:
            if len(members) == 1:
                report = _report(self._ask(ctxt, 'collapse', superposition=superposition_id,
                                           durable=durable))
            else:
                report = self._collapse_set(ctxt, found, durable)
            told['view'] = {**told['view'], 'outcome': report['outcome']}
            told['durations'] = report['durations']
        LOG.info('superposition %s of server %s ended %s in %.0f ms', superposition_id,
                 found['server_id'], report['outcome'], report['durations']['total'] * 1e3)
        if report['outcome'] != states.PROMOTED:
            self._forget(found)
        return report

    def abort(self, ctxt: Any, superposition_id: str) -> None:
        """Decide for the primary. Called where it is led."""
        found = self._ask(ctxt, 'show', superposition=superposition_id)
        if found['state'] in states.DECIDED:
            raise _conflict(found, 'the version of the backup is the real one: it can only be '
                                   'merged')
        with self._announced(ctxt, 'collapse', self._view(found), decision='abort') as told:
            self._drop_all(ctxt, superposition_id, found['labels']['members'])
            told['view'] = {**told['view'], 'outcome': states.ABORTED}
        LOG.info('superposition %s of server %s is aborted', superposition_id,
                 found['server_id'])

    def merge(self, ctxt: Any, superposition_id: str, step: str) -> None:
        """Note a step of a hypervisor's merge, or merge now what nobody uses.

        :param step: begin, end or offline
        """
        found = self._ask(ctxt, 'show', superposition=superposition_id)
        if found['state'] not in states.DECIDED:
            raise _conflict(found, 'only what was promoted can be merged')
        if step == 'offline':
            self._start_merge(ctxt, found)
        else:
            self._ask(ctxt, f'{step}_merge', superposition=superposition_id)

    # For the leader of a set

    def member_create(self, ctxt: Any, superposition_id: str, volume_ids: Sequence[str],
                      members: Sequence[str], server_id: str | None, reason: str) -> View:
        """Put the volumes that are here into superposition."""
        with hints.lock(*volume_ids):
            # Read behind the lock: whoever held it before may have changed them.
            volumes = eligibility.volumes(volume_ids)
            eligibility.check(volumes)
            hints.put(volume_ids, superposition_id)
            began = time.monotonic()
            try:
                found = self._ask(
                    ctxt, 'super', superposition=superposition_id,
                    images=[volume.name for volume in volumes], reason=reason,
                    server=server_id, joint=len(members) > 1, labels={
                        'volumes': {volume.name: volume.id for volume in volumes},
                        'members': builtins.list(members), 'user_id': ctxt.user_id,
                        'project_id': volumes[0].project_id, 'request_id': ctxt.request_id})
            except exception.SuperpositionUnavailable:
                # It may have come to be; whoever looks after this back end finds out.
                raise
            except exception.SuperpositionError:
                hints.remove(volume_ids, superposition_id)
                raise
        return {**self._view(found), 'storage_s': time.monotonic() - began}

    def member_check(self, ctxt: Any, superposition_id: str) -> dict[str, Any]:
        """Sweep what is here."""
        found = self._ask(ctxt, 'check', superposition=superposition_id)
        return {'dirty': found['dirty'], 'first': found['first'], 'objects': found['swept'],
                'seconds': found['seconds']}

    def member_prepare(self, ctxt: Any, superposition_id: str, durable: bool) -> dict[str, Any]:
        """Fence what is here and see whether it is clean behind the fence."""
        return _report(self._ask(ctxt, 'prepare', superposition=superposition_id,
                                 durable=durable))

    def member_commit(self, ctxt: Any, superposition_id: str) -> None:
        """Decide for the backup, as the leader has."""
        # Gone means merged already.
        with contextlib.suppress(exception.SuperpositionNotFound):
            self._ask(ctxt, 'commit', superposition=superposition_id)

    def member_drop(self, ctxt: Any, superposition_id: str, fenced: bool) -> None:
        """Decide for the primary, as the leader has.

        :param fenced: the primary was fenced on some back end
        """
        self._ask(ctxt, 'drop', superposition=superposition_id, fenced=fenced)
        hints.remove([volume.id for volume in hints.volumes(superposition_id)
                      if rpcapi.backend(volume) == self._host], superposition_id)

    # Sets

    def _collapse_set(self, ctxt: Any, found: View, durable: bool) -> dict[str, Any]:
        began = time.monotonic()
        members = found['labels']['members']
        named = {'superposition_id': found['id']}
        # One that was cut off may have fenced the primary, which is late dirty then.
        resumed = found['state'] == states.COLLAPSING
        lost = states.LATE_DIRTY if resumed else states.DIRTY
        try:
            checks = rpcapi.merge_checks(
                self._on_each(ctxt, members, 'check', lambda _host: named))
        except exception.SuperpositionNotFound:
            # As long as it is here and undecided, nobody else ends it but for the primary.
            self._ask(ctxt, 'show', superposition=found['id'])
            self._drop_all(ctxt, found['id'], members, fenced=True)
            return _summed(lost, _NO_CHECK, [], began)
        if checks['dirty']:
            self._drop_all(ctxt, found['id'], members, fenced=resumed)
            return _summed(lost, checks, [], began)
        reports = self._on_each(ctxt, members, 'prepare',
                                lambda _host: {**named, 'durable': durable})
        if any(report['outcome'] != states.PREPARED for report in reports):
            self._drop_all(ctxt, found['id'], members, fenced=True)
            return _summed(states.LATE_DIRTY, checks, reports, began)
        # The commit point of the set: if it is gone meanwhile, it was aborted.
        committing = time.monotonic()
        self._ask(ctxt, 'commit', superposition=found['id'])
        commit_s = time.monotonic() - committing
        for host in members[1:]:
            with self._left_for_later(host, found['id']):
                self._on(ctxt, host, 'commit', **named)
        return _summed(states.PROMOTED, checks, reports, began, commit_s)

    def _drop_all(self, ctxt: Any, superposition_id: str, members: Sequence[str], *,
                  fenced: bool = False) -> None:
        # Here first: that it is gone here is what tells the others, should this be cut off.
        self.member_drop(ctxt, superposition_id, fenced)
        for host in members[1:]:
            with self._left_for_later(host, superposition_id):
                self._on(ctxt, host, 'drop', superposition_id=superposition_id, fenced=fenced)

    @contextlib.contextmanager
    def _left_for_later(self, host: str, superposition_id: str) -> Any:
        """What another back end is told here, it asks for by itself if this does not get there."""
        try:
            yield
        except exception.SuperpositionError as exc:
            LOG.warning('superposition %s: %s does not answer, and will find out by itself (%s)',
                        superposition_id, host, exc.msg)

    def _on_each(self, ctxt: Any, hosts: Sequence[str], step: str,
                 arguments: Callable[[str], Mapping[str, Any]]) -> builtins.list[dict[str, Any]]:
        """Do a step on several back ends at a time; all of them end before an error is raised."""
        if len(hosts) == 1:
            return [self._on(ctxt, hosts[0], step, **arguments(hosts[0]))]
        with futures.ThreadPoolExecutor(len(hosts)) as executor:
            pending = [executor.submit(self._on, ctxt, host, step, **arguments(host))
                       for host in hosts]
        return [future.result() for future in pending]

    def _on(self, ctxt: Any, host: str, step: str, **arguments: Any) -> Any:
        if host == self._host:
            return getattr(self, f'member_{step}')(ctxt, **arguments)
        return self._peers.member(ctxt, host, step, **arguments)

    # Looking after

    def look_after(self, cut_off: bool = False) -> None:
        """Go on with what was cut off, merge what was promoted, and renew fences.

        What cannot be done now is done another time; this never raises.

        :param cut_off: whatever is found under way was cut off, however short ago
        """
        ctxt = context.get_admin_context()
        try:
            found = self._ask(ctxt, 'list')
        except exception.SuperpositionError as exc:
            LOG.warning('the superpositions of %s cannot be listed: %s', self._host, exc.msg)
            return
        for one in found:
            if 'members' not in one['labels']:
                # Not Cinder's: somebody made it with specreds-super, and will end it so.
                continue
            try:
                self._look_after(ctxt, one, cut_off)
            except exception.SuperpositionNotFound:
                self._forget(one)
            except exception.SuperpositionError as exc:
                LOG.warning('superposition %s, which is %s, cannot be gone on with now: %s',
                            one['id'], one['state'], exc.msg)
            except Exception:
                LOG.exception('superposition %s cannot be looked after', one['id'])
        try:
            self._forget_ended({one['id'] for one in found})
        except exception.SuperpositionError as exc:
            LOG.warning('what has ended on %s cannot be tidied up now: %s', self._host, exc.msg)

    def _look_after(self, ctxt: Any, found: View, cut_off: bool) -> None:
        hints.put(found['labels']['volumes'].values(), found['id'])
        stale = cut_off or found['unchanged_s'] > CONF.specreds.stale_after
        leader = found['labels']['members'][0]
        if found['state'] in (states.CREATING, states.ABORTING):
            if stale:
                self._ask(ctxt, 'resume', superposition=found['id'])
                self._forget(found)
        elif found['joint'] and leader != self._host and found['state'] not in states.DECIDED:
            self._ask(ctxt, 'look_after', superposition=found['id'])
            if stale:
                self._follow(ctxt, found, leader)
        elif found['state'] == states.COLLAPSING:
            if stale and found['id'] not in self._deciding:
                LOG.info('going on with superposition %s, whose collapse was cut off',
                         found['id'])
                self.collapse(ctxt, found['id'], False)
        elif found['state'] in states.DECIDED:
            self._ask(ctxt, 'look_after', superposition=found['id'])
            if found['unchanged_s'] >= CONF.specreds.merge_delay:
                self._start_merge(ctxt, found)
        else:
            self._ask(ctxt, 'look_after', superposition=found['id'])

    def _follow(self, ctxt: Any, found: View, leader: str) -> None:
        """Do what the leader of the set has decided."""
        try:
            state = self._peers.get(ctxt, leader, found['id'])['state']
        except exception.SuperpositionNotFound:
            LOG.info('superposition %s is gone where it is led, so it is dropped here',
                     found['id'])
            self.member_drop(ctxt, found['id'], fenced=True)
            return
        if state in states.DECIDED:
            self.member_commit(ctxt, found['id'])

    @contextlib.contextmanager
    def _deciding_on(self, superposition_id: str) -> Iterator[None]:
        """Keep :meth:`look_after` from taking a decision that takes long for one cut off."""
        self._deciding.add(superposition_id)
        try:
            yield
        finally:
            self._deciding.discard(superposition_id)

    def _start_merge(self, ctxt: Any, found: View) -> None:
        with self._lock:
            if found['id'] in self._merging:
                return
            self._merging.add(found['id'])
        threading.Thread(target=self._merge, args=(ctxt, found), daemon=True).start()

    def _merge(self, ctxt: Any, found: View) -> None:
        try:
            with self._merges, _alone(self._host, found['id']):
                # Gone means that it has been merged.
                with contextlib.suppress(exception.SuperpositionNotFound):
                    self._merge_alone(ctxt, found)
                self._forget(found)
        except exception.SuperpositionConflict as exc:
            LOG.info('superposition %s is merged another time: %s', found['id'], exc.msg)
        except exception.SuperpositionError as exc:
            LOG.warning('superposition %s could not be merged: %s', found['id'], exc.msg)
        except Exception:
            LOG.exception('superposition %s could not be merged', found['id'])
        finally:
            with self._lock:
                self._merging.discard(found['id'])

    def _merge_alone(self, ctxt: Any, found: View) -> None:
        members = found['labels']['members']
        if members[0] == self._host:
            # Its record is what the others ask for until they are committed, too.
            for host in members[1:]:
                self._on(ctxt, host, 'commit', superposition_id=found['id'])
        # A server that runs on its overlays is nothing to tell of.
        self._ask(ctxt, 'unused', superposition=found['id'])
        began = time.monotonic()
        with self._announced(ctxt, 'merge', self._view(found)) as told:
            self._ask(ctxt, 'merge', superposition=found['id'])
            told['durations'] = {'total': time.monotonic() - began}
        LOG.info('superposition %s of server %s is merged', found['id'], found['server_id'])

    def _forget(self, found: View) -> None:
        hints.remove(found['labels'].get('volumes', {}).values(), found['id'])

    def _forget_ended(self, known: set[str]) -> None:
        """Remove the notes on what is in no superposition any more, and the rests in Ceph.

        :raises SuperpositionError: Ceph does not say
        """
        for volume_id, superposition in hints.on(self._host).items():
            if superposition in known:
                continue
            # Under the lock, so that it is not one that is just being made.
            with hints.lock(volume_id), contextlib.suppress(cinder_exception.VolumeNotFound):
                found = self._ask(None, 'find', image=_volume(volume_id).name)
                if found is None or found['id'] != superposition:
                    hints.remove([volume_id], superposition)
        self._ask(None, 'tidy')

    def announce_dirty(self) -> None:
        """Tell of one superposition that has become dirty, if one does within half a minute."""
        found = self._ask(None, 'next_dirty', timeout=_DIRTY_WAIT_S)
        if found is None:
            return
        superposition_id, why = found
        LOG.info('superposition %s is dirty: %s', superposition_id, why)
        with contextlib.suppress(exception.SuperpositionNotFound):
            ctxt = context.get_admin_context()
            view = self.get(ctxt, superposition_id)
            # Another service of a cluster may have decided meanwhile, and be merging.
            if view['state'] not in states.DECIDED:
                notifications.emit(ctxt, self._host, 'superposition.dirty', view)

    # Common

    def _ask(self, ctxt: Any, method: str, **arguments: Any) -> Any:
        return self._driver.worker.call(ctxt, method, **arguments)

    def _view(self, found: Mapping[str, Any]) -> View:
        """Describe a superposition in Cinder's terms, from what the worker says of it."""
        labels = found['labels']
        volumes = [{'id': labels.get('volumes', {}).get(volume['image'], volume['image']),
                    'size': volume['size'], 'overlay_bytes': volume['overlay_bytes']}
                   for volume in found['volumes']]
        return {
            **{key: found[key] for key in (
                'id', 'state', 'outcome', 'created_at', 'changed_at', 'age_s', 'reason',
                'server_id', 'dirty', 'dirty_object', 'fenced')},
            **{key: labels.get(key) for key in ('project_id', 'user_id', 'request_id')},
            'members': labels.get('members', [self._host]),
            'lead': labels.get('members', [self._host])[0], 'host': self._host,
            'volumes': volumes,
            'overlay_bytes': sum(volume['overlay_bytes'] or 0 for volume in volumes),
        }

    @contextlib.contextmanager
    def _announced(self, ctxt: Any, what: str, view: View, decision: str | None = None) -> Any:
        """Notify of the start and the end of something, or of its failure.

        What is told of the end may be changed in the dictionary that this gives.
        """
        event = f'superposition.{what}'
        told: dict[str, Any] = {'view': view, 'durations': None}
        notifications.emit(ctxt, self._host, f'{event}.start', view, decision=decision)
        try:
            yield told
        except Exception as exc:
            notifications.emit(ctxt, self._host, f'{event}.error', view, decision=decision,
                               error=str(exc))
            raise
        notifications.emit(ctxt, self._host, f'{event}.end', told['view'], decision=decision,
                           durations=told['durations'])


@contextlib.contextmanager
def _alone(host: str, superposition_id: str) -> Iterator[None]:
    """Merge on a back end while no other service of its cluster merges the same.

    One that still read an overlay after another one was done would write what is old into a
    volume that is in use again.

    :raises SuperpositionConflict: another one does
    """
    name = f'superposition-merge-{host}-{superposition_id}'
    lock = coordination.COORDINATOR.get_lock(name)
    if not lock.acquire(blocking=False):
        raise exception.SuperpositionConflict(
            f'another volume service merges superposition {superposition_id}',
            state=states.MERGING)
    try:
        yield
        # Nothing is left to merge, so nobody needs what the lock may have left on a disk.
        coordination.synchronized_remove(name)
    finally:
        lock.release()


def _volume(volume_id: str) -> objects.Volume:
    return objects.Volume.get_by_id(context.get_admin_context(), volume_id)


def _conflict(found: Mapping[str, Any], why: str) -> exception.SuperpositionConflict:
    return exception.SuperpositionConflict(
        f'superposition {found["id"]} is {found["state"]}: {why}', state=found['state'])


def _report(found: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a collapse as the API does, from what the protocol says of it."""
    sweep2 = found['sweep2']
    return {'outcome': found['outcome'], 'durations': {
        'sweep1': found['sweep1']['seconds'], 'durable': found['durable_s'],
        'fence': found['fence_s'], 'window': found['window_s'],
        'sweep2': sweep2['seconds'] if sweep2 else 0.0, 'commit': found['commit_s'],
        'total': found['total_s']}}


def _summed(outcome: str, checks: Mapping[str, Any], reports: Sequence[Mapping[str, Any]],
            began: float, commit_s: float = 0.0) -> dict[str, Any]:
    """Make one report of those of several back ends, each step as long as the slowest took."""
    steps = ('durable', 'fence', 'window', 'sweep2')
    return {'outcome': outcome, 'durations': {
        'sweep1': checks['seconds'],
        **{step: max((report['durations'][step] for report in reports), default=0.0)
           for step in steps}, 'commit': commit_s, 'total': time.monotonic() - began}}


def _joined(views: Sequence[View]) -> View:
    """Make one view of a set of those of its back ends, the leader's first."""
    return {**views[0], 'volumes': [volume for view in views for volume in view['volumes']],
            'overlay_bytes': sum(view['overlay_bytes'] for view in views)}
