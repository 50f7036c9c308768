# SPDX-License-Identifier: Apache-2.0
"""Report to the engines that this host lives: heartbeats, and probes of libvirt and Ceph."""
