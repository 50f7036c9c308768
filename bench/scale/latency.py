# SPDX-License-Identifier: Apache-2.0
"""Shortest and longest durations of simulated calls, in seconds, as in a cloud without load."""

LIST = (0.15, 0.3)
NOVA = (0.03, 0.08)
SUPER = (0.08, 0.25)
START = (1.5, 3.0)
RPC = (0.005, 0.02)
