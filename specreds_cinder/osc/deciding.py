# SPDX-License-Identifier: Apache-2.0
"""``create``, ``collapse``, ``merge`` and ``delete``: for admins and services."""

import argparse
from collections.abc import Callable
import time

from keystoneauth1 import exceptions as auth_exceptions
from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions
from osc_lib.command import command

from specreds_cinder.osc import base
from specreds_cinder.osc import client
from specreds_cinder.osc import progress
from specreds_cinder.osc import shown

_COLLAPSED = ('id', 'outcome', 'merged', 'durations')
_FIRST_S = 0.25
_SLOWEST_S = 2.0


def _add_volumes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('volumes', metavar='<volume>', nargs='*',
                        help='volumes (names or IDs); default: all volumes of the server')
    parser.add_argument('--server', metavar='<server>',
                        help='server (name or ID) that the volumes are attached to')
    parser.add_argument('--disk', metavar='<disk>', action='append', default=[], dest='disks',
                        help='disk of the server that Nova keeps in RBD, such as "disk" or '
                             '"disk.eph0" (repeat the option for several disks)')
    parser.add_argument('--reason', metavar='<reason>', help='reason, which "show" displays')


class Create(base.SuperCommand, command.ShowOne):
    """Put volumes into superposition: all of them at the same instant, or none.

    Each volume gets a second version for a backup. The primary continues undisturbed.
    """

    arguments = (_add_volumes,)

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Fields:
        if not parsed_args.volumes and not parsed_args.server:
            raise exceptions.CommandError('name at least one VOLUME, or a --server')
        if parsed_args.disks and not parsed_args.server:
            raise exceptions.CommandError('name the --server of each --disk')
        superpositions = self.client
        server_id = parsed_args.server and superpositions.server_id(parsed_args.server)
        return shown.one(superpositions.create(
            superpositions.volume_ids(parsed_args.volumes), server_id or None,
            parsed_args.reason, parsed_args.disks))


def _add_decision(parser: argparse.ArgumentParser) -> None:
    decision = parser.add_mutually_exclusive_group(required=True)
    decision.add_argument('--promote', dest='decision', action='store_const', const='promote',
                          help='choose the version of the backup')
    decision.add_argument('--abort', dest='decision', action='store_const', const='abort',
                          help='choose the version of the primary')
    parser.add_argument(
        '--backup-durable', action='store_true',
        help="declare that the backup's disks have been flushed and its flushes are honoured; "
             'required to promote a backup that has written')
    parser.add_argument(
        '--wait', action='store_true',
        help='wait until the superposition has ended: after --promote, until it is merged')


def until_gone(superpositions: client.Superpositions, superposition_id: str,
               sleep: Callable[[float], None] = time.sleep) -> str | None:
    """Wait until a superposition no longer exists, and show its progress.

    If the service does not answer, ask it again, without limit.

    :returns: the outcome, if any answer had one
    """
    outcome: str | None = None
    pause = _FIRST_S
    with progress.StatusLine() as line:
        while True:
            try:
                now = superpositions.get(superposition_id)
            except sdk_exceptions.NotFoundException:
                return outcome
            except (sdk_exceptions.HttpException, auth_exceptions.ConnectFailure) as exc:
                if getattr(exc, 'status_code', None) in range(400, 500):
                    raise
                line.say(f'superposition {superposition_id}: the service does not answer')
            else:
                outcome = now['outcome'] or outcome
                line.say(f'superposition {superposition_id} is {now["state"]}, '
                         f'overlay left: {shown.size(now["overlay_bytes"])}')
            sleep(pause)
            pause = min(pause * 2, _SLOWEST_S)


class Collapse(base.SuperCommand, command.ShowOne):
    """Decide which version of the volumes is the real one.

    --promote chooses the second version, unless the primary has written. If it has, the outcome is
    "dirty" and the primary continues undisturbed, or "late-dirty" if the primary wrote while it
    was being fenced: start it again, none of its writes is lost. If nobody can tell, because the
    volumes were changed otherwise, the outcome is "unproven": another superposition may tell. The
    exit status is 3 for all three. --abort drops the second version. Both can be repeated.
    """

    arguments = (base.add_superposition, _add_decision)

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Fields:
        superpositions = self.client
        superposition_id = superpositions.find(parsed_args.superposition)['id']
        result = superpositions.collapse(superposition_id, parsed_args.decision,
                                         backup_durable=parsed_args.backup_durable)
        outcome = result['outcome']
        if parsed_args.wait:
            outcome = _wait(superpositions, superposition_id, outcome, parsed_args.decision)
        elif outcome is None:
            self.log.warning('superposition %s is %s: the decision is under way', superposition_id,
                             result.get('state'))
        self.status = base.DIRTY if outcome in ('dirty', 'late-dirty', 'unproven') else 0
        merged = parsed_args.wait and outcome == 'promoted'
        return _COLLAPSED, shown.values(
            {**result, 'id': superposition_id, 'outcome': outcome, 'merged': merged}, _COLLAPSED)


def _wait(superpositions: client.Superpositions, superposition_id: str, outcome: str | None,
          decision: str) -> str:
    """Wait until a superposition has ended.

    :returns: the outcome
    :raises CommandError: it ended between two requests, so that the outcome is unknown
    """
    outcome = until_gone(superpositions, superposition_id) or outcome
    if outcome is None and decision == 'abort':
        return 'aborted'
    if outcome is None:
        raise exceptions.CommandError(
            f'superposition {superposition_id} has ended with an unknown outcome: see the log '
            'and the notifications of the volume service')
    return outcome


def _add_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--wait', action='store_true', help='wait until it is merged')


class Merge(base.SuperCommand):
    """Merge a promoted version into its volumes at once, without the usual delay.

    No client may have the version open: under a running server its hypervisor merges it. Nothing
    is lost if the merge is interrupted.
    """

    arguments = (base.add_superposition, _add_wait)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        superpositions = self.client
        superposition_id = superpositions.find(parsed_args.superposition)['id']
        superpositions.merge(superposition_id)
        if parsed_args.wait:
            until_gone(superpositions, superposition_id)


def _add_superpositions(parser: argparse.ArgumentParser) -> None:
    base.add_superposition(parser, several=True)
    parser.add_argument('--wait', action='store_true', help='wait until they are gone')


class Delete(base.SuperCommand):
    """Drop the second version of volumes, as "collapse --abort" does."""

    arguments = (_add_superpositions,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Abort each superposition, also after a failure of another one."""
        superpositions = self.client
        targets: dict[str, str] = {}
        failed = 0
        for text in parsed_args.superposition:
            try:
                targets.setdefault(superpositions.find(text)['id'], text)
            except sdk_exceptions.SDKException as exc:
                failed += 1
                self._failed(text, exc)
        for superposition_id, text in targets.items():
            try:
                superpositions.delete(superposition_id)
            except sdk_exceptions.SDKException as exc:
                failed += 1
                self._failed(text, exc)
            else:
                if parsed_args.wait:
                    until_gone(superpositions, superposition_id)
        if failed:
            total = len(parsed_args.superposition)
            raise exceptions.CommandError(f'{failed} of {total} could not be deleted')

    def _failed(self, text: str, error: sdk_exceptions.SDKException) -> None:
        self.log.error('%s: %s', text, base.words(error))
