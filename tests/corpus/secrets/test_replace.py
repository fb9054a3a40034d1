"""Secrets and personal data: each kind planted and found, nothing of them left or logged, real code left alone."""

import random
import string
import sysconfig
import time
from pathlib import Path

import pytest

from scripts.common.files import read_jsonl
from scripts.common.manifest import read_manifest
from scripts.corpus.filter import filter_archive
from scripts.corpus.formats.filter_writer import DOCUMENTS, REJECTS, funnel
from scripts.corpus.secrets.replace import replace_secrets
from scripts.experiment.settings.corpus import Filter
from tests.corpus.archives import GOOD, write_archive

LETTERS, HEX = string.ascii_letters + string.digits, "0123456789abcdef"
RNG = random.Random(5)


def token(count, characters=LETTERS):
    """Random characters: no key stands in this file, which others search for keys too."""
    return "".join(RNG.choices(characters, k=count))


BASE64 = LETTERS + "+/"
KEY = "\n".join(token(64, BASE64) for _ in range(6))
# kind → (text around the secret, the secret, its placeholder)
PLANTED = {
    "aws-access-token": ("id = '{}'", "AKIA" + token(16, string.ascii_uppercase + "234567"), "<API_KEY>"),
    "aws-access-token, the published example": ("id = '{}'", "AKIA" + "IOSFODNN7" + "EXAMPLE", "<API_KEY>"),
    "aws-secret-key": ('aws_secret_access_key = "{}"', token(40, BASE64), "<API_KEY>"),
    "github-pat": ("url = 'https://x/?t={}'", "ghp_" + token(36), "<TOKEN>"),
    "github-fine-grained-pat": ("{}", "github_pat_" + token(82), "<TOKEN>"),
    "gitlab-pat": ('"{}"', "glpat-" + token(20), "<TOKEN>"),
    "slack-bot-token": ("{}", f"xoxb-{token(12, string.digits)}-{token(12, string.digits)}-{token(24)}", "<TOKEN>"),
    "slack-webhook-url": ("{}", f"https://hooks.slack.com/services/T{token(8)}/B{token(8)}/{token(26)}", "<TOKEN>"),
    "stripe-access-token": ("stripe.api_key = '{}'", "sk_live_" + token(24), "<API_KEY>"),
    "gcp-api-key": ("key={}\n", "AIza" + token(35), "<API_KEY>"),
    "openai-api-key": ('OPENAI = "{}"', "sk-" + token(48), "<API_KEY>"),
    "anthropic-api-key": ('"{}"', f"sk-ant-api03-{token(93)}AA", "<API_KEY>"),
    "huggingface-access-token": ("login('{}')", "hf_" + token(34, string.ascii_letters), "<TOKEN>"),
    "npm-access-token": ("'{}'", "npm_" + token(36), "<TOKEN>"),
    "pypi-upload-token": ("{}", "pypi-AgEIcHlwaS5vcmc" + token(80), "<TOKEN>"),
    "sendgrid-api-token": ("'{}'", f"SG.{token(22)}.{token(43)}", "<API_KEY>"),
    "twilio-api-key": ("'{}'", "SK" + token(32, HEX), "<API_KEY>"),
    "telegram-bot-api-token": ("bot('{}')", f"{token(10, '123456789')}:AA{token(33)}", "<TOKEN>"),
    "discord-bot-token": ("run('{}')", f"M{token(25)}.{token(6)}.{token(38)}", "<TOKEN>"),
    "azure-storage-key": ("AccountName=x;AccountKey={};", token(86, BASE64) + "==", "<API_KEY>"),
    "jwt": ("token: '{}'", f"eyJ{token(30)}.eyJ{token(60)}.{token(43)}", "<TOKEN>"),
    "private-key": (
        "KEY = '''{}'''", f"-----BEGIN RSA PRIVATE KEY-----\n{KEY}\n-----END RSA PRIVATE KEY-----", "<PRIVATE_KEY>"
    ),
    "authorization-header": ("headers = {{'Authorization': 'Bearer {}'}}", token(40), "<TOKEN>"),
    "generic-api-key": ('client_secret = "{}"', token(40, HEX + "+"), "<API_KEY>"),
    "password": ('password = "{}"', "hunter2!x", "<PASSWORD>"),
    "password, of letters and digits": ("passwd = '{}'", "hunter2A9", "<PASSWORD>"),
    "password, in XML": ("<ns:password>{}</ns:password>", "hunter2A9", "<PASSWORD>"),
    "password, under a Chinese name": ('数据库密码 = "{}"', "Passw0rd!2024", "<PASSWORD>"),
    "password, of a C array": ('char password[] = "{}";', "Xw9CrZqCs", "<PASSWORD>"),
    "password, with a type": ('let db_password: &str = "{}";', "Xw9CrZqCs", "<PASSWORD>"),
    "password, of a C macro": ('#define WIFI_PASSWORD "{}"', "Xw9CrZqCs", "<PASSWORD>"),
    "password, of a PHP constant": ("define('DB_PASSWORD', '{}');", "Xw9CrZqCs", "<PASSWORD>"),
    "generic-api-key, with a type": ('const clientSecret: string = "{}"', token(40) + "912", "<API_KEY>"),
    "digitalocean-token": ("'{}'", "dop_v1_" + token(64, HEX), "<TOKEN>"),
    "shopify-token": ("'{}'", "shpat_" + token(32, HEX), "<TOKEN>"),
    "databricks-token": ("'{}'", "dapi" + token(32, HEX), "<TOKEN>"),
    "alibaba-access-key": ('id = "{}"', "LTAI5t" + token(18), "<API_KEY>"),
    "tencent-secret-id": ('id = "{}"', "AKID" + token(32), "<API_KEY>"),
    "password in a connection string": ('"Server=db;Password={};"', "s3cr3tQ", "<PASSWORD>"),
    "url-password": ("dsn = 'postgresql://root:{}@db.internal:5432/x'", "tig3rs-are-here", "<PASSWORD>"),
    "url-password, the host with a domain": ("'mysql://admin:{}@db.example.com:3306/x'", "S3cr3tP4ss", "<PASSWORD>"),
    "password, on the line after its name": ('password = (\n    "{}"\n)', "hunter2!x", "<PASSWORD>"),
    "password, on the line after, of Java": ('String password =\r\n        "{}";', "hunter2!x", "<PASSWORD>"),
    "password, without quotes, in YAML": ("db:\n  password: {}\n  port: 1", "hunter2real", "<PASSWORD>"),
    "password, without quotes, in .env": ("export DB_PASSWORD={}", "rabbit2real", "<PASSWORD>"),
    "password, without quotes, in properties": ("spring.datasource.password = {}\r", "hunter2-real", "<PASSWORD>"),
    "password, without quotes, in a comment": ("# root password: {}", "Hunter2!real", "<PASSWORD>"),
    "netrc-password": ("machine example.org login me password {}", "rabbit", "<PASSWORD>"),
    "netrc-password, on lines": ("machine example.org\n  login me\n  password {}", "badger", "<PASSWORD>"),
    "mailchimp-api-key": ('"{}"', token(32, HEX) + "-us17", "<API_KEY>"),
    "airtable-access-token": ("'{}'", f"pat{token(14)}.{token(64, HEX)}", "<TOKEN>"),
    "terraform-api-token": ('token = "{}"', f"{token(14)}.atlasv1.{token(64)}", "<TOKEN>"),
    "azure-ad-client-secret": ("'{}'", f"{token(3)}8Q~{token(34)}", "<API_KEY>"),
    "webhook-url, of Teams": ("'{}'", f"https://acme.webhook.office.com/webhookb2/{token(36)}@{token(36)}", "<TOKEN>"),
    "mailgun-api-key": ('"{}"', "key-" + token(32, HEX), "<API_KEY>"),
    "mailgun-api-key, of today": ('"{}"', f"{token(32, HEX)}-{token(8, HEX)}-{token(8, HEX)}", "<API_KEY>"),
    "generic-api-key, on the line after its name": ('client_secret = (\n  "{}")', token(40) + "912", "<API_KEY>"),
    "email": ("# written by Jan <{}>", "jan.de-vries+code@mail.nedcode.co.uk", "<EMAIL>"),
    "ip-address": ("connect('{}', 80)", "47.98.211.77", "10.192.72.51"),
    "ip-address, of a variable that ends as `ver` does": ('server = "{}"', "8.131.77.204", "10.238.96.23"),
    "ip-address, version 6": ("host = '{}'", "2604:a880:85a3::8a2e:370:7334", "2001:0db8:7eab::e594:2c1:c325"),
}  # fmt: skip


