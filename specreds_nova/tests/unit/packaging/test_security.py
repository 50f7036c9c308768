# SPDX-License-Identifier: Apache-2.0
"""The rights that the page on security names are enough, and no more than that."""

import pathlib
from typing import Any

import fixtures
from nova import policies
from oslo_config import cfg
from oslo_policy import policy
import testtools

from specreds_nova.tests.unit.packaging import test_docs

_OF_NOVA = ('os_compute_api:os-evacuate', 'os_compute_api:os-services:update',
            'os_compute_api:servers:detail:get_all_tenants', 'os_compute_api:os-hypervisors:list',
            'os_compute_api:os-admin-actions:reset_state',
            'os_compute_api:os-deferred-delete:force', 'os_compute_api:os-server-diagnostics')


class RoleTest(testtools.TestCase):
    """Nova's policies with the file of the page; Cinder's extension has the same test."""

    def setUp(self) -> None:
        super().setUp()
        [text] = [text for _, text in test_docs.blocks('text') if 'context_is_admin' in text]
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'policy.yaml')
        self.path.write_text(text)

    def allowed(self, *roles: str) -> list[str]:
        """Return the rules that permit somebody to act on what another project has."""
        conf = cfg.ConfigOpts()
        conf([])
        enforcer = policy.Enforcer(conf, policy_file=str(self.path))
        enforcer.register_defaults(policies.list_rules())
        caller: dict[str, Any] = {'roles': list(roles), 'project_id': 'services', 'user_id': 'u1'}
        # Nova finds out first whether the caller is an administrator.
        caller['is_admin'] = enforcer.enforce('context_is_admin', caller, caller)
        return [rule for rule in _OF_NOVA if enforcer.enforce(
            rule, {'project_id': 'p1', 'user_id': 'u2'}, caller)]

    def test_engine_needs_no_role_of_an_administrator(self) -> None:
        self.assertEqual(list(_OF_NOVA), self.allowed('specreds', 'service'))
        self.assertEqual([], self.allowed('specreds'))
        self.assertEqual([], self.allowed('service'))
