"""Remotes elsewhere, on loopback: a real sshd, and an S3 server."""

import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.workflow.dvc.conftest import flip


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def wait_for(port: int) -> None:
    for _ in range(500):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise TimeoutError(f"nothing answers on port {port}")


@pytest.fixture
def s3(monkeypatch):
    """An S3 server: (URL of a bucket, options of the remote, flip(object))."""
    boto3, server = pytest.importorskip("boto3"), pytest.importorskip("moto.server")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    moto = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    endpoint = "http://{}:{}".format(*moto.get_host_and_port())
    client = boto3.client("s3", endpoint_url=endpoint)
    client.create_bucket(Bucket="shelf")

    def flip_object(md5: str) -> None:
        key = f"store/files/md5/{md5[:2]}/{md5[2:]}"
        content = bytearray(client.get_object(Bucket="shelf", Key=key)["Body"].read())
        content[0] ^= 1
        client.put_object(Bucket="shelf", Key=key, Body=bytes(content))

    yield "s3://shelf/store", {"endpointurl": endpoint}, flip_object
    moto.stop()


@pytest.fixture
def ssh(tmp_path):
    """An SSH server: (URL of a folder, options of the remote, flip(object))."""
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if sshd is None:
        pytest.skip("no sshd: apt-get install openssh-server")
    key, host, port = tmp_path / "key", tmp_path / "host", free_port()
    for name in (key, host):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(name)], check=True)
    settings = {
        "ListenAddress": "127.0.0.1",
        "Port": port,
        "HostKey": host,
        "AuthorizedKeysFile": f"{key}.pub",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "PermitRootLogin": "yes",
        "Subsystem": "sftp internal-sftp",
    }
    (tmp_path / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd as root insists on it
    command = [sshd, "-D", "-e", "-f", str(tmp_path / "sshd_config")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_for(port)
    user = subprocess.run(["id", "--user", "--name"], capture_output=True, text=True, check=True).stdout.strip()
    options = {"port": str(port), "user": user, "keyfile": str(key)}
    store = tmp_path / "store"
    yield f"ssh://127.0.0.1{store}", options, lambda md5: flip(store / "files" / "md5" / md5[:2] / md5[2:])
    process.kill()
    process.wait()


@pytest.mark.parametrize("kind", ["s3", "ssh"])
def test_a_remote_elsewhere_serves_a_clone_and_a_flipped_byte_in_it_is_refused(toy, tmp_path, kind, request):
    url, options, flip_object = request.getfixturevalue(kind)
    checkout = toy.copy(tmp_path / "checkout")
    checkout.dvc("remote", "add", "--quiet", "--default", "elsewhere", url)
    for name, value in {**options, "verify": "true"}.items():
        checkout.dvc("remote", "modify", "elsewhere", name, value)
    checkout.publish()
    checkout.commit()
    assert checkout.clone(tmp_path / "colleague").planned() == set()

    model = re.search(r"second/model.safetensors\n  md5: (\w+)", (checkout / "data/results.dvc").read_text())[1]
    flip_object(model)
    late = checkout.clone(tmp_path / "late", pull=False)
    assert "results/training/second/model.safetensors" in late.dvc("pull", fails=True)
    assert not (late / "results/training/second/model.safetensors").exists()
    assert late.planned() == {"train second", "gate"}
