# Finding a Python that really runs; sourced by the scripts here.

# Whether this interpreter runs, is this version, and can make environments. A shim of pyenv exists for every
# version ever installed and fails unless that version is selected, so nothing but running it tells.
is_python() {
    "$1" -c 'import ensurepip, sys, venv; sys.exit("%d.%d" % sys.version_info[:2] != sys.argv[1])' "$2" 2>/dev/null
}

# The first of the given versions that is found: its path and version, or nothing.
find_python() {
    local root version candidate
    root=$(pyenv root 2>/dev/null || echo "${PYENV_ROOT:-$HOME/.pyenv}")
    for version; do
        for candidate in "python$version" "$root/versions/$version".*/bin/python; do
            if is_python "$candidate" "$version"; then
                printf '%s %s\n' "$candidate" "$version"
                return
            fi
        done
    done
}

# The version of an interpreter, as 3.11.
python_version() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'
}
