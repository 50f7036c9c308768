#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kolla_start sources it. The container that prepares the database has KOLLA_BOOTSTRAP, maybe empty.
if [[ -v KOLLA_BOOTSTRAP ]]; then
    specreds-engine-manage --config-file /etc/specreds/specreds-engine.conf db sync
    exit
fi
