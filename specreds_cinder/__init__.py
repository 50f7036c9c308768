# SPDX-License-Identifier: Apache-2.0
"""The storage half of SpecREDS: volumes that have two versions until one is observed.

``superposition`` is the protocol on RADOS and RBD; ``cli`` is its command for operators.
"""
