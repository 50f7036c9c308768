# SPDX-License-Identifier: Apache-2.0
"""Superpositions in a volume service, from the request to the merge.

The protocol is in ``specreds_cinder.superposition``, and its records in Ceph are authoritative.
This package adds what Cinder needs to know, and sets.

A *set* is what is superposed together: one record, also if its volumes are in several pools. The
back end of the first volume *leads*: its service makes the record, decides, merges and renews the
fence. Other back ends with volumes of the set find the record through their own pools. They hand
out connections to their own volumes, and leave the rest to the leader.
"""
