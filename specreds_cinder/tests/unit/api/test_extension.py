# SPDX-License-Identifier: Apache-2.0
"""How cinder-api loads the extension, and what policies it has."""

import json
import pathlib
import re
import subprocess
import sys
import textwrap
from unittest import mock

from cinder import context
from cinder import policy as cinder_policy
from cinder.api import extensions
from cinder.tests.unit import test
import fixtures
import testtools

from specreds_cinder.api import extension
from specreds_cinder.api import guards
from specreds_cinder.api import policies
from specreds_cinder.tests.unit.api import base

# The part of Cinder's start that loads modules.
_START = """
import sys
from cinder import objects
from cinder.common import config
from cinder import coordination, rpc, service
objects.register_all()
config.CONF(sys.argv[1:], project='cinder')
rpc.init(config.CONF)
from unittest import mock
mock.patch('cinder.objects.Service.get_minimum_obj_version', return_value=None).start()
mock.patch('cinder.objects.Service.get_minimum_rpc_version', return_value=None).start()
from cinder.api.v3 import router
application = router.APIRouter()
print(*sorted(name for name in application.resources if 'superposition' in name))
for collection, attribute in (('volumes', 'volume_api'), ('groups', 'group_api'),
                              ('backups', 'backup_api'), ('os-volume-transfer', 'transfer_api')):
    print(type(getattr(application.resources[collection].controller, attribute)).__module__)
"""
_GUARDS = {'volume_api_class': 'VolumeAPI', 'backup_api_class': 'BackupAPI',
           'transfer_api_class': 'TransferAPI', 'group_api_class': 'GroupAPI'}


class TestStart(testtools.TestCase):

    def started(self, options: dict[str, str]) -> tuple[list[str], str]:
        """Load Cinder's API in a process of its own, and return its output and its log."""
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        conf = directory / 'cinder.conf'
        conf.write_text(textwrap.dedent(f'''
            [DEFAULT]
            transport_url = fake:/
            osapi_volume_extension = cinder.api.contrib.standard_extensions
            osapi_volume_extension = specreds_cinder.api.extension.Superpositions
            {"""
            """.join(f"{name} = {value}" for name, value in options.items())}
            [database]
            connection = sqlite://
        '''))
        done = subprocess.run([sys.executable, '-c', _START, '--config-file', str(conf)],
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout.split('\n'), done.stderr

    def test_cinder_loads_the_configured_guards(self) -> None:
        printed, _log = self.started({option: f'specreds_cinder.api.guards.{name}'
                                      for option, name in _GUARDS.items()})
        self.assertEqual(['os-superpositions', *(f'specreds_cinder.api.guards.{name}' for name in (
            'volume', 'group', 'backup', 'transfer'))], printed[:5])

    def test_resource_is_not_registered_without_guards(self) -> None:
        printed, log = self.started({})
        self.assertEqual('', printed[0])
        for option, name in _GUARDS.items():
            self.assertIn(f'{option} = specreds_cinder.api.guards.{name}', log)


class TestUnguarded(test.TestCase):

    def test_missing_guard_is_logged(self) -> None:
        self.flags(volume_api_class='specreds_cinder.api.guards.VolumeAPI')
        self.flags(backup_api_class='specreds_cinder.api.guards.BackupAPI')
        manager = mock.Mock(spec=extensions.ExtensionManager)
        with mock.patch('cinder.transfer.API', guards.TransferAPI), \
                mock.patch.object(extension.LOG, 'error') as logged:
            extension.Superpositions(manager)
        manager.register.assert_not_called()
        (text,) = logged.call_args.args[2:]
        self.assertEqual('group_api_class = specreds_cinder.api.guards.GroupAPI', text)

    def test_subclass_of_a_guard_is_accepted(self) -> None:
        self.flags(volume_api_class=f'{__name__}.Subclass')
        self.flags(backup_api_class='specreds_cinder.api.guards.BackupAPI')
        manager = mock.Mock(spec=extensions.ExtensionManager)
        with mock.patch('cinder.transfer.API', guards.TransferAPI), \
                mock.patch('cinder.group.API', guards.GroupAPI):
            extension.Superpositions(manager)
        manager.register.assert_called_once()


class Subclass(guards.VolumeAPI):
    """A guard of another extension."""


class TestPolicies(base.APITestCase):

    def test_every_rule_has_scope_and_operations(self) -> None:
        rules = policies.list_rules()
        self.assertEqual(len(rules), len({rule.name for rule in rules}))
        for rule in rules:
            self.assertEqual(['project'], rule.scope_types)
            for operation in rule.operations:
                self.assertTrue(operation['path'].startswith('/os-superpositions'))

    def test_policy_file_overrides_defaults(self) -> None:
        self.superposed()
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'policy.yaml'
        path.write_text(json.dumps({policies.DELETE: 'role:member',
                                    policies.GET: 'role:admin'}))
        self.override_config('policy_file', str(path), group='oslo_policy')
        cinder_policy.reset()
        self.addCleanup(cinder_policy.reset)
        self.refused(404, 'GET', f'{base.BASE}/{base.ID}', ctxt=base.caller('reader'))
        path.write_text(json.dumps({policies.DELETE: 'role:member'}))
        cinder_policy.reset()
        self.done(204, 'DELETE', f'{base.BASE}/{base.ID}', ctxt=base.caller('member'))

    def test_engine_is_an_administrator_by_the_file_of_the_page_on_security(self) -> None:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'policy.yaml'
        page = pathlib.Path(__file__).parents[4] / 'doc/source/security.rst'
        path.write_text(''.join(re.findall(r'"context_is_admin": .*', page.read_text())))
        self.override_config('policy_file', str(path), group='oslo_policy')
        cinder_policy.reset()
        self.addCleanup(cinder_policy.reset)
        self.assertEqual([True, False, False], [
            context.RequestContext('u1', 'services', roles=roles).is_admin
            for roles in (['specreds', 'service'], ['specreds'], ['service'])])

    def test_extension_is_listed(self) -> None:
        by_alias = {each['alias']: each
                    for each in self.ask('GET', '/extensions').body['extensions']}
        self.assertIn('os-superpositions', by_alias)
