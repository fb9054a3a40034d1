"""Forms of credentials and addresses, and labelled hits in real code: how many are found, how many wrong.

`real_hits.json` holds lines of curl, redis, gin, ripgrep, serde, nlohmann/json, botocore, moto, pandas and SQLAlchemy
on which this or an earlier version replaced something other than an e-mail address, each labelled by eye: is what was
replaced a credential or somebody's address?
"""

import base64
import itertools
import json
import random
import uuid
from pathlib import Path

import pytest

from scripts.corpus.secrets.replace import SecretReplacer, replace_secrets

# what only looks like a credential
LOOK_ALIKES = [
    'password = os.environ["DB_PASSWORD"]',
    'password = os.environ.get("DB_PASSWORD", "")',
    'password = config.get("db", "password_1")',
    'secret = bytes("utf-8")',
    'mode = settings.get("password_mode", "plaintext")',
    "password: ${DB_PASSWORD}",
    "password: prefix-$NAME1",
    "password: ${{ secrets.PASSWORD1 }}",
    "  password: string;  # of the user",
    "define( 'AUTH_KEY', 'put your unique phrase here' );",
    "ENV PASSWORD ${PASSWORD1}",
    'SECRET_KEY = env("SECRET_KEY")',
    '"auth": "bm8gY29sb24="',
    "git clone https://some-long-company-name@git.example.org/a.git",
    'key = row.get("primary_key", "created_at_descending_order")',
    'PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]',
    "_auth = default_authenticator_of_2",
    "Authorization Bearer tokens-are-described-in-section-2-3-4",
    "    _password = generate_password_hash(x)",
    'client_request_token = "5f1c6b0e-7d2a-4c3b-9e8f-0a1b2c3d4e5f"',
    'OAUTH_CLIENT_ID = os.environ.get("OAUTH_CLIENT_ID", "5f1c6b0e-7d2a-4c3b-9e8f-0a1b2c3d4e5f")',
    'token_key = "accountSettingsPage2TitleText"',
    'props.put("password.policy", "com.example.Policy2")',
    'id = "test_case_getHttpResponseWithStatus200And404"',
    'name = "sha256-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"',
    'password = "user_password_1"',
    '"AWS::AppSync::ApiKey": "83c788859d3c6ab6"',
    "<password>your_password</password>",
    "<password>${DB_PASSWORD1}</password>",
    'key = tokens["secret"] or "getAuthenticationTokenFromTheRequestHeader"',
    '<assemblyIdentity publicKeyToken="31bf3856ad364e35" language="neutral"/>',
    'secret: "kubernetes/io/service/account/default"',
    "codecs.encode(password, 'rot13')",
    "openssl enc -aes-256-cbc -in secret_1 -out b",
    'secret = "getAuthenticationTokenFromTheRequestHeader"',
    'connect("localhost", "database1")',
    '"AWS::SecretsManager::Secret": "f6b785ff8e74d121"',
    'secretName: "db-credentials-v2"',
    'key = "accountSettingsPageTitleText123"',
    "x = [+1 10 20, +1 12 34]",
    "integrity: sha512-Zm9vYmFyYmF6cXV4cXV1eHF1dXhmb29iYXJiYXpxdXhxdXV4cXV1eA==",
    'sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"',
]


WORDS = "the service of all orders runs on this machine and nobody else may ever read what it says".split()  # noqa: SIM905
MADE = {  # by `openssl rand -base64 18`, `openssl rand -hex 20`, `uuidgen`, and `base64` of a text
    "random bytes": lambda draw: base64.b64encode(draw.randbytes(18)).decode(),
    "hexadecimal digits": lambda draw: draw.randbytes(20).hex(),
    "UUID": lambda draw: str(uuid.UUID(bytes=draw.randbytes(16), version=4)),
    "text with digits": lambda draw: base64.b64encode(f"the service of {draw.random()}".encode()).decode(),
    "text": lambda draw: base64.b64encode(" ".join(draw.choices(WORDS, k=6)).encode()).decode(),
}
WRITTEN = (  # in Python, YAML, .env, Terraform, Kubernetes, and others
    '{} = "{}"', '"{}": "{}",', 'db_{}: str = "{}"', 'os.environ["{}"] = "{}"', 'os.getenv("{}", "{}")',
    'os.environ.get("{}") or "{}"', 'parser.add_argument("--{}", default="{}")',
    "{}: {}", '{}: "{}"', "{}: {} # of staging", "{}={}", "docker run -e {}={} image",
    '  {} = "{}"', '  {}             = "{}"', 'variable "db_{}" {{\n  type = string\n  default = "{}"\n}}',
    '- name: {}\n  value: "{}"', '{} := "{}"', 'x: process.env.{} || "{}",', '#define {} "{}"', "<{}>{}</x>",
    '<add key="{}" value="{}" />', '{} <- "{}"', 'Dim {} As String = "{}"', '"{{\\"{}\\": \\"{}\\"}}"',
    'static {}: &\'static str = "{}";',
)  # fmt: skip


