#!/bin/sh
# Help pages against tests/golden, the compatibility page against docs, and manual pages through
# groff. The expected files change only by `make golden`, which calls this with --update; read the
# diff.
. "$(dirname "$0")/lib.sh"
golden=$here/../golden/help
commands=$("$LOCKSTEP" help | sed -n '/^Commands:/,/^$/s/^  \([a-z0-9]*\) .*/\1/p')
[ -n "$commands" ] || fail "no commands in the overview"

# parts_of COMMAND: the commands below one that is a group.
parts_of() {
    "$LOCKSTEP" help "$1" | sed -n '/^Commands:/,/^$/s/^  \([a-z0-9]*\) .*/\1/p'
}
# One line per page: "train", "data", "data convert".
pages=$(for command in $commands; do
    echo "$command"
    for part in $(parts_of "$command"); do echo "$command $part"; done
done)

# compare FILE WORDS...
compare() {
    file=$1
    shift
    "$LOCKSTEP" "$@" >"$work/page" 2>&1 || fail "lockstep $*: exit status $?"
    if [ "${update:-}" = yes ]; then
        cp "$work/page" "$file"
    else
        diff -u "$file" "$work/page" ||
            fail "$file differs; if the change is meant, run make golden and read the diff"
    fi
}

update=
if [ "${1:-}" = --update ]; then
    update=yes
    mkdir -p "$golden"
    rm -f "$golden"/*.txt
fi
compare "$golden/overview.txt" help
echo "$pages" >"$work/pages"
while read -r words; do
    compare "$golden/$(echo "$words" | tr ' ' -).txt" help $words
    "$LOCKSTEP" $words --help | cmp -s - "$work/page" ||
        fail "lockstep $words --help is not lockstep help $words"
done <"$work/pages"
for file in "$golden"/*.txt; do
    name=$(basename "$file" .txt)
    case " overview $(tr ' ' - <"$work/pages" | tr '\n' ' ') " in
    *" $name "*) ;;
    *) fail "tests/golden/help/$name.txt has no command" ;;
    esac
done

if command -v groff >/dev/null; then
    echo >>"$work/pages" # the page of the program itself
    while read -r command; do
        run 0 help --man $command
        groff -man -ww -Tutf8 -rLL=100n "$work/out" >"$work/formatted" 2>"$work/warnings" ||
            fail "groff fails on the manual page '$command'"
        [ ! -s "$work/warnings" ] || fail "groff on '$command': $(head -3 "$work/warnings")"
        grep -q lockstep "$work/formatted" || fail "the manual page '$command' is empty"
    done <"$work/pages"
fi
compare "$here/../../docs/compatibility.md" help --compatibility
finish
