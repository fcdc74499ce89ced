#!/bin/bash
# Sources the completion script and asks it as bash would.
. "$(dirname "$0")/lib.sh"

run 0 help --completion bash
. "$work/out" || fail "the script does not source"

# completes EXPECTED WORDS...: the last word is being typed; EXPECTED must be among the answers.
completes() {
    local expected=$1
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _lockstep
    case " ${COMPREPLY[*]-} " in
    *" $expected "*) ;;
    *) fail "'$*' completes to '${COMPREPLY[*]-}', expected $expected among them" ;;
    esac
}

completes version lockstep ver
completes train lockstep ''
completes --json lockstep version --j
completes --help lockstep doctor -
completes resnet50 lockstep models res
completes bash lockstep help --completion ''
completes bash lockstep help --completion =
completes bash lockstep help --completion = b
completes train lockstep help t
completes convert lockstep data con
completes --resize lockstep data convert --res
completes gzip lockstep data convert --packing ''
completes imagenet lockstep data make im
mkdir "$work/folder"
cd "$work" || exit 1
completes folder lockstep version --json fol

COMP_WORDS=(lockstep version --nothing) COMP_CWORD=2 COMPREPLY=()
_lockstep
[ "${#COMPREPLY[@]}" -eq 0 ] || fail "an unknown option completes to '${COMPREPLY[*]}'"
complete -p lockstep | grep -q _lockstep || fail "the function is not registered"
finish
