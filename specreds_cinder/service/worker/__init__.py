# SPDX-License-Identifier: Apache-2.0
"""A process that runs the superposition protocol on behalf of a volume service.

Cinder's volume service may run on green threads: librados would block all of them, and the threads
of the protocol would not run in parallel. A plain process beside the service has neither problem.
"""
