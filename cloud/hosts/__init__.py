# SPDX-License-Identifier: Apache-2.0
"""Compute hosts on one machine: sets of namespaces, each with a hypervisor and its services."""

from cloud.hosts import host
from cloud.hosts import hosts
from cloud.hosts import tenant

Host = host.Host
Hosts = hosts.Hosts
Tenant = tenant.Tenant
