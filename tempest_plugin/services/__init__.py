# SPDX-License-Identifier: Apache-2.0
"""Clients of the REST APIs of Cinder (superpositions) and the engine (the rest)."""

from tempest_plugin.services.speculative import HostsClient
from tempest_plugin.services.speculative import ProtectionClient
from tempest_plugin.services.speculative import RecoveriesClient
from tempest_plugin.services.superpositions import SuperpositionsClient

__all__ = ['HostsClient', 'ProtectionClient', 'RecoveriesClient', 'SuperpositionsClient']
