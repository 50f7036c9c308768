# SPDX-License-Identifier: Apache-2.0
"""Plans on disk."""

import pathlib

import fixtures
import testtools

from specreds_nova.host.box import plan
from specreds_nova.tests.unit.host.box import fakes


class PlanStoreTest(testtools.TestCase):
    """A directory that does not exist yet."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'boxes')
        self.store = plan.PlanStore(self.directory)
        self.plan = fakes.plan(details={'ovs_create_tap': True})

    def test_saved_plan_is_found(self) -> None:
        self.assertEqual([], self.store.all())
        self.store.save(self.plan)
        store = plan.PlanStore(self.directory)
        self.assertEqual(self.plan, store.get(fakes.PORT))
        self.assertEqual([self.plan], store.of(fakes.BACKUP_ID))
        self.assertEqual([], store.of('another backup'))

    def test_damaged_plan_is_none(self) -> None:
        self.store.save(self.plan)
        self.store.path(fakes.PORT, 'plan.json').write_text('{')
        self.assertIsNone(self.store.get(fakes.PORT))
        self.assertEqual([], self.store.all())

    def test_forgotten_plan_is_gone_with_all_that_belongs_to_it(self) -> None:
        self.store.save(self.plan)
        self.store.path(fakes.PORT, 'metadata.json').write_text('{}')
        self.store.forget(fakes.PORT)
        self.assertFalse((self.directory / fakes.PORT).exists())
        self.store.forget(fakes.PORT)
