"""A store of objects on this machine that speaks S3, for runs whose results lie there."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

BUCKET, PREFIX = "results-of-tests", "a/run"
OPTIONS = (
    *("--default-storage-provider", "s3"),
    *("--default-storage-prefix", f"s3://{BUCKET}/{PREFIX}"),
)


class Bucket:
    """The objects below `PREFIX`, by their path from there."""

    def __init__(self, address: str) -> None:
        import boto3

        self._store = boto3.resource("s3", endpoint_url=address, region_name="us-east-1")
        self._bucket = self._store.Bucket(BUCKET)

    def empty(self) -> None:
        with contextlib.suppress(self._store.meta.client.exceptions.NoSuchBucket):
            self._bucket.objects.all().delete()

    def restore(self, objects: dict[str, bytes], written: dict[str, tuple]) -> None:
        """Make it as it was when both were asked for, with the times then, which Snakemake compares."""
        from moto.core import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        self.empty()
        for path, content in objects.items():
            self._bucket.put_object(Key=f"{PREFIX}/{path}", Body=content)
        kept = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[BUCKET].keys
        for path, (time, _) in written.items():
            kept[f"{PREFIX}/{path}"].last_modified = time.replace(tzinfo=None)

    def objects(self, *, snakemakes: bool = True) -> dict[str, bytes]:
        """Path to bytes; without the marks that Snakemake leaves in folders, if told so."""
        listed = self._bucket.objects.filter(Prefix=f"{PREFIX}/")
        return {
            one.key.removeprefix(f"{PREFIX}/"): one.get()["Body"].read()
            for one in listed
            if snakemakes or not one.key.rpartition("/")[2].startswith(".snakemake")
        }

    def written(self) -> dict[str, tuple]:
        """When each object was written, and its entity tag."""
        listed = self._bucket.objects.filter(Prefix=f"{PREFIX}/")
        return {
            one.key.removeprefix(f"{PREFIX}/"): (one.last_modified, one.e_tag) for one in listed
        }

    def delete(self, path: str) -> None:
        """Delete an object, or all below a folder."""
        for one in self._bucket.objects.filter(Prefix=f"{PREFIX}/{path}"):
            one.delete()

    def copy_to(self, folder: Path) -> None:
        """What ``aws s3 sync`` does."""
        for path, content in self.objects().items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)


@contextlib.contextmanager
def serving() -> Iterator[Bucket]:
    """Serve an empty store; what is started meanwhile finds it by its environment."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    own = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "SNAKEMAKE_STORAGE_S3_ENDPOINT_URL": address,
    }
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    bucket = Bucket(address)
    # moto keeps objects for as long as its process lives: those of an earlier server too
    bucket.empty()
    try:
        yield bucket
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        server.stop()
