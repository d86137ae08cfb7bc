#!/bin/sh
# Nothing is made, enabled or started: there are no settings yet. After an upgrade an executor
# that runs goes on with the old program, since it may be in the middle of a command;
# systemctl restart executor takes the new one, when what runs has finished.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
exit 0
