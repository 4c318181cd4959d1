"""The checkpoint on the host: where it lies, how large its weights are, and on what kind of file system."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from probes.arguments import model, option
from probes.host import Host
from probes.iofiles import whole

SCRIPT = r"""
model=$1 user=$2; shift 2
case $model in
/*) folder=$model ;;
*/*)
  home=$(getent passwd "${user:-root}" | cut -d: -f6)
  name=models--$(printf %s "$model" | sed 's|/|--|g')
  for cache in "$@" "${home:-/root}/.cache/huggingface/hub"; do
    [ -d "$cache/$name/snapshots" ] || continue
    read -r revision <"$cache/$name/refs/main"
    for folder in "$cache/$name/snapshots/$revision" "$cache/$name/snapshots"/*; do [ -e "$folder/." ] && break; done
    break
  done ;;
esac 2>/dev/null
folder=$(readlink -f -- "$folder") && [ -n "$folder" ] && [ -e "$folder" ] || exit 1
printf '%s\n' "$folder"
find -L "$folder" -maxdepth 2 -type f \( -name '*.safetensors' -o -name '*.bin' -o -name '*.gguf' -o -name '*.pt' \
  -o -name '*.pth' -o -name '*.tensors' \) -exec ls -lLnd -- {} + 2>/dev/null
printf '\036\n'
cat /proc/self/mounts
"""
"""Arguments: the model as the server was given it (a path, or a name of the Hugging Face hub), the user it runs as, and
the hub's caches to look in. Prints the real folder, ``ls -l`` of its weight files, the byte 036, the mounts."""

LIMIT = 60.0
MIN_WEIGHTS = re.compile(r"(?:training_args|optimizer|scheduler|rng_state)")


class Model(Struct, frozen=True):
    """``bytes``: None where it is not known."""

    path: str = ""
    bytes: int | None = None
    mount: str = ""


async def find_model(host: Host, argv: Sequence[str], environment: Sequence[str], user: str = "") -> Model:
    """Looks on the host, one command. ``environment``: the unit's, which may move the hub's cache. Raises what the
    host raises; CommandTimeout after a minute (a network mount that does not answer)."""
    named = model(argv)
    if not named:
        return Model()
    known = dict(entry.split("=", 1) for entry in environment if "=" in entry)
    caches = [option(argv, "--download-dir"), known.get("HF_HUB_CACHE"), known.get("HUGGINGFACE_HUB_CACHE")]
    if known.get("HF_HOME"):
        caches.append(known["HF_HOME"] + "/hub")
    places = [cache for cache in caches if cache]
    done = await host.run(["sh", "-c", SCRIPT, "sh", named, user, *places], timeout=LIMIT)
    if done.status:
        return Model(path=named if named.startswith("/") else "")
    return read_model(done.stdout.decode("utf-8", "backslashreplace"))


def read_model(said: str) -> Model:
    """From what the script printed."""
    listing, _, mounts = said.partition("\x1e\n")
    folder, _, files = listing.partition("\n")
    return Model(path=folder, bytes=weight_bytes(files), mount=mount_type(folder, mounts))


def weight_bytes(listing: str) -> int | None:
    """The sum over what a server would load, from lines of ``ls -ln``: safetensors where there are any (a checkpoint
    often has the same weights as .bin or consolidated too); None where there are no weights."""
    sizes: dict[str, dict[str, int]] = {}
    for line in listing.splitlines():
        fields = line.split(None, 8)
        bytes_ = whole(fields[4]) if len(fields) == 9 else None
        if bytes_ is not None:
            name = fields[8].rpartition("/")[2]
            kind = name.rpartition(".")[2]
            if not MIN_WEIGHTS.match(name):
                sizes.setdefault(kind, {})[fields[8]] = bytes_
    for kind in ("safetensors", "bin", "pt", "pth", "gguf", "tensors"):
        files = sizes.get(kind)
        if files:
            main = {path: size for path, size in files.items() if "/consolidated" not in path} or files
            return sum(main.values())
    return None


def mount_type(path: str, mounts: str) -> str:
    """The file system that holds an absolute path, from /proc/mounts."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        at = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[1]).rstrip("/")
        if (path == at or path.startswith(at + "/")) and len(at) >= best:
            best, kind = len(at), fields[2]
    return kind