@pytest.mark.parametrize("kind", PLANTED)
def test_each_planted_kind_is_replaced_and_the_text_around_it_stays(kind):
    form, secret, placeholder = PLANTED[kind]
    before, after = form.format("\0").split("\0")
    text = f"# 前言 ß\n{before}{secret}{after}\nreturn 1  # 结束\n"
    cleaned, counts, _ = replace_secrets(text.encode())
    assert cleaned.decode() == f"# 前言 ß\n{before}{placeholder}{after}\nreturn 1  # 结束\n"
    expected_kind = kind.partition(",")[0].partition(" in ")[0]
    assert counts.total() == 1 and (set(counts) == {expected_kind} or placeholder in ("<TOKEN>", "<API_KEY>"))
    assert replace_secrets(cleaned)[:2] == (cleaned, {})


# of keys of other services, as their documentation shows them
BEGINNINGS = "shpss_ shpca_ glc_ glsa_ dp.pt. rdme_ pnu_ ntn_ sgp_ sq0csp- sq0atp- xapp-1- doo_v1_ NRAK- EZTK fio-u-"
BEGINNINGS += " pul- sk-proj- hvs."


@pytest.mark.parametrize("beginning", BEGINNINGS.split())
def test_a_key_of_a_service_is_found_by_how_it_begins(beginning):
    secret = beginning + token(32)
    for before in ('x = "', r'x = "a\n'):  # an escape is no part of the key
        cleaned = replace_secrets(f'{before}{secret}"\n'.encode()).text.decode()
        assert cleaned in (f'{before}<TOKEN>"\n', f'{before}<API_KEY>"\n')