@pytest.mark.parametrize("kind", MADE)
def test_random_values_behind_a_name_that_says_so_are_found_in_every_form_of_file(kind):
    draw, lines, missed = random.Random(1), 0, []
    for name, form, _ in itertools.product(("password", "secret", "api_key", "API_TOKEN"), WRITTEN, range(20)):
        value = MADE[kind](draw)
        line = form.format(name, value)
        lines += 1
        if value in replace_secrets(f"x\n{line}\n".encode()).text.decode():
            missed.append(line)
    assert len(missed) <= 0.02 * lines, missed


@pytest.mark.parametrize("line", LOOK_ALIKES)
def test_what_only_looks_like_a_credential_stays(line):
    assert replace_secrets(line.encode()).text.decode() == line


def test_of_what_is_replaced_in_real_code_less_than_a_tenth_is_wrong_and_little_is_missed():
    rows = json.loads(Path(__file__).with_name("real_hits.json").read_text())
    wrong, right, missed = [], [], []
    for row in rows:
        replaced = row["secret"] not in replace_secrets(f"x\n{row['line']}\n".encode()).text.decode()
        if row["right"]:
            (right if replaced else missed).append(row["line"])
        elif replaced:
            wrong.append(row["line"])
    assert len(rows) > 150 and len(wrong) < 0.1 * len(wrong + right), wrong
    assert len(missed) <= 2, missed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r'say("mail\ncamila@python.org\n")', r'say("mail\nwuhor@example.com\n")'),  # the escape before it stays
        (r'"\x41\tme@gmail.com"', r'"\x41\tzbltn@x.test"'),
        ('"a@bc.de"', '"<EMAIL>"'),  # too short for another address of the same length
        ('assert 15 == len("131.102.203.104")', 'assert 15 == len("240.153.189.194")'),
        ('password = "a1b2c3d4\\"e"', 'password = "a1b2c3d4\\"e"'),  # no half of an escaped quote
    ],
)
def test_literals_keep_their_escapes_length_and_kind(text, expected):
    cleaned = replace_secrets(text.encode()).text.decode()
    assert cleaned.startswith(expected) and ("EMAIL" in cleaned or len(cleaned) == len(text))


def test_distinct_addresses_stay_distinct():
    """A test that compares two people's addresses would else compare one with itself."""
    names = [f"{first}{second}" for first in "abcdefgh" for second in "ijklmnop"]
    hosts = [f"{name}.{name}" for name in range(41, 105)]
    for texts in (
        [f"'{name}@mail.python.org'" for name in names],
        [f"'{name}@ibm.com'" for name in names],
        [f"host = '91.{host}.203'" for host in hosts],
        [f"host = '91.{host}.7'" for host in hosts],
        [f"host = '2a02:26f0:{host[:2]}00::b{host[1:2]}3'" for host in hosts[:50]],
        [f"host = '2620:0:{host[:2]}0f::b{host[1:2]}3'" for host in hosts[:50]],
    ):
        replaced = [replace_secrets(text.encode()).text for text in texts]
        assert len(set(replaced)) == len(set(texts)) and not set(replaced) & {text.encode() for text in texts}


def document(text, path="a.py", language="python"):
    return {"text": text, "path": path, "source": "s", "language": language}


def test_a_document_that_parsed_and_would_not_any_more_is_dropped():
    from scripts.corpus.heuristics.quality import Dropped

    code = "def product(table, me):\n    return table[me@gmail.com]\n"  # a product of matrices, no address
    for text in (code, f"\"\"\"Texts, of '''quotes'''.\"\"\"\n{code}"):
        with pytest.raises(Dropped, match="redaction"):
            SecretReplacer().replace(document(text), text.encode())
    kept = f'"""Written by\nme@gmail.com\n"""\n{code.replace("@", ".")}'
    replacer, record = SecretReplacer(), document(kept)
    assert replacer.replace(record, kept.encode()).decode() == record["text"] == kept.replace("me@gmail.com", "<EMAIL>")
    assert replacer.facts() == {"documents": 1, "replaced": {"email": 1}}
