# SPDX-License-Identifier: Apache-2.0
"""A step that a client is in the way of names the client."""

from collections.abc import Callable, Iterable
from typing import Any
from unittest import mock

import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.evidence import sweep
from specreds_cinder.superposition.exclusion import ledger as ledgers
from specreds_cinder.superposition.exclusion import roles
from specreds_cinder.superposition.overlay import merge
from specreds_cinder.superposition.overlay import removal
from specreds_cinder.superposition.steps import base
from specreds_cinder.superposition.steps import clients as looks
from specreds_cinder.superposition.steps import collapse
from specreds_cinder.superposition.steps import merge as merging
from specreds_cinder.tests.unit.superposition.truth import test_record

_FIRST, _SECOND, _FENCED = '10.0.0.2:0/2', '10.0.0.3:0/3', '10.0.0.4:0/4'
_OVERLAY = '10.0.0.2:0/9'
_NOBODY = frozenset[str]()


class NamedTest(testtools.TestCase):
    """Each error names every client that is in the way, and no other."""

    def setUp(self) -> None:
        super().setUp()
        self.record = test_record.make_record()
        self.fence = mock.Mock(**{f'{method}.side_effect': lambda clients: clients - {_FENCED}
                                  for method in ('alive', 'outside')})

    def assert_named(self, clients: Iterable[str], what: str, call: Callable[[], object]) -> str:
        """Assert that a call fails because of some clients; return the message.

        :param what: part of the message that says what the clients do
        """
        error = self.assertRaises(errors.OverlayBusy, call)
        self.assertEqual(frozenset(clients), error.clients)
        self.assertIn(f'{what} at {", ".join(sorted(clients))}: ', str(error))
        self.assertNotIn(_FENCED, str(error))
        return str(error)

    def test_offline_merge_names_all_that_have_the_overlay_open(self) -> None:
        self.patch(volumes, 'watchers', mock.Mock(
            return_value=frozenset({_SECOND, _FIRST, _FENCED})))
        self.assert_named(
            [_FIRST, _SECOND], f'overlay {self.record.volumes[0].overlay_ref} is open',
            lambda: merge.unused(mock.Mock(), self.record, self.fence))

    def test_removal_names_all_that_have_the_overlay_open(self) -> None:
        ref = self.record.volumes[0].overlay_ref
        self.assert_named([_FIRST, _SECOND], f'overlay {ref} is open', lambda: removal._shut_out(
            ref, frozenset({_FIRST, _SECOND, _FENCED}), self.fence, evict=False))

    def test_collapse_names_the_backup_that_nobody_has_in_hand(self) -> None:
        step: Any = base.Site(mock.Mock())
        step.fence = self.fence
        self.patch(looks, 'observe', mock.Mock(return_value=roles.Roles(
            _NOBODY, frozenset({_FIRST, _OVERLAY, _FENCED}), _NOBODY, _NOBODY)))
        self.assert_named(
            [_FIRST, _OVERLAY], f'overlays of superposition {self.record.id} open',
            lambda: collapse._primary(step, self.record, attended=False))

    def test_unclear_clients_are_named_beside_those_of_the_overlays(self) -> None:
        step: Any = base.Site(mock.Mock())
        self.patch(looks, 'observe', mock.Mock(return_value=roles.Roles(
            _NOBODY, frozenset({_OVERLAY}), _NOBODY, _NOBODY, frozenset({_FIRST, _SECOND}))))
        message = self.assert_named([_FIRST, _SECOND], 'more of them are open',
                                    lambda: collapse._primary(step, self.record, attended=True))
        self.assertIn(f'{self.record.id} are open at {_OVERLAY}, ', message)

    def test_merge_names_the_client_that_came_during_the_fence(self) -> None:
        step: Any = base.Site(mock.Mock())
        step.fence = self.fence
        self.patch(looks, 'observe', mock.Mock(return_value=roles.Roles(
            _NOBODY, _NOBODY, _NOBODY, _NOBODY)))
        self.patch(merging, 'unused', mock.Mock())
        self.patch(volumes, 'owners', mock.Mock(return_value=_NOBODY))
        self.patch(sweep, 'barrier', mock.Mock())
        self.patch(looks, 'entries', mock.Mock(return_value={
            _SECOND: ledgers.Entry(ledgers.BACKUP, self.record.id)}))
        self.assert_named([_SECOND], 'its volumes or overlays were opened',
                          lambda: merging._shut_out(step, self.record))
