#!/bin/sh
# Fresh secrets in docker/.env, readable by you alone; one that is there is left as it is.
set -eu
cd "$(dirname "$0")"
[ -e .env ] && exit 0
umask 077
bytes() { head -c 32 /dev/urandom; }
secrets=$(sed -n 's/^\([A-Z_]*\)=$/\1/p' env.example | while read -r name; do
    case $name in
        FERNET_KEY) echo "$name=$(bytes | base64 | tr '+/' '-_')" ;;
        *) echo "$name=$(bytes | od -An -tx1 | tr -d ' \n')" ;;
    esac
done)
echo "$secrets" > .env
