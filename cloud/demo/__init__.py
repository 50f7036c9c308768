# SPDX-License-Identifier: Apache-2.0
"""The main job, shown on real parts: ``./run demo``.

The accidents are in :mod:`cloud.demo.scenarios`, which the benchmark of failovers repeats.
"""
