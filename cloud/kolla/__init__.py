# SPDX-License-Identifier: Apache-2.0
"""Check ``deploy/kolla`` against kolla's and kolla-ansible's own templates."""
