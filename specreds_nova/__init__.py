# SPDX-License-Identifier: Apache-2.0
"""The compute half of SpecREDS: backups of servers on suspected hosts.

``host`` is Nova's libvirt driver, extended; ``sentinel`` is a daemon beside it on every host.
``engine`` recovers their servers. ``beats`` has both ends of the heartbeats between them.
"""
