"""Download the four benchmarks from their official addresses: resume, check, unpack, then move into place."""

import hashlib
import http.client
import shutil
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

from scob.errors import UserError, first_line
from scob.files import whole_number

DownloadProgress = Callable[[str, int, int], None]  # what is done, bytes so far, bytes in total (0: unknown)
TRIES = 5
MOST_GROWTH = 200  # unpacked bytes per packed byte: images hardly shrink, text shrinks ten or twenty times
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Archive:
    """One file to download, with its MD5 checksum."""

    address: str
    md5: str

    @property
    def name(self) -> str:
        return PurePosixPath(self.address).name


@dataclass(frozen=True)
class Benchmark:
    """Archives that unpack into one tree; the part `inside` of it becomes the folder `name`."""

    archives: tuple[Archive, ...]
    name: str
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


def download(
    name: str, folder: Path, progress: DownloadProgress | None = None, keep: bool = False, wait: float = 1.0
) -> Path:
    """Download and unpack a benchmark into a folder below `folder`, and return that; do nothing if it exists.

    `keep` keeps the archives; `wait` is how many seconds to wait before the second try.
    """
    if name not in BENCHMARKS:
        raise UserError(f"there is no benchmark {name!r}; the benchmarks are {', '.join(BENCHMARKS)}")
    benchmark = BENCHMARKS[name]
    target = folder / benchmark.name
    if target.exists():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = [fetch(archive, folder, progress, wait) for archive in benchmark.archives]
        staging = folder / f".{benchmark.name}.part"
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        for path in files:
            unpack(path, staging, progress)
        unpacked = staging / benchmark.inside
        if not unpacked.is_dir():
            raise UserError(f"{files[0]} does not contain {benchmark.inside}")
        unpacked.rename(target)
        shutil.rmtree(staging, ignore_errors=True)
        for path in files:
            if not keep:
                path.unlink()
    except OSError as error:
        raise UserError(f"cannot write below {folder}: {error.strerror or error}") from error
    return target


def fetch(archive: Archive, folder: Path, progress: DownloadProgress | None = None, wait: float = 1.0) -> Path:
    """Download an archive into `folder` and check it; an earlier download that was cut off is continued."""
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
    checksum = _md5(path, progress)
    if checksum != archive.md5:
        path.unlink()
        raise UserError(
            f"{path} has the checksum {checksum}, but it should be {archive.md5}: the file was damaged or changed "
            "and has been removed; run the same command again"
        )
    return path


def unpack(path: Path, into: Path, progress: DownloadProgress | None = None) -> None:
    """Unpack a tar or zip file; refuse links, and members that would be written outside `into`."""
    try:
        if zipfile.is_zipfile(path):
            _unpack_zip(path, into, progress)
        else:
            with tarfile.open(path) as archive:
                size, grown = path.stat().st_size, 0
                for number, member in enumerate(archive):
                    grown += member.size
                    _check_growth(grown, size)
                    if not (member.isreg() or member.isdir()):
                        raise ValueError(
                            f"{member.name!r} is a link or a device, and only files and folders are unpacked"
                        )
                    _check_name(member.name)
                    archive.extract(member, into, filter="data")
                    if progress is not None and number % 100 == 0:
                        progress(f"unpack {path.name}", min(member.offset, size), size)
    except Exception as error:  # a damaged archive can make Python's readers raise anything
        raise UserError(f"{path} cannot be unpacked: {first_line(error)}") from error


def _check_name(name: str) -> None:
    """Refuse a member that would be written outside the folder, whatever Python's own filter lets through."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or PureWindowsPath(name).drive or "\0" in name:
        raise ValueError(f"{name!r} would be written outside the folder")


def _check_growth(unpacked: int, packed: int) -> None:
    """Refuse an archive that would fill the disk."""
    if unpacked > MOST_GROWTH * packed + _BLOCK:
        raise ValueError(f"it unpacks to more than {MOST_GROWTH} times its own size")


def _unpack_zip(path: Path, into: Path, progress: DownloadProgress | None) -> None:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        size, done = sum(member.file_size for member in members), 0
        _check_growth(size, path.stat().st_size)
        for number, member in enumerate(members):
            if (member.external_attr >> 16) & 0o170000 not in (0, 0o100000, 0o040000):
                raise ValueError(f"{member.filename!r} is a link or a device, and only files and folders are unpacked")
            _check_name(member.filename)
            archive.extract(member, into)
            done += member.file_size
            if progress is not None and number % 100 == 0:
                progress(f"unpack {path.name}", done, size)


def _receive(archive: Archive, part: Path, progress: DownloadProgress | None) -> bool:
    """Download what is missing of `part`; False if the connection ended early."""
    size = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(archive.address, headers={"User-Agent": "scob"})
    if size:
        request.add_header("Range", f"bytes={size}-")
    try:
        response = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        if error.code == 416 and size:  # nothing is missing, or this is part of another file: the checksum will show
            return True
        raise
    with response:
        resumed = response.status == 206
        size = size if resumed else 0
        length = whole_number(response.headers.get("Content-Length", ""), digits=18)
        total = size + length if length is not None else 0
        with part.open("ab" if resumed else "wb") as file:
            while block := response.read(_BLOCK):
                file.write(block)
                size += len(block)
                if progress is not None:
                    progress(archive.name, size, total)
    return not total or size >= total


def _md5(path: Path, progress: DownloadProgress | None) -> str:
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
        f"cannot download {archive.address} ({reason}); what has arrived is kept: run the same command again, or "
        f"download the file elsewhere, place it at {folder / archive.name}, and run the same command"
    )
