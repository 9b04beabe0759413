"""Fetch the four benchmarks from their official addresses: resumed, checked, unpacked, then put in place."""

import hashlib
import http.client
import re
import shutil
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from scob.errors import UserError

Progress = Callable[[str, int, int], None]  # what, bytes done, bytes in all (0: not known)
TRIES = 5
MOST_GROWTH = 200
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Archive:
    """One file to fetch, with the MD5 its publisher's readers agree on."""

    address: str
    md5: str

    @property
    def name(self) -> str:
        return PurePosixPath(self.address).name


@dataclass(frozen=True)
class Benchmark:
    """Archives that unpack into one tree; `inside` is the part of it that becomes the folder `place`."""

    archives: tuple[Archive, ...]
    place: str
    inside: str = "."


_VOC = "http://host.robots.ox.ac.uk/pascal/VOC"
_COCO = "http://images.cocodataset.org"
BENCHMARKS = {
    "voc2007": Benchmark(
        (
            Archive(f"{_VOC}/voc2007/VOCtrainval_06-Nov-2007.tar", "c52e279531787c972589f7e41ab4ae64"),
            Archive(f"{_VOC}/voc2007/VOCtest_06-Nov-2007.tar", "b6e924de25625d8de591ea690078ad9f"),
        ),
        "VOC2007",
        "VOCdevkit/VOC2007",
    ),
    "voc2012": Benchmark(
        (Archive(f"{_VOC}/voc2012/VOCtrainval_11-May-2012.tar", "6cd6e144f989b92b3379bac3b3de84fd"),),
        "VOC2012",
        "VOCdevkit/VOC2012",
    ),
    "coco2014": Benchmark(
        (
            Archive(f"{_COCO}/annotations/annotations_trainval2014.zip", "0a379cfc70b0e71301e0f377548639bd"),
            Archive(f"{_COCO}/zips/val2014.zip", "a3d79f5ed8d289b7a7554ce06a5782b3"),
            Archive(f"{_COCO}/zips/train2014.zip", "0da8c0bd3d6becc4dcb32757491aca88"),
        ),
        "COCO2014",
    ),
    "cub": Benchmark(
        (
            Archive(
                "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
                "97eceeb196236b17998738112f37df78",
            ),
        ),
        "CUB",
    ),
}


def download(name: str, folder: Path, progress: Progress | None = None, keep: bool = False, wait: float = 1.0) -> Path:
    """Fetch and unpack a benchmark below `folder`; returns its place, at once if it is there already."""
    if name not in BENCHMARKS:
        raise UserError(f"there is no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
    benchmark = BENCHMARKS[name]
    place = folder / benchmark.place
    if place.exists():
        return place
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = [fetch(archive, folder, progress, wait) for archive in benchmark.archives]
        staging = folder / f".{benchmark.place}.part"
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        for path in files:
            unpack(path, staging, progress)
        whole = staging / benchmark.inside
        if not whole.is_dir():
            raise UserError(f"{files[0]} does not hold {benchmark.inside}")
        whole.rename(place)
        shutil.rmtree(staging, ignore_errors=True)
        for path in files:
            if not keep:
                path.unlink()
    except OSError as error:
        raise UserError(f"cannot write below {folder}: {error.strerror or error}") from error
    return place


def fetch(archive: Archive, folder: Path, progress: Progress | None = None, wait: float = 1.0) -> Path:
    """The archive in `folder`, whole and checked. A part left by an earlier try is continued."""
    path = folder / archive.name
    part = folder / f"{archive.name}.part"
    if not path.exists():
        for attempt in range(1, TRIES + 1):
            before = part.stat().st_size if part.exists() else 0
            try:
                if _receive(archive, part, progress):
                    break
                reason = "the connection was dropped"
            except urllib.error.HTTPError as error:
                raise UserError(_offline(archive, folder, f"the server says {error.code} {error.reason}")) from error
            except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
                reason = str(getattr(error, "reason", error))
            after = part.stat().st_size if part.exists() else 0
            if attempt == TRIES or (after == before == 0):
                raise UserError(_offline(archive, folder, reason))
            time.sleep(wait * attempt)
        part.rename(path)
    found = _md5(path, progress)
    if found != archive.md5:
        path.unlink()
        raise UserError(
            f"{path} has the checksum {found}, but {archive.md5} is right: it was damaged or changed on "
            "the way and has been removed; run the same command again"
        )
    return path


def unpack(path: Path, into: Path, progress: Progress | None = None) -> None:
    """Unpack a tar or zip; a member that would leave `into` is refused."""
    try:
        if zipfile.is_zipfile(path):
            _unpack_zip(path, into, progress)
        else:
            with tarfile.open(path) as archive:
                size, grown = path.stat().st_size, 0
                for number, member in enumerate(archive):
                    grown += member.size
                    _check_growth(grown, size)
                    archive.extract(member, into, filter="data")
                    if progress is not None and number % 100 == 0:
                        progress(f"unpack {path.name}", min(member.offset, size), size)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, ValueError) as error:
        raise UserError(f"{path} cannot be unpacked: {error}") from error


def _check_growth(unpacked: int, packed: int) -> None:
    """A ValueError for an archive that is all air: pictures hardly shrink, text shrinks by ten or twenty."""
    if unpacked > MOST_GROWTH * packed + _BLOCK:
        raise ValueError(f"it unpacks to more than {MOST_GROWTH} times its own size")


def _unpack_zip(path: Path, into: Path, progress: Progress | None) -> None:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        size, done = sum(member.file_size for member in members), 0
        _check_growth(size, path.stat().st_size)
        for number, member in enumerate(members):
            name = PurePosixPath(member.filename)
            linked = (member.external_attr >> 16) & 0o170000 == 0o120000
            if name.is_absolute() or ".." in name.parts or "\\" in member.filename or linked:
                raise ValueError(f"{member.filename!r} would leave the folder")
            archive.extract(member, into)
            done += member.file_size
            if progress is not None and number % 100 == 0:
                progress(f"unpack {path.name}", done, size)


def _receive(archive: Archive, part: Path, progress: Progress | None) -> bool:
    """Fetch what is missing of `part`; False when the server stopped before the end."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(archive.address, headers={"User-Agent": "scob"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing is missing, or the part is of another file: the checksum will tell
            return True
        raise
    with response:
        resumed = response.status == 206
        have = have if resumed else 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length and re.fullmatch("[0-9]{1,18}", length) else 0
        with part.open("ab" if resumed else "wb") as file:
            while block := response.read(_BLOCK):
                file.write(block)
                have += len(block)
                if progress is not None:
                    progress(archive.name, have, total)
    return not total or have >= total


def _md5(path: Path, progress: Progress | None) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    size, done = path.stat().st_size, 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            done += len(block)
            if progress is not None:
                progress(f"check {path.name}", done, size)
    return digest.hexdigest()


def _offline(archive: Archive, folder: Path, reason: str) -> str:
    return (
        f"cannot fetch {archive.address} ({reason}); what has arrived is kept: run the same command again, or "
        f"fetch the file elsewhere, place it at {folder / archive.name}, and run the same command"
    )
