# SPDX-License-Identifier: Apache-2.0
"""A simulation of clouds in which everything fails: ``./run simulate``.

Engines run as they are, with simulated threads and clocks; the rest of the cloud is modelled. A
seed determines the faults and every interleaving.
"""
