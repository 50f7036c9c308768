# SPDX-License-Identifier: Apache-2.0
"""Suspect hosts that seem to have failed, and decide whether to act on the suspicion.

``accrual`` judges the silence of one host, ``votes`` what other engines hear,
``evidence`` weighs it with other evidence, ``monitor`` keeps all hosts, and ``gates`` hold hosts
back. The beats come from ``specreds_nova.beats``.
"""
