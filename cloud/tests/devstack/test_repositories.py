# SPDX-License-Identifier: Apache-2.0
"""The git repositories that DevStack clones."""

import fixtures

from cloud import commands
from cloud.devstack import repositories
from cloud.matrix import root as roots
from cloud.tests.devstack import base


class RepositoryTest(base.DevstackTestCase):

    def test_addresses(self) -> None:
        self.assertEqual({'nova': '/a=b', 'devstack': 'https://d.example/x'}, repositories.given(
            ['nova=/x', 'devstack=https://d.example/x', 'nova=/a=b']))

    def test_unknown_or_malformed(self) -> None:
        for word in ('horizon=/x', 'nova', 'nova='):
            error = self.assertRaises(commands.CloudError, repositories.given, [word])
            self.assertIn('NAME=ADDRESS', str(error))

    def test_constraints_are_those_of_this_project(self) -> None:
        theirs = ('oslo.config===10.5.0\nSQLAlchemy===2.0.1;python_version=="3.10"\n'
                  'SQLAlchemy===2.0.9\nsetuptools===1\nother===3\n')
        ours = '# tested\noslo-config==10.4.0\nsqlalchemy==2.0.5\nsetuptools==80\n'
        self.assertEqual('oslo.config===10.4.0\nSQLAlchemy===2.0.5\nsetuptools===1\nother===3\n',
                         repositories.constrain(theirs, ours))

    def test_each_package_has_a_version(self) -> None:
        versions = repositories.pins((roots.PROJECT / 'constraints.txt').read_text())
        self.assertLessEqual(set(repositories.PACKAGES.values()), set(versions))

    def test_only_what_is_local_has_another_address(self) -> None:
        self.assertEqual({}, repositories.Repositories(self.files, {}, False).addresses())
        addresses = repositories.Repositories(self.files, {'devstack': '/x'}, True).addresses()
        self.assertEqual('file:///opt/git/nova.git', addresses['nova'])
        self.assertEqual({'devstack', *repositories.PACKAGES}, set(addresses))

    def test_failed_package_names_the_log(self) -> None:
        self.useFixture(fixtures.MonkeyPatch('cloud.matrix.jail.run', lambda *_: 1))
        self.record_commands()
        repos = repositories.Repositories(self.files, {}, True)
        error = self.assertRaises(commands.CloudError, repos.make, commands.silent)
        self.assertIn('repositories.log', str(error))
