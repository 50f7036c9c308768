# SPDX-License-Identifier: Apache-2.0
"""The default rules of access to the engine's API, which a policy file can override."""

from oslo_policy import policy

LIST_ALL = 'recovery:list:all_projects'
LIST = 'recovery:list'
SHOW = 'recovery:show'
DETAILS = 'recovery:show:details'
ABORT = 'recovery:abort'
HOST_LIST = 'host:list'
HOST_SHOW = 'host:show'
SUSPECT = 'host:suspect'
CLEAR = 'host:clear'
MODE_LIST = 'mode:list'
MODE_SET = 'mode:set'
PROTECTION = 'server:protection'
PROTECTION_DETAILS = 'server:protection:details'
DRILL = 'server:drill'
COVERAGE = 'coverage:show'
SIMULATION = 'simulation:show'

# Operators, and programs such as another monitor of hosts, act for all projects.
_OPERATOR = 'rule:specreds_operator'
_READER = 'rule:specreds_reader'

_RECOVERIES = '/v1/recoveries'
_RECOVERY = f'{_RECOVERIES}/{{recovery_id}}'
_HOSTS = '/v1/hosts'
_HOST = f'{_HOSTS}/{{host}}'
_MODES = '/v1/modes'
_SERVER = '/v1/servers/{server_id}'
_PROTECTION = f'{_SERVER}/protection'


def _rule(name: str, check: str, description: str,
          *operations: tuple[str, str]) -> policy.DocumentedRuleDefault:
    return policy.DocumentedRuleDefault(
        name, check, description,
        [{'method': method, 'path': path} for method, path in operations],
        scope_types=['project'])


_RULES: tuple[policy.RuleDefault, ...] = (
    policy.RuleDefault('specreds_operator', 'role:admin or role:specreds',
                       'Those who manage hosts.'),
    policy.RuleDefault('specreds_reader',
                       'rule:specreds_operator or '
                       '(role:reader and project_id:%(project_id)s)',
                       'Those, and readers of the project that a server is of.'),
    _rule(LIST, _READER, 'List the recoveries of the servers of a project.',
          ('GET', _RECOVERIES)),
    _rule(LIST_ALL, _OPERATOR, 'List the recoveries of the servers of all projects.',
          ('GET', _RECOVERIES)),
    _rule(SHOW, _READER, 'Look at a recovery.', ('GET', _RECOVERY)),
    _rule(DETAILS, _OPERATOR,
          'See in a recovery which hosts and engines have to do with it, and why it began; and '
          'choose recoveries by their host.', ('GET', _RECOVERIES), ('GET', _RECOVERY)),
    _rule(ABORT, _OPERATOR, 'End a recovery in favour of the primary.',
          ('POST', f'{_RECOVERY}/action')),
    _rule(HOST_LIST, _OPERATOR, 'List hosts.', ('GET', _HOSTS)),
    _rule(HOST_SHOW, _OPERATOR, 'Look at a host.', ('GET', _HOST)),
    _rule(SUSPECT, _OPERATOR, 'Say that a host has failed.',
          ('POST', f'{_HOST}/action')),
    _rule(CLEAR, _OPERATOR, 'Say that a host has not failed.',
          ('POST', f'{_HOST}/action')),
    _rule(MODE_LIST, _OPERATOR, 'List the modes of hosts.', ('GET', _MODES)),
    _rule(MODE_SET, _OPERATOR,
          'Say for which hosts engines act, only observe, or do nothing.',
          ('PUT', _MODES), ('DELETE', _MODES)),
    _rule(PROTECTION, _READER, 'Ask whether a server is protected.', ('GET', _PROTECTION)),
    _rule(PROTECTION_DETAILS, _OPERATOR,
          'See where a server is, and where its backup could be started.',
          ('GET', _PROTECTION)),
    _rule(DRILL, _OPERATOR,
          'Have a backup of a server that is well started, and dropped when it is ready.',
          ('POST', f'{_SERVER}/action')),
    _rule(COVERAGE, _OPERATOR, 'See what each server would get if its host failed.',
          ('GET', '/v1/coverage')),
    _rule(SIMULATION, _OPERATOR,
          'See what would become of servers if some hosts failed.', ('GET', '/v1/simulation')),
)


def list_rules() -> list[policy.RuleDefault]:
    """List the rules, for the entry point ``oslo.policy.policies``."""
    return list(_RULES)
