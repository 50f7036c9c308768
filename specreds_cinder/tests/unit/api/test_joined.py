# SPDX-License-Identifier: Apache-2.0
"""A superposition is shown by what a back end has answered, or as unknown."""

import testtools

from specreds_cinder.api import views
from specreds_cinder.tests.unit.api import base


class TestSuperposition(testtools.TestCase):

    def test_answer_of_a_back_end_is_shown(self) -> None:
        view = views.of(base.ID, base.view(volume_ids=(base.VOLUME, base.SECOND), members=[
            base.HOST, base.OTHER_HOST]), {base.OTHER_HOST: [base.SECOND]}, None)
        self.assertEqual(
            ('superposed', base.PROJECT, base.HOST, (base.HOST, base.OTHER_HOST),
             (base.OTHER_HOST,), 2 << 20, (base.VOLUME, base.SECOND)),
            (view.state, view.project_id, view.lead, view.members, view.unreachable,
             view.overlay_bytes, view.volume_ids))

    def test_state_is_unknown_while_no_back_end_answers(self) -> None:
        view = views.of(base.ID, None, {base.HOST: [base.VOLUME], base.OTHER_HOST: [base.SECOND]},
                         base.OTHER_PROJECT)
        self.assertEqual(
            ('unknown', base.OTHER_PROJECT, None, None, None, (base.HOST, base.OTHER_HOST)),
            (view.state, view.project_id, view.created_at, view.dirty, view.overlay_bytes,
             view.unreachable))
        self.assertEqual((base.VOLUME, base.SECOND), view.volume_ids)

    def test_unknown_size_makes_the_sum_unknown(self) -> None:
        volumes = [{'id': base.VOLUME, 'size_bytes': 1, 'overlay_bytes': None}]
        self.assertIsNone(views.of(base.ID, base.view(volumes=volumes), {}, None).overlay_bytes)
