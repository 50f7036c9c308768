# SPDX-License-Identifier: Apache-2.0
"""The storage half of SpecREDS: volumes that have two versions until one is observed.

``superposition`` is the protocol on RADOS and RBD, and ``cli`` is its command for operators.
``service`` uses the protocol in Cinder's volume service; ``api`` extends Cinder's API.
"""
