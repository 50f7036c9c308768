# SPDX-License-Identifier: Apache-2.0
"""Clients of Nova, Placement, Cinder and the hosts, by REST and RPC."""
