#!/bin/sh
# Makes the secrets of compose.yaml in secrets/, each a file; what is there stays as it is.
set -eu
cd "$(dirname "$0")"
mkdir -p secrets
# Others on this machine cannot enter; in a container its user can read the file that is mounted.
chmod 700 secrets

secret() { # NAME, and its content on standard input
	test -e "secrets/$1" || cat >"secrets/$1"
	chmod 644 "secrets/$1"
}
random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

random | secret postgres_password
random | secret valkey_password
random | secret grafana_password
random | secret ROTULUS_WORKER_TOKEN
printf 'postgresql://rotulus:%s@postgres/rotulus' "$(cat secrets/postgres_password)" |
	secret ROTULUS_DATABASE_URL
printf 'redis://rotulus:%s@valkey:6379' "$(cat secrets/valkey_password)" |
	secret ROTULUS_REDIS_URL
# The one user of Valkey has the rights of ../redis.acl and no others; nobody else may do anything.
{
	echo 'user default off'
	sed "s/replace-this-password/$(cat secrets/valkey_password)/" ../redis.acl
} | secret valkey_acl
# The key of Prometheus comes from a gateway, once there is one: ./keys.sh.
secret prometheus_key </dev/null
ls secrets
