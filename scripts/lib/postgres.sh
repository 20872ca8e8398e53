# A PostgreSQL server of its own for one run of the tests, on a free loopback port, in a temporary folder.
# Sourced, not run. Nothing in it survives a crash (fsync off): it is for tests only.

postgres_oldest=14

# postgres_find: sets `postgres_bin` to the folder that has the newest server programs; fails when there is none.
# OUTBOX_TEST_PG_BIN names another one.
postgres_find() {
    local folder found candidates=(/usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql@*/bin)
    # Debian puts wrappers into PATH, others links into the versioned folder: only the resolved folder has them all.
    if found=$(command -v pg_config); then candidates+=("$("$found" --bindir)"); fi
    if found=$(command -v initdb); then candidates+=("$(dirname "$(readlink -f "$found")")"); fi
    if [ -n "${OUTBOX_TEST_PG_BIN:-}" ]; then candidates=("$OUTBOX_TEST_PG_BIN"); fi

    local major newest=$((postgres_oldest - 1))
    postgres_bin=
    for folder in "${candidates[@]}"; do
        [ -x "$folder/initdb" ] && [ -x "$folder/pg_ctl" ] && [ -x "$folder/postgres" ] || continue
        major=$("$folder/postgres" --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/')
        [ "$major" -le "$newest" ] || { newest=$major; postgres_bin=$folder; }
    done
    [ -n "$postgres_bin" ]
}

# postgres_start: starts the server and sets `postgres_port`; stop it with postgres_stop, in a trap.
postgres_start() {
    # Not $TMPDIR: the server's user must be able to enter it.
    postgres_dir=$(mktemp -d /tmp/outbox-test.XXXXXX)
    postgres_user=
    if [ "$(id -u)" -eq 0 ]; then
        postgres_user=postgres
        id "$postgres_user" >/dev/null 2>&1 || useradd --system --no-create-home "$postgres_user" || return 1
        chown "$postgres_user" "$postgres_dir"
    fi

    postgres_as_user "$postgres_bin/initdb" --pgdata="$postgres_dir/data" --username=postgres --auth=trust \
        --encoding=UTF8 --locale=C --no-sync >"$postgres_dir/initdb.log" 2>&1 || { cat "$postgres_dir/initdb.log" >&2; return 1; }
    postgres_as_user tee "$postgres_dir/data/postgresql.auto.conf" >/dev/null <<'CONF'
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 300
max_prepared_transactions = 10
shared_buffers = 128MB
fsync = off
synchronous_commit = off
full_page_writes = off
CONF

    # Another program can take the port between our look and the server's start: then the next one.
    local try
    for try in 1 2 3 4 5; do
        postgres_port=$(postgres_free_port) || break
        postgres_as_user "$postgres_bin/pg_ctl" start --wait --timeout=60 --silent --pgdata="$postgres_dir/data" \
            --log="$postgres_dir/server.log" --options="-p $postgres_port" </dev/null && return 0
    done
    echo "PostgreSQL did not start; its log:" >&2
    cat "$postgres_dir/server.log" >&2 || true
    return 1
}

# postgres_stop: ends the server, whatever is connected, and removes its folder. Harmless when there is none.
postgres_stop() {
    [ -n "${postgres_dir:-}" ] || return 0
    if [ -f "$postgres_dir/data/postmaster.pid" ]; then
        postgres_as_user "$postgres_bin/pg_ctl" stop --wait --timeout=30 --silent --mode=immediate --pgdata="$postgres_dir/data" || return 1
    fi
    rm -rf "$postgres_dir"
    postgres_dir=
}

# Below the ports that systems hand out by themselves, so that no test's port 0 collides with it.
postgres_free_port() {
    local try port
    for try in {1..50}; do
        port=$((20000 + RANDOM % 10000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return 0; }
    done
    echo "no free port between 20000 and 29999 on 127.0.0.1" >&2
    return 1
}

# The server refuses to run as root. The temporary folder is one that every user can enter.
postgres_as_user() (
    cd "$postgres_dir" || exit 1
    if [ -z "$postgres_user" ]; then
        exec "$@"
    elif command -v setpriv >/dev/null; then
        exec setpriv --reuid="$postgres_user" --regid="$(id -g "$postgres_user")" --clear-groups "$@"
    else
        exec su -s /bin/sh "$postgres_user" -c 'exec "$0" "$@"' -- "$@"
    fi
)
