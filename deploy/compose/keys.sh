#!/bin/sh
# Gives Prometheus a key of its own for a year, by which it reads metrics and nothing else, as the first
# owner; once the gateways are up, and again before the year is over.
set -eu
cd "$(dirname "$0")"
key=$(docker compose exec -T --env ROTULUS_KEY_FILE=/var/lib/rotulus/data/owner.key gateway-1 \
	rotulus keys create service:prometheus --role scraper --days 365 --reason "reads metrics" |
	tail -n 1)
test -n "$key"
# Prometheus reads the file whenever it asks.
printf '%s' "$key" >secrets/prometheus_key
