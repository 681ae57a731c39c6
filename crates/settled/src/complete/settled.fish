# Completion of settled for fish. `settled __complete` answers, in the protocol of cobra.

function __settled_complete
    set -l words (commandline --current-process --tokenize --cut-at-cursor)
    set -l current (commandline --current-token --cut-at-cursor)
    set -l program $words[1]
    set -e words[1]
    set -l directive 0
    set -l answers
    for line in ($program __complete $words "$current" 2>/dev/null)
        if string match --quiet --regex '^:[0-9]+$' -- $line
            set directive (string sub --start 2 -- $line)
        else
            set -a answers $line
        end
    end
    if set -q answers[1]
        string join \n -- $answers
        return
    end
    # 4: no names of files. 16: names of directories.
    set -l path (string replace --regex '^-[^=]*=' '' -- $current)
    set -l head (string sub --length (math (string length -- "$current") - (string length -- "$path")) -- "$current")
    if test (math "bitand($directive, 16)") -ne 0
        for found in (__fish_complete_directories "$path" '')
            echo "$head$found"
        end
    else if test (math "bitand($directive, 4)") -eq 0
        for found in (__fish_complete_path "$path")
            echo "$head$found"
        end
    end
end

for command in settled kubectl-settled
    complete --command $command --no-files --arguments '(__settled_complete)'
end
