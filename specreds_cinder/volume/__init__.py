# SPDX-License-Identifier: Apache-2.0
"""Superpositions in a volume service, from the request to the merge.

The protocol is in ``specreds_cinder.superposition``, and its records in Ceph are authoritative.
This package adds what Cinder needs to know, and sets.

A *set* is what is superposed together. On one back end it is one record, and the protocol decides
it at once. On several back ends of one Ceph cluster, each has a record under the same id, and the
back end of the first volume *leads*:

* no back end decides alone: a record that is one of several can only be prepared and committed;
* all are prepared (fenced, and clean behind the fence) before the leader commits its own record,
  which is the one commit point; a prepared record stays as it is for as long as it takes;
* the leader's record outlives the decision of the other back ends, so a back end that was
  interrupted reads it: it is decided for the backup, or undecided, or gone, which means that the
  primary's version is the real one.
"""
