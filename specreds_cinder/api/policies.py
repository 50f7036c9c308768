# SPDX-License-Identifier: Apache-2.0
"""Policy rules of superpositions: defaults that Cinder's policy file can override."""

from typing import Any

from cinder import exception
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
FENCE = 'superposition:fence'
RELEASE = 'superposition:release'
SERVER_DISKS = 'superposition:server_disks'

# All of them act on the volumes of all projects. Only the engine decides. The role of services,
# which Nova has on each compute host, opens what is promoted, and merges it.
ENGINE = f'{base.RULE_ADMIN_API} or role:specreds'
SERVICE = f'{ENGINE} or role:service'
READER = f'{base.SYSTEM_READER_OR_PROJECT_READER} or role:specreds or role:service'

_COLLECTION = '/os-superpositions'
_MEMBER = f'{_COLLECTION}/{{superposition_id}}'


def _rule(name: str, check: str, description: str,
          *operations: tuple[str, str]) -> policy.DocumentedRuleDefault:
    return policy.DocumentedRuleDefault(
        name, check, description,
        [{'method': method, 'path': path} for method, path in operations],
        scope_types=['project'])


_RULES = (
    _rule(GET, READER, 'Show a superposition.', ('GET', _MEMBER)),
    _rule(GET_ALL, READER, 'List the superpositions of a project.',
          ('GET', _COLLECTION), ('GET', f'{_COLLECTION}/detail')),
    _rule(GET_ALL_TENANTS, SERVICE, 'List the superpositions of all projects.',
          ('GET', f'{_COLLECTION}?all_tenants=1'),
          ('GET', f'{_COLLECTION}/detail?all_tenants=1')),
    _rule(ELIGIBILITY, READER, 'Show whether volumes can be superposed.',
          ('GET', f'{_COLLECTION}/eligibility')),
    _rule(CREATE, ENGINE, 'Put volumes into superposition.', ('POST', _COLLECTION)),
    _rule(CHECK, ENGINE, 'Check the volumes for writes of the primary.',
          ('POST', f'{_MEMBER}/check')),
    _rule(COLLAPSE, ENGINE, 'Decide which version of the volumes is the real one.',
          ('POST', f'{_MEMBER}/collapse')),
    _rule(DELETE, ENGINE, 'Drop the second version of the volumes.',
          ('DELETE', _MEMBER)),
    _rule(MERGE, SERVICE, 'Control the merge of a promoted version into its volume.',
          ('POST', f'{_MEMBER}/merge')),
    _rule(CONNECTION, SERVICE,
          'Get the connection with which a hypervisor opens the second version.',
          ('POST', f'{_MEMBER}/connection')),
    _rule(FENCE, ENGINE,
          'Shut the clients of a host out of volumes that have no superposition.',
          ('POST', f'{_COLLECTION}/fence')),
    _rule(RELEASE, ENGINE,
          'Release the fenced clients that boots of their hosts have ended.',
          ('POST', f'{_COLLECTION}/release')),
    # Cinder does not know the project of a server.
    _rule(SERVER_DISKS, ENGINE,
          'Name disks that Nova keeps in RBD, by their server, in the other requests.',
          ('GET', f'{_COLLECTION}/eligibility'), ('POST', _COLLECTION)),
)


def list_rules() -> list[policy.DocumentedRuleDefault]:
    """List the rules, for the entry point ``oslo.policy.policies``."""
    return list(_RULES)


def register() -> None:
    """Register the rules with Cinder's enforcer. May be repeated."""
    cinder_policy.init()
    enforcer = cinder_policy._ENFORCER
    for rule in _RULES:
        if rule.name not in enforcer.registered_rules:
            enforcer.register_default(rule)


def allows(ctxt: Any, rule: str, project_id: str | None) -> bool:
    """Report whether a rule permits a caller to act on a project's volumes."""
    register()
    try:
        return ctxt.authorize(rule, {'project_id': project_id}, fatal=False) is not False
    except policy.InvalidScope:
        return False


def authorize(ctxt: Any, rule: str, project_id: str | None) -> None:
    """Raise an error unless a rule permits a caller to act on a project's volumes.

    :raises PolicyNotAuthorized: the rule forbids it
    """
    register()
    try:
        ctxt.authorize(rule, {'project_id': project_id})
    except policy.InvalidScope:
        # Cinder has no rules with a scope, and would answer with status 500.
        raise exception.PolicyNotAuthorized(action=rule) from None
