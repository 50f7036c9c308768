# SPDX-License-Identifier: Apache-2.0
"""Stories of failures, played on a simulated clock with the engine's own code and a fake cloud.

``hub`` is the clock and the scheduler, ``cloud`` the hosts, Nova, Cinder and the guests, ``ends``
an engine's clients of them, ``store`` the database, ``engines`` the processes, and ``story`` the
events of a story and the checks of its end. A seed determines every interleaving.
"""
