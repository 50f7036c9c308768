# SPDX-License-Identifier: Apache-2.0
"""A process that runs the superposition protocol on behalf of a volume service.

Cinder's volume service may run on green threads, in which librados would stop everything else and
the protocol's own threads would take turns; a plain process beside it is right in every case.
"""