HARMLESS = [
    "password = getpass.getpass()", 'password = "password"', 'pwd = "/usr/local/bin"', 'PASSWORD: "$DB_PASSWORD"',
    "password = '{}'.format(x)", 'api_key = os.environ["API_KEY"]', "key = 'primary_key_of_the_table'",
    'token = "<TOKEN>"', "@decorator.com", "y = x@weights.T", "git@github.com:x/y.git", "a @ b.com",
    "version = '1.2.3.4'", 'v1.20.3.4"', "127.0.0.1", "0.0.0.0", "192.168.1.10", "255.255.255.0", "8.8.8.8",
    "1.3.6.1.4.1.311", "10:20:30:40:50:60",
    'api_ver = "8.131.77.204"', 'PASSWORD = "DB_PASSWORD_1"', 'password = "user_password_1"',
    "sha256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'",
    "https://example.org/a:b@c", "commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904", "secret_name = 'my-service'",
    "password: str", "import Base64Bytes\npassword: Base64Bytes", "password = password2\npassword2 = 1",
    "    password=settings.password2", "Password: required", "password = 'x'\n'hunter2!x'",
    "login and password", "machine login password", "machine string\n login string\n password string",
    "# Return with login / password\n  login_i = 0",
    "d41d8cd9-8f00-3204-a980-0998ecf8427e", "key-value", "monkey-0123",
    '#define PASSWORD_LENGTH "16"', "define('PASSWORD', 'password')", 'password: str = "password"',
    "-----BEGIN CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----", "sk-learn-contrib is a name", "<EMAIL> <API_KEY>",
]  # fmt: skip


@pytest.mark.parametrize("text", HARMLESS)
def test_text_that_only_looks_like_a_secret_is_left(text):
    assert replace_secrets(f"{text}\n".encode())[:2] == (f"{text}\n".encode(), {})


def test_real_code_is_left_alone():
    """In 300 files of the standard library only addresses of people."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    counts = sum((replace_secrets(path.read_bytes())[1] for path in files), start=type(replace_secrets(b"")[1])())
    assert counts["email"] > 10
    assert len(files) > 150 and counts.total() - counts["email"] <= 1


def test_nothing_of_a_secret_is_in_any_output_and_the_counts_are_in_the_manifest(tmp_path, caplog, capfd):
    caplog.set_level("DEBUG")
    body = "".join(form.format(secret) + "\n" for form, secret, _ in PLANTED.values())
    body = f'"""\n{body}"""\n'.encode()
    # one document is kept, one is dropped by a later filter
    files = {"a.py": GOOD + body, "b.py": GOOD, "c.py": b"# do not edit\n" + GOOD + body}
    archive = write_archive(tmp_path, "demo", files)
    with funnel(tmp_path / "out") as result:
        filter_archive(archive, "demo", Filter(), result)
    manifest, documents = read_manifest(tmp_path / "out"), list(read_jsonl(tmp_path / "out" / DOCUMENTS))
    outputs = "".join(
        map(str, [documents, manifest, *read_jsonl(tmp_path / "out" / REJECTS), caplog.text, capfd.readouterr()])
    )
    assert [secret for _, secret, _ in PLANTED.values() if secret.split("\n")[-1][:20] in outputs] == []
    assert [document["path"] for document in documents] == ["a.py", "b.py"]
    assert manifest["secrets"]["documents"] == 1 and documents[1]["text"] == GOOD.decode()
    assert len(manifest["secrets"]["replaced"]) >= 20
    assert sum(manifest["secrets"]["replaced"].values()) == len(PLANTED)
    assert manifest["languages"]["python"]["bytes"] == sum(len(document["text"].encode()) for document in documents)
    with funnel(tmp_path / "kept") as result:
        filter_archive(archive, "demo", Filter(secrets="keep"), result)
    assert next(read_jsonl(tmp_path / "kept" / DOCUMENTS))["text"] == (GOOD + body).decode()
    assert "secrets" not in read_manifest(tmp_path / "kept")


@pytest.mark.parametrize(
    "text",
    [b"a@" * 20_000 + b"b.com", b"password='" * 5000, b"-----BEGIN PRIVATE KEY-----" * 1800, b"1.1." * 12_000,
     b"key=" + b"a" * 49_000, b"eyJ" * 16_000, b"2001:" * 10_000, "é".encode() * 25_000,
     b"curl " * 10_000, b"\0\xff" * 9],
)  # fmt: skip
def test_hostile_texts_are_searched_quickly(text):
    start = time.process_time()
    replace_secrets(text)
    assert time.process_time() - start < 20  # a guard against a pattern whose time explodes, not a speed
