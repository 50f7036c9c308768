# SPDX-License-Identifier: Apache-2.0
"""The engine: it suspects hosts, has backups of their servers started, and decides the race.

Any number of engines run side by side. What they share is a database and a board of jobs, so that
whatever one of them has begun another one brings to its end.
"""
