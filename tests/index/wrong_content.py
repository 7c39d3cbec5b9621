"""Indexes whose checksums are right over wrong content, as a folder from elsewhere may have them.

``python -m tests.index.wrong_content FOLDER`` reads lines SEED, writes such an index to FOLDER, and
does with it what users do; it prints what came of that: ``FormatError`` and the like, or ``done``.
"""

import itertools
import json
import random
import shutil
import struct
import sys
from pathlib import Path

import numpy as np
import xxhash

from mr_dedup.errors import FormatError
from mr_dedup.index.hamming_index import HammingIndex
from mr_dedup.index.integrity import verify
from mr_dedup.index.reader import IndexReader

BLOCK_BYTES = 1 << 16
NUMBERS = (-1, 0, 1, 2, 17, 31, 63, 64, 65, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 62)
NUMBERS += (1 << 63, 1 << 64, 1 << 70)
VALUES = (*NUMBERS, None, "", "x", [], {}, 1.5, True, "../x", "log-00000001", "/etc/passwd", [-1])
FINGERPRINTS = np.random.default_rng(1).integers(0, 1 << 64, 1000, dtype=np.uint64)
FINGERPRINTS[900:] = FINGERPRINTS[:100]
NAMES = [f"page {number}" for number in range(1000)]


def checksum(content, seed=0):
    return xxhash.xxh3_64_intdigest(content, seed)


def make(folder, named):
    """Make an index with segments, removals and a log."""
    ids = NAMES if named else None
    with HammingIndex.create(folder, named=named, memory_documents=300, background=False) as index:
        index.add(FINGERPRINTS[:450], ids and ids[:450])
        index.add(FINGERPRINTS[450:900], ids and ids[450:900])
        gone = NAMES if named else [str(number) for number in FINGERPRINTS.view(np.int64).tolist()]
        index.remove(gone[:30])
        index.add(FINGERPRINTS[600:], ids and ids[600:])
        index.add(FINGERPRINTS[:20], ids and ids[:20])
        index.remove(gone[15:40])


def wrong_in(rng, structure):
    """Change something in nested lists and dicts."""
    while True:
        keys = list(structure) if isinstance(structure, dict) else range(len(structure))
        if not keys:
            return
        key = rng.choice(list(keys))
        if isinstance(structure[key], (dict, list)) and structure[key] and rng.random() < 0.8:
            structure = structure[key]
            continue
        how = rng.random()
        if how < 0.2 and isinstance(structure[key], int):
            structure[key] += rng.choice([-64, -4, -1, 1, 4, 64, BLOCK_BYTES])
        elif how < 0.3:
            del structure[key]
        else:
            structure[key] = rng.choice(VALUES)
        return


