# Makes sure that the programs the tests need are there. Sourced, not run.

# needs_install WHAT..: of rust, cc, postgres, pgbouncer, npm. Installs what is missing when it may (root, apt-get);
# else says what is missing and what to run, and fails.
needs_install() {
    needs_look "$@"
    [ "${#needs_missing[@]}" -gt 0 ] || return 0

    if [ "${#needs_packages[@]}" -gt 0 ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        echo "installing ${needs_packages[*]}"
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq || echo 'apt-get update failed; going on with the lists that are there' >&2
        apt-get install -y -qq --no-install-recommends "${needs_packages[@]}" || return 1
        needs_look "$@"
        [ "${#needs_missing[@]}" -gt 0 ] || return 0
    fi

    echo 'missing:' >&2
    printf '  %s\n' "${needs_missing[@]}" >&2
    if [ "${#needs_packages[@]}" -gt 0 ]; then
        echo "on Debian or Ubuntu: sudo apt-get update && sudo apt-get install ${needs_packages[*]}" >&2
    fi
    return 1
}

# Sets `needs_missing` (for people) and `needs_packages` (for apt-get).
needs_look() {
    local what
    needs_missing=() needs_packages=()
    for what; do
        case $what in
        rust)
            command -v cargo >/dev/null ||
                needs_missing+=('Rust: install it with rustup, so that cargo is in PATH')
            ;;
        cc)
            command -v cc >/dev/null || {
                needs_missing+=('a C compiler: cc in PATH (SQLite is compiled from source)')
                needs_packages+=(gcc libc6-dev)
            }
            ;;
        postgres)
            if postgres_find; then
                :
            elif [ -n "${OUTBOX_TEST_PG_BIN:-}" ]; then
                needs_missing+=("PostgreSQL $postgres_oldest or newer in $OUTBOX_TEST_PG_BIN, the value of OUTBOX_TEST_PG_BIN")
            else
                needs_missing+=("PostgreSQL $postgres_oldest or newer: initdb, pg_ctl and postgres")
                needs_packages+=(postgresql)
            fi
            ;;
        pgbouncer)
            command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ] || {
                needs_missing+=('PgBouncer: some tests run through a pooler')
                needs_packages+=(pgbouncer)
            }
            ;;
        npm)
            { command -v npm && command -v node; } >/dev/null || {
                needs_missing+=('npm and node: for the real payloads and schemas (scripts/test quick does without)')
                needs_packages+=(npm)
            }
            ;;
        python)
            python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
                needs_missing+=('Python 3.11 or newer with venv: for a receiver in Python (scripts/test quick does without)')
                needs_packages+=(python3 python3-venv)
            }
            ;;
        esac
    done
}
