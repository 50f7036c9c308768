# SPDX-License-Identifier: Apache-2.0
"""Suspicion, not certainty: which hosts seem to have failed, and whether to act on that.

``accrual`` judges the silence of one host, ``listening`` whether silence means anything at all,
``evidence`` weighs it with what else is known, ``monitor`` keeps all hosts, ``gates`` say why
nothing is to be done nevertheless, and ``listener`` hears the beats.
"""
