# SPDX-License-Identifier: Apache-2.0
"""Suspect hosts that seem to have failed, and decide whether to act on the suspicion.

``accrual`` judges the silence of one host, ``listening`` whether silence means anything at all,
``evidence`` weighs it with other evidence, ``monitor`` keeps all hosts, ``gates`` hold hosts back,
and ``listener`` receives the beats.
"""
