# SPDX-License-Identifier: Apache-2.0
"""Failure stories, played against a simulated clock: the engine's own code, in a world of fakes.

``hub`` is time, ``cloud`` the hosts, Nova, Cinder and the guests, ``ends`` what an engine has of
them, ``store`` the database, ``engines`` the processes, and ``story`` what happens when and what
must be seen. Every interleaving follows from a seed.
"""
