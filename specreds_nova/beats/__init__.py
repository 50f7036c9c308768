# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of hosts: what they are, and how they get to the engines."""
