# SPDX-License-Identifier: Apache-2.0
"""Disks that go through overlays: libvirt's configuration, QEMU's block nodes, durability."""
