# Runs named steps one after another, times each, and prints the table at the end. Sourced, not run.

steps_table=()
steps_failed=0

# step NAME COMMAND [ARGUMENT..]: runs the command; a failure is remembered and told, not fatal here.
step() {
    local name=$1 result=ok started=$SECONDS seconds
    shift
    printf '\n==> %s\n' "$name"
    "$@" || { result=FAILED; steps_failed=$((steps_failed + 1)); }
    seconds=$((SECONDS - started))
    steps_table+=("$(printf '%5s s  %-6s  %s' "$seconds" "$result" "$name")")
    printf '<== %s: %s, %s s\n' "$name" "$result" "$seconds"
    [ "$result" = ok ]
}

# Prints the table; fails when a step failed.
steps_end() {
    echo
    printf '%s\n' "${steps_table[@]}"
    [ "$steps_failed" -eq 0 ]
}
