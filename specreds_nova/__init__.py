# SPDX-License-Identifier: Apache-2.0
"""The compute half of SpecREDS: backups of servers on suspected hosts.

``virt`` is Nova's libvirt driver, extended; ``sentinel`` is a daemon beside it on every host.
"""