def wrong_bytes(rng, raw, offsets):
    """Overwrite some words of bytes."""
    for offset in offsets:
        word = rng.choice([b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", bytes(4), rng.randbytes(4)])
        raw[offset : offset + 4] = word[: len(raw) - offset]


def wrong_segment(rng, path):
    raw = bytearray(path.read_bytes())
    _, version, size, _ = struct.unpack_from("<8sIIQ", raw)
    about = json.loads(raw[24 : 24 + size])
    end = about["checksums_bytes"]
    if rng.random() < 0.5:
        wrong_in(rng, about)
    else:
        parts = [table[part] for table in about["tables"] for part in table if "bytes" in part]
        parts += [about["starts_bytes"] or BLOCK_BYTES]
        parts += [value for key, value in (about["ids"] or {}).items() if key.endswith("_bytes")]
        near = [rng.choice(parts) + 4 * rng.randrange(1 << rng.randrange(16)) for _ in range(20)]
        wrong_bytes(rng, raw, [offset for offset in near if offset < end - 4])
    blocks = [checksum(raw[start : min(start + BLOCK_BYTES, end)])
              for start in range(BLOCK_BYTES, end, BLOCK_BYTES)]  # fmt: skip
    sums = struct.pack(f"<{len(blocks)}Q", *blocks)
    raw[end:] = sums
    if isinstance(about.get("checksums_checksum"), int) and rng.random() < 0.9:
        about["checksums_checksum"] = checksum(sums)
    described = json.dumps(about).encode()[: BLOCK_BYTES - 32]
    raw[24:BLOCK_BYTES] = described.ljust(BLOCK_BYTES - 24, b"\0")
    struct.pack_into("<8sIIQ", raw, 0, bytes(raw[:8]), version, len(described), len(raw))
    struct.pack_into("<Q", raw, BLOCK_BYTES - 8, checksum(raw[: BLOCK_BYTES - 8]))
    path.write_bytes(raw)


def wrong_manifest(rng, path):
    manifest = json.loads(path.read_bytes().split(b"\n", 1)[1])
    wrong_in(rng, manifest)
    content = json.dumps(manifest).encode()
    if rng.random() < 0.1:
        content = content[: rng.randrange(len(content))]
    head = b"mr_dedup index, version 1, checksum %016x\n" % checksum(content)
    path.write_bytes(head + content)


def wrong_dead(rng, path):
    magic, version, count, _ = struct.unpack_from("<8sIQQ", path.read_bytes())
    bits = bytearray(path.read_bytes()[28:])
    wrong_bytes(rng, bits, [rng.choice([rng.randrange(len(bits)), len(bits) - 1])])
    bits = rng.choice([bits, bits[:-1], bits + b"\xff", b"", bits * 3])
    path.write_bytes(struct.pack("<8sIQQ", magic, version, count, checksum(bits, count)) + bits)


def wrong_log(rng, path):
    raw = path.read_bytes()
    out, at = bytearray(raw[:64]), 64
    while at < len(raw):
        (size,) = struct.unpack_from("<Q", raw, at)
        content = bytearray(raw[at + 16 : at + 16 + size])
        at += 16 + size
        if rng.random() < 0.7:
            offsets = [rng.randrange(len(content)) for _ in range(rng.choice([1, 3]))]
            wrong_bytes(rng, content, [*offsets, *rng.choice([[], [0], [4], [8]])])
            content = rng.choice([content, content[: rng.randrange(8, len(content) + 1)]])
        out += struct.pack("<QQ", len(content), checksum(content, len(out) ^ len(content) << 32))
        out += content
    marks = struct.pack("<QQ", len(out), len(out))
    out[32:56] = marks + struct.pack("<Q", checksum(marks))
    path.write_bytes(out)


WRONG = {
    "MANIFEST": wrong_manifest,
    "segment": wrong_segment,
    "dead": wrong_dead,
    "log": wrong_log,
}


def damage(folder, seed):
    """Write wrong content to some file of an index; return its kind."""
    rng = random.Random(seed)
    kinds = {path.name.split("-")[0] for path in folder.iterdir()} - {"LOCK"}
    kind = rng.choice(sorted(kinds))
    path = rng.choice(sorted(folder.glob(f"{kind}*")))
    WRONG[kind](rng, path)
    manifest = folder / "MANIFEST"
    if kind == "segment":
        content = json.loads(manifest.read_bytes().split(b"\n", 1)[1])
        for segment in content["segments"]:
            segment["bytes"] = (folder / segment["file"]).stat().st_size
        raw = json.dumps(content).encode()
        manifest.write_bytes(b"mr_dedup index, version 1, checksum %016x\n" % checksum(raw) + raw)
    return kind


def read(folder, check):
    with IndexReader.open(folder, check=check) as reader:
        reader.query(FINGERPRINTS)
        reader.query(FINGERPRINTS, 0, limit=1)
        reader.stats()


def write(folder, check):
    with HammingIndex.open(folder, check=check, memory_documents=300, background=False) as index:
        ids = NAMES if index.named else None
        index.check_and_add(FINGERPRINTS[:200], ids and ids[:200])
        index.remove(NAMES[50:80] if index.named else ["5"])
        index.add(FINGERPRINTS[::-1].copy(), ids)
        index.compact()
        index.query(FINGERPRINTS)


def outcomes(folder, scratch):
    """Yield how each use of an index ends."""
    for use, check in itertools.product([verify, read, write], [True, False]):
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(folder, scratch)
        try:
            if use is verify:
                damages = list(use(scratch))
                yield type(damages[0]).__name__ if damages else "done"
            else:
                use(scratch, check)
                yield "done"
        except FormatError:
            yield "FormatError"


def main(folder):
    wholes = [folder / name for name in ("named", "unnamed")]
    for whole in wholes:
        make(whole, whole.name == "named")
    # with all compiled code loaded
    print("ready", list(outcomes(wholes[0], folder / "scratch")), flush=True)
    for line in sys.stdin:
        wrong = folder / "wrong"
        shutil.rmtree(wrong, ignore_errors=True)
        shutil.copytree(wholes[int(line) % 4 == 0], wrong)
        kind = damage(wrong, int(line))
        print(kind, *outcomes(wrong, folder / "scratch"), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
