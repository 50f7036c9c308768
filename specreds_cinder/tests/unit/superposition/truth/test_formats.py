# SPDX-License-Identifier: Apache-2.0
"""What release 0.1.0 has written to Ceph is read, and written in the same form.

A release before this one and this one run beside each other during an upgrade. If a test fails
here, raise ``FORMAT``, and read both. Never change a file of a release; 0.1.0 begins with its tag.
"""

import json
import pathlib
from typing import Any

import ddt
import testtools

from specreds_cinder.superposition.exclusion import ledger
from specreds_cinder.superposition.truth import packing
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_cinder.superposition.truth import store
from specreds_cinder.tests.unit import fakes

_PLACE = pathlib.Path(__file__).parents[3] / 'formats'
_ID = '3d1c9c36-0d3b-4d41-9f0b-6f1f0a6f7d10'
_CLIENT = '192.0.2.11:0/3642456179'


def _unpacked(raw: bytes) -> Any:
    """Return the contents of a record; other zlibs compress the versions in another way."""
    body = json.loads(raw)
    for cut in body['cuts'].values():
        cut['versions'] = packing.unpacked(cut['versions'])
    return body


@ddt.ddt
class FormatsTest(testtools.TestCase):

    @ddt.data(states.SUPERPOSED, states.PROMOTED, states.MERGING)
    def test_record_is_read_and_written_back(self, state: str) -> None:
        raw = (_PLACE / f'record-{state}.json').read_bytes()
        cluster: Any = fakes.Cluster(fakes.Ioctx({f'specreds.super.{_ID}': raw}))
        record = store.Store(cluster).read(_ID, records.Home('volumes'))
        self.assertEqual((state, (_CLIENT,), (101, 0, 1 << 40)), (
            record.state, record.volumes[0].clients, record.cuts[7].versions))
        self.assertEqual(_unpacked(raw), _unpacked(record.dump()))
        self.assertEqual(list(json.loads(raw)), list(json.loads(record.dump())))

    def test_claims_and_ledgers_are_read(self) -> None:
        cluster: Any = fakes.Cluster(fakes.Ioctx({
            'specreds.claim.5f3ab1': (
                f'{{"superposition": "{_ID}", "home": "volumes/tenant"}}').encode(),
            'specreds.clients.5f3ab1': (
                f'{{"format":1,"clients":{{"{_CLIENT}":'
                f'{{"role":"primary","superposition":"{_ID}"}}}}}}').encode()}))
        claim = store.Store(cluster).claimed(records.Home('volumes'), '5f3ab1')
        assert claim is not None
        self.assertEqual((_ID, records.Home('volumes', 'tenant')),
                         (claim.superposition, claim.home))
        volume = records.Record.load(
            (_PLACE / 'record-superposed.json').read_bytes(), 1).volumes[0]
        self.assertEqual({_CLIENT: ledger.Entry(ledger.PRIMARY, _ID)},
                         ledger.Ledger(cluster).read(volume))
