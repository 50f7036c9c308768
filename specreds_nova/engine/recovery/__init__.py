# SPDX-License-Identifier: Apache-2.0
"""Recoveries: from the suspicion of a host until each of its servers serves, wherever it is.

``run`` is one engine's work on one recovery; ``preparing``, ``starting``, ``racing``,
``deciding``, ``evacuating``, ``adopting`` and ``ending`` are its steps, which ``flow`` puts into
their order, for TaskFlow and for tests. Every step may begin anew in whatever state it finds the
context, because the engine that had begun it may have been killed anywhere.
"""
