# Completion of settled for bash. `settled __complete` answers, in the protocol of cobra.

_settled_complete() {
    local words=() word glue='' i program line value directive=0 breaks='' head=''
    # Bash also splits words at `=` and `:`, unless COMP_WORDBREAKS leaves them out.
    [[ $COMP_WORDBREAKS == *=* ]] && breaks+='='
    [[ $COMP_WORDBREAKS == *:* ]] && breaks+=':'
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ -n $breaks && ${#words[@]} -gt 0 && ( -n $glue || $word == [$breaks]* ) ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        glue=''
        [[ -n $breaks && $word == *[$breaks] && ${word//[$breaks]/} == '' && -n $word ]] && glue=1
    done
    word=${words[${#words[@]} - 1]}
    [[ -n $breaks ]] && head=${word%"${word##*[$breaks]}"}

    program=${COMP_WORDS[0]/#\~/$HOME}
    type -P -- "$program" >/dev/null || program=settled
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :[0-9]*) directive=${line#:} ;;
            *)
                value=${line%%$'\t'*}
                COMPREPLY+=("${value#"$head"}")
                ;;
        esac
    done < <("$program" __complete "${words[@]}" 2>/dev/null)

    # 2: no space after it. 4: no names of files. 16: names of directories.
    # Bash 3 cannot change options here.
    if ((directive & 2)); then compopt -o nospace 2>/dev/null; fi
    if ((directive & 4)); then compopt +o default 2>/dev/null; fi
    if ((directive & 16)); then compopt +o default -o dirnames 2>/dev/null; fi
    return 0
}

complete -o default -F _settled_complete settled kubectl-settled
