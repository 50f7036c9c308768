# SPDX-License-Identifier: Apache-2.0
"""Who may do what with superpositions: defaults that a policy file of Cinder's may change."""

from typing import Any

from cinder import policy as cinder_policy
from cinder.policies import base
from oslo_policy import policy

GET = 'superposition:get'
GET_ALL = 'superposition:get_all'
GET_ALL_TENANTS = 'superposition:get_all_tenants'
ELIGIBILITY = 'superposition:eligibility'
CREATE = 'superposition:create'
CHECK = 'superposition:check'
COLLAPSE = 'superposition:collapse'
DELETE = 'superposition:delete'
MERGE = 'superposition:merge'
CONNECTION = 'superposition:connection'

# Services, such as the one that detects failed hosts, act on the volumes of all projects.
_SERVICE = 'role:service'
ADMIN_OR_SERVICE = f'{base.RULE_ADMIN_API} or {_SERVICE}'
READER = f'{base.SYSTEM_READER_OR_PROJECT_READER} or {_SERVICE}'

_COLLECTION = '/os-superpositions'
_MEMBER = f'{_COLLECTION}/{{superposition_id}}'


def _rule(name: str, check: str, description: str,
          *operations: tuple[str, str]) -> policy.DocumentedRuleDefault:
    return policy.DocumentedRuleDefault(
        name, check, description,
        [{'method': method, 'path': path} for method, path in operations],
        scope_types=['project'])


_RULES = (
    _rule(GET, READER, 'Look at a superposition.', ('GET', _MEMBER)),
    _rule(GET_ALL, READER, 'List the superpositions of a project.',
          ('GET', _COLLECTION), ('GET', f'{_COLLECTION}/detail')),
    _rule(GET_ALL_TENANTS, ADMIN_OR_SERVICE, 'List the superpositions of all projects.',
          ('GET', f'{_COLLECTION}?all_tenants=1'),
          ('GET', f'{_COLLECTION}/detail?all_tenants=1')),
    _rule(ELIGIBILITY, READER, 'Ask whether volumes can be superposed.',
          ('GET', f'{_COLLECTION}/eligibility')),
    _rule(CREATE, ADMIN_OR_SERVICE, 'Put volumes into superposition.', ('POST', _COLLECTION)),
    _rule(CHECK, ADMIN_OR_SERVICE, 'Look for writes of the primary.',
          ('POST', f'{_MEMBER}/check')),
    _rule(COLLAPSE, ADMIN_OR_SERVICE, 'Decide which version of the volumes is the real one.',
          ('POST', f'{_MEMBER}/collapse')),
    _rule(DELETE, ADMIN_OR_SERVICE, 'Drop the second version of the volumes.',
          ('DELETE', _MEMBER)),
    _rule(MERGE, ADMIN_OR_SERVICE, 'Steer the merge of a promoted version into its volume.',
          ('POST', f'{_MEMBER}/merge')),
    _rule(CONNECTION, ADMIN_OR_SERVICE, 'Get what a hypervisor needs to open the second version.',
          ('POST', f'{_MEMBER}/connection')),
)


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """List the rules, for the entry point ``oslo.policy.policies``."""
    return list(_RULES)


def register() -> None:
    """Make the rules known to Cinder's enforcer. May be repeated."""
    cinder_policy.init()
    enforcer = cinder_policy._ENFORCER
    for rule in _RULES:
        if rule.name not in enforcer.registered_rules:
            enforcer.register_default(rule)


def allows(ctxt: Any, rule: str, project_id: str | None) -> bool:
    """Tell whether a caller may do something with what a project owns."""
    register()
    return ctxt.authorize(rule, {'project_id': project_id}, fatal=False) is not False


def authorize(ctxt: Any, rule: str, project_id: str | None) -> None:
    """Make sure that a caller may do something with what a project owns.

    :raises PolicyNotAuthorized: he may not
    """
    register()
    ctxt.authorize(rule, {'project_id': project_id})
