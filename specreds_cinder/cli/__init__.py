# SPDX-License-Identifier: Apache-2.0
"""``specreds-super``: superpositions for operators who run Ceph and QEMU without OpenStack."""
