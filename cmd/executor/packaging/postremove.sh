#!/bin/sh
# The configuration in /etc/executor and the state in /var/lib/executor stay: results that are
# owed may be there.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
exit 0
