#!/bin/sh
# Stops the services when the package goes: "remove" is dpkg's word for it, 0 is rpm's. An
# upgrade stops nothing.
set -e
if [ "$1" = remove ] || [ "$1" = 0 ]; then
	if [ -d /run/systemd/system ]; then
		systemctl disable --now executor.service 'executor@*.service' || true
	fi
fi
exit 0
