#!/bin/sh
# tests/stack keeps Airflow's records in PostgreSQL. Like a browser, only a system package manager can give it.
ls tests/stack/test_*.py >/dev/null 2>&1 || exit 0
{ command -v initdb || ls /usr/lib/postgresql/*/bin/initdb; } >/dev/null 2>&1 && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "set-up: installing postgresql with apt-get, for the tests of docker/" >&2
    # Debian's package would start a server of its own at once; the tests start theirs.
    none=/etc/postgresql-common/createcluster.d/none-now.conf
    mkdir -p "${none%/*}" && echo "create_main_cluster = false" > "$none"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql; } >/dev/null
    done=$?
    rm "$none"
    [ $done = 0 ] && exit 0
fi
echo "set-up: the tests of docker/ will be skipped. They need PostgreSQL's server; Debian: apt-get install postgresql" >&2
