#compdef settled kubectl-settled
# Completion of settled for zsh. `settled __complete` answers, in the protocol of cobra.

_settled() {
    local program line value directive=0
    local -a answers space
    program=${~words[1]}
    (( $+commands[$program] )) || [[ -x $program ]] || program=settled
    # Of the word at the cursor, what stands before the cursor counts.
    for line in "${(@f)$("$program" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)IPREFIX}${(Q)PREFIX}" 2>/dev/null)}"; do
        case $line in
            :[0-9]*) directive=${line#:} ;;
            '') ;;
            *)
                # A colon separates a value from its description.
                value=${${line%%$'\t'*}//:/\\:}
                [[ $line == *$'\t'* ]] && value+=":${line#*$'\t'}"
                answers+=("$value")
                ;;
        esac
    done

    # 2: no space after it. 4: no names of files. 16: names of directories.
    (( directive & 2 )) && space=(-S '')
    if (( $#answers )); then
        _describe -t values value answers $space
    elif (( directive & 16 )); then
        [[ $PREFIX == -*=* ]] && compset -P '*='
        _files -/
    elif (( ! (directive & 4) )); then
        [[ $PREFIX == *=* ]] && compset -P '*='
        _files
    fi
}

# The file is run as a function when it is loaded from $fpath.
if [[ ${funcstack[1]} == _settled ]]; then
    _settled "$@"
else
    compdef _settled settled kubectl-settled
fi
