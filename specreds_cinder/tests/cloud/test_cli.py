# SPDX-License-Identifier: Apache-2.0
"""``openstack volume super`` on a cloud."""

from specreds_cinder.tests.cloud import base

_DIRTY = 3


class CommandTest(base.CloudTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.volume_ = self.make_volume(persona='admin')
        self.name = self.volume_['name']

    def super(self, *words: str, persona: str = 'admin', code: int = 0) -> str:
        """Run one of the commands."""
        return self.command('volume', 'super', *words, persona=persona, code=code)

    def test_superposition_is_created_promoted_and_merged(self) -> None:
        eligible = self.openstack('volume', 'super', 'eligibility', self.name)
        self.assertEqual([self.volume_['id']], [each['Volume'] for each in eligible])
        made = self.openstack('volume', 'super', 'create', self.name, '--reason', 'why not')
        self.addCleanup(self.end, made['id'])
        listed = self.openstack('volume', 'super', 'list', '--long')
        self.assertIn(made['id'], [each['ID'] for each in listed])
        shown = self.openstack('volume', 'super', 'show', self.name)
        self.assertEqual(('superposed', 'why not'), (shown['state'], shown['reason']))
        self.assertFalse(self.openstack('volume', 'super', 'check', self.name)['dirty'])
        done = self.openstack('volume', 'super', 'collapse', '--promote', made['id'])
        self.assertEqual('promoted', done['outcome'])
        self.super('merge', '--wait', self.name)
        message = self.super('show', self.name, code=1)
        self.assertIn('is in no superposition', message)

    def test_dirty_volume_exits_with_3(self) -> None:
        made = self.openstack('volume', 'super', 'create', self.name)
        self.addCleanup(self.end, made['id'])
        self.make_primary(self.volume_)
        self.super('check', self.name, code=_DIRTY)
        self.super('collapse', '--promote', '--wait', self.name, code=_DIRTY)
        self.assertEqual([], self.superpositions(volume_id=self.volume_['id']))

    def test_delete_waits_for_the_end(self) -> None:
        made = self.openstack('volume', 'super', 'create', self.name)
        self.addCleanup(self.end, made['id'])
        self.super('delete', '--wait', self.name)
        self.assertEqual([], self.superpositions(volume_id=self.volume_['id']))

    def test_refusal_is_a_message_without_a_traceback(self) -> None:
        made = self.openstack('volume', 'super', 'create', self.name)
        self.addCleanup(self.end, made['id'])
        message = self.super('create', self.name, code=1)
        self.assertIn(made['id'], message)
        self.assertNotIn('Traceback', message)
        message = self.super('create', 'no-such-volume', code=1)
        self.assertIn('no-such-volume', message)

    def test_commands_follow_the_roles(self) -> None:
        volume = self.make_volume(persona='demo')
        message = self.super('create', volume['name'], persona='demo', code=1)
        self.assertIn('superposition:create', message)
        made = self.superpose(volume['id'])
        seen = self.super('show', volume['name'], '-f', 'value', '-c', 'id', persona='reader')
        self.assertEqual(made['id'], seen.strip())
        message = self.super('delete', volume['name'], persona='reader', code=1)
        self.assertIn('superposition:delete', message)

    def test_help_explains_superpositions(self) -> None:
        for words in (('volume', 'super'), ('volume', 'super', '--help')):
            message = self.command(*words)
            self.assertIn('two versions, until one of them is observed', message)
            self.assertIn('volume super collapse', message)
