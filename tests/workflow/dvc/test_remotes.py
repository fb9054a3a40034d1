"""Pulling from remotes over the network, on loopback: a real sshd, and an S3 server."""

import re

import pytest


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


@pytest.mark.parametrize("kind", [pytest.param("s3", marks=pytest.mark.soak), "ssh"])
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
