# SPDX-License-Identifier: Apache-2.0
"""Heartbeats: a host sends ``message`` to the engines, and the engines answer.

The host's end is ``heartbeat``, with the ``probes`` that it reports. The engine's end is
``listener``; ``senders`` and ``frames`` refuse beats that do not count.
"""
