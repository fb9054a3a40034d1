"""The rules by which secrets and personal data are found: those of detect-secrets, and rules of our own.

detect-secrets is installed as a library. Its patterns run on RE2, whose time is linear in the text; lookaround, which
RE2 lacks, is rewritten. Our own rules find e-mail addresses, IP addresses, passwords, whole private keys, and keys of
services that detect-secrets does not know.
"""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import re2
from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.plugins.base import RegexBasedDetector

DISCORD = r"\.[\w-]{6}\.[\w-]{27}"
# For each detector of detect-secrets the keywords of which at least one occurs in every match. Left out are detectors
# that find only a header (private keys), any URL with a password, any address or any literal of 44 or 48 characters
# (IBM), and one whose match includes the name before the key (Azure). Short ones are faster: their automaton
# has fewer states.
KEYWORDS = {
    "Artifactory Credentials": ["akc", r"ap[\da-f][a-z0-9]{8}"],
    "AWS Access Key": ["a3t", "abia", "acca", "akia", "asia", "aws"],
    "Cloudant Credentials": [r"cl(?:ou(?:dant)?)?[_-]?(?:api)?[_-]?(?:key|pw|pass|token)", r"cloudant\.com"],
    "Discord Bot Token": [DISCORD],
    "GitHub Token": ["gh[opsur]_"],
    "GitLab Token": ["gl[a-z]{2,5}-", "gr1348941"],
    "JSON Web Token": ["eyj"],
    "Mailchimp Access Key": [r"[0-9a-z]{4}-us\d"],
    "NPM tokens": [":_authtoken="],
    "OpenAI Token": ["t3blbkfj"],
    "PyPI Token": ["pypi-age"],
    "SendGrid API Key": [r"sg\.[\w-]{22}\."],
    "Slack Token": ["xox[abprs]-", r"hooks\.slack\.com"],
    "SoftLayer Credentials": ["(?:softlayer|sl)[_-]?(?:api)?[_-]?(?:key|pw|pass|token)", r"api.softlayer\.com"],
    "Square OAuth Secret": ["sq0csp-"],
    "Stripe Access Key": ["[rs]k_live_"],
    "Telegram Bot Token": [r"\d{8}:[\w-]{35}"],
    "Twilio API Key": ["(?:ac|sk)[a-z0-9]{32}"],
}
# detectors whose first group is the secret; for the others it is the whole match
ONE_GROUP = {"AWS Access Key", "Cloudant Credentials", "NPM tokens", "SoftLayer Credentials"}
ENTROPY = 3.0  # the least of a match (bits per byte); names, and digests of zeros only, have less
# Top-level domains of addresses: without a list, `x@weights.T` in Python would be an address.
DOMAINS = (
    "com|org|net|edu|gov|mil|int|info|biz|io|dev|ai|app|co|me|tv|cc|xyz|tech|cloud|online|site|name|pro|email"
    "|ac|ae|ar|at|au|be|bg|br|ca|ch|cl|cn|cz|de|dk|ee|es|eu|fi|fr|gr|hk|hr|hu|ie|il|in|ir|is|it|jp|kr|lt|lu|lv|mx|my|nl"
    "|no|nz|ph|pk|pl|pt|ro|ru|sa|se|sg|si|sk|su|th|tr|tw|ua|uk|us|vn|za"
)
KEPT_ADDRESSES = {"1.1.1.1", "1.0.0.1", "8.8.8.8", "8.8.4.4", "9.9.9.9"}  # public DNS servers
RESERVED = [ipaddress.ip_network(network) for network in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
# `ver` and `oid` as words alone: `server = "8.131.77.204"` is an address
VERSION = re.compile(rb"(?:version|release|identifier|(?<![a-z])(?:ver|oid)|[\s\"'(]v)\W{0,4}$", re.IGNORECASE)
WEAK = re.compile(
    rb"(?i)^(?:[a-z_]+|[\d.]+|x+|\*+)$|^(?:https?|file):|[/\\]|^\W+$|\.\w+\(|^%|^\$|^\{"
    rb"|(?-i:^[A-Z0-9_]+$|^[a-z]+(?:_[a-z0-9]+)+$)"  # names of constants and variables: DB_PASSWORD_1, user_password_1
)
IN_URL = re.compile(rb"://[^/\s:@]{0,64}:$")  # what stands before a password in a URL


def re2_options(**chosen: object) -> re2.Options:
    result = re2.Options()
    result.log_errors, result.max_mem = False, 1 << 28
    for name, value in chosen.items():
        setattr(result, name, value)
    return result


@dataclass
class Rule:
    """How one kind of secret is found.

    Attributes:
        kind: its name in the counts.
        placeholder: the text that replaces it.
        pattern: in RE2's syntax.
        keywords: patterns; a text without any of them has no match.
        entropy: the least entropy of the secret (bits per byte).
        group: the group of `pattern` that is the secret; None for the first one that matches.
        check: whether the match at [start, end) of a text really is a secret; None for all matches.
    """

    kind: str
    placeholder: str
    pattern: str
    keywords: list[str]
    entropy: float = 0.0
    group: int | None = None
    check: Callable[[bytes, int, int], bool] | None = None

    @cached_property
    def compiled(self):
        return re2.compile(self.pattern.encode(), re2_options())


def without_lookaround(pattern: str) -> str:
    """A pattern of detect-secrets in RE2's syntax, which has no lookaround."""
    for old, new in (
        (r"(?:(?<=\W)|(?<=^))", r"(?:\W|^)"),  # the secret is a group behind it
        (r"(?!\w)", r"\b"),
        ("{50,1024}", "{50,1000}"),
    ):
        pattern = pattern.replace(old, new)
    return pattern


def detect_secrets_rules() -> list[Rule]:
    """The rules of detect-secrets that are named in KEYWORDS."""
    rules = []
    for name, detector in sorted(get_mapping_from_secret_type_to_class().items()):
        if name not in KEYWORDS or not issubclass(detector, RegexBasedDetector):
            continue
        kind = name.lower().replace(" ", "-")
        placeholder = "<TOKEN>" if "token" in kind or "oauth" in kind else "<API_KEY>"
        for regex in detector().denylist:
            pattern = ("(?i)" if regex.flags & re.IGNORECASE else "") + without_lookaround(regex.pattern)
            group = 1 if name in ONE_GROUP and regex.groups else 0
            rules.append(Rule(kind, placeholder, pattern, KEYWORDS[name], ENTROPY, group))
    return rules


def is_address(text: bytes, start: int, end: int) -> bool:
    """Whether this is a public IPv4 or IPv6 address, and not a version number or a netmask."""
    try:
        address = ipaddress.ip_address(text[start:end].decode())
    except ValueError:
        return False
    if address.version == 4:
        parts = text[start:end].split(b".")
        small = parts[0] == b"0" or all(len(part) == 1 for part in parts) or parts[1:] == [b"0", b"0", b"0"]
        if small or address.is_multicast or int(parts[0]) >= 240 or VERSION.search(text[max(0, start - 24) : start]):
            return False
    private = address.is_loopback or address.is_link_local or address.is_unspecified
    return (
        not private
        and str(address) not in KEPT_ADDRESSES
        and not any(address in network for network in RESERVED if network.version == address.version)
    )


def is_email(text: bytes, start: int, end: int) -> bool:
    """Whether this is an e-mail address: not a user of git, and not a password with the host behind it in a URL."""
    return text[start : start + 4] != b"git@" and not IN_URL.search(text[max(0, start - 70) : start])


def is_password(text: bytes, start: int, end: int) -> bool:
    """Whether a literal looks like a password: letters and digits or symbols, and no name, path, format or number."""
    secret = text[start:end]
    return not WEAK.search(secret) and len(set(secret)) > 3 and bool(re.search(rb"[\d!@#^&*+?~$]", secret))


def is_random(text: bytes, start: int, end: int) -> bool:
    """Whether a literal looks random: at least three digits, and no path, URL or words separated by `-` or `.`."""
    secret = text[start:end]
    words = max(map(len, re.split(rb"[-._/]", secret)))
    return len(re.findall(rb"\d", secret)) >= 3 and words >= 16


def own_rules() -> list[Rule]:
    """Rules for the kinds that detect-secrets does not find, or finds only in part."""
    secret = r"(?i)(?:secret|token|api_?-?key|access_?-?key|private_?-?key|credential|auth)\w{0,20}"
    # between a name and its literal: `] = "`, `[] = "`, `: "`, with a type as `: &str = "`
    becomes = (
        r"""["'\[\])]{0,2}(?:[ \t]{0,2}:[ \t]{0,2}&?[A-Za-z]\w{0,15}(?: \w{1,8})?)?[ \t]{0,4}(?::=|=>|=|:)[ \t]{0,4}"""
    )
    assigned = becomes + r"""["'`]([\w.=+/-]{20,150})["'`]"""
    quoted = r"""["'`]([^"'`\s<>{}()%,;]{6,64})["'`]"""
    words = r"(?i)(?:passw(?:or)?d|passwd|pwd|passphrase|passcode|密码|口令)\w{0,20}"
    named = words + becomes
    macro = r"""(?i)define[ \t(]{1,4}["']?\w{0,40}(?:passw(?:or)?d|passwd|pwd|passphrase)"""
    address = rf"(?i)\b[A-Z0-9][A-Z0-9._%+-]{{0,63}}@(?:[A-Z0-9][A-Z0-9-]{{0,62}}\.){{1,4}}(?:{DOMAINS})\b"
    digits = r"(?:^|[^\w.:-])(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})(?:$|[^\w.-]|\.(?:\W|$))"
    groups = r"(?i)(?:^|[^\w:])([23][0-9a-f]{3}:[0-9a-f:]{2,34})(?:$|[^\w:])"
    return [
        Rule("email", "<EMAIL>", address, [r"\w@\w"], check=is_email),
        Rule("ip-address", "<IP_ADDRESS>", digits, [r"\d\.\d{1,3}\.\d{1,3}\.\d"], check=is_address),
        Rule("ip-address", "<IP_ADDRESS>", groups, [r"\b[23][0-9a-f]{3}:[0-9a-f]{0,4}:"], check=is_address),
        Rule(
            "password",
            "<PASSWORD>",
            named + quoted,
            ["passw", "pwd", "passphrase", "passcode", "密码", "口令"],
            check=is_password,
        ),
        Rule(
            "password",
            "<PASSWORD>",
            r"(?i)[;\"'](?:password|pwd)=([^;\"'\s<>{}()%$]{4,64})[;\"']",
            ["password=", "pwd="],
        ),
        # `#define WIFI_PASSWORD "..."` and `define('DB_PASSWORD', '...')`
        Rule(
            "password", "<PASSWORD>", macro + r"""\w{0,20}["']?[ \t,]{1,8}""" + quoted, [macro[4:]], check=is_password
        ),
        Rule(
            "url-password",
            "<PASSWORD>",
            r"""(?i)\b[a-z][a-z0-9+.-]{1,20}://[^/\s:@"'<>{}$%]{0,64}:([^/\s:@"'<>{}$%]{3,128})@[\w.-]""",
            [r"://[^/\s]+:[^/\s]+@"],
        ),
        Rule(
            "authorization-header",
            "<TOKEN>",
            r"(?i)authorization[\"']?[ \t]{0,4}[:=,][ \t]{0,4}[\"'`]?(?:bearer|basic|token)[ \t]+"
            r"([a-z0-9+/_.~-]{16,}={0,2})",
            ["authorization"],
            entropy=3,
        ),
        Rule(
            "aws-secret-key",
            "<API_KEY>",
            r"""(?i)aws.{0,24}?(?:secret|key).{0,24}?["'=:\s]([a-z0-9/+]{40})(?:["'\s]|$)""",
            ["aws"],
            entropy=3.5,
        ),
        Rule("azure-storage-key", "<API_KEY>", r"(?i)AccountKey=([a-z0-9+/]{86}==)", ["accountkey="]),
        Rule("openai-api-key", "<API_KEY>", r"\bsk-(?:[a-z]+-)?[A-Za-z0-9_-]{32,200}", ["sk-"], entropy=3.5),
        Rule(
            "discord-bot-token",
            "<TOKEN>",
            r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}\b",
            [DISCORD],
            entropy=4,
        ),
        Rule("telegram-bot-api-token", "<TOKEN>", r"\b[0-9]{8,10}:AA[\w-]{33}\b", [":AA"], entropy=3.5),
        Rule("github-fine-grained-pat", "<TOKEN>", r"\bgithub_pat_\w{22,255}\b", ["github_pat_"], entropy=3),
        Rule("alibaba-access-key", "<API_KEY>", r"\bLTAI[A-Za-z0-9]{12,20}\b", ["ltai"], entropy=3),
        Rule("tencent-secret-id", "<API_KEY>", r"\bAKID[A-Za-z0-9]{32}\b", ["akid"], entropy=3.5),
        Rule("gcp-api-key", "<API_KEY>", r"\bAIza[\w-]{35}", ["aiza"], entropy=3),
        Rule("anthropic-api-key", "<API_KEY>", r"\bsk-ant-[\w-]{80,120}", ["sk-ant-"], entropy=3.5),
        Rule("huggingface-access-token", "<TOKEN>", r"\bhf_[A-Za-z]{34}\b", ["hf_"], entropy=3),
        Rule("digitalocean-token", "<TOKEN>", r"\bdo[opr]_v1_[0-9a-f]{64}\b", ["do[opr]_v1_"], entropy=3),
        Rule("shopify-token", "<TOKEN>", r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b", ["shp(?:at|ca|pa|ss)_"], entropy=3),
        Rule("databricks-token", "<TOKEN>", r"\bdapi[0-9a-f]{32}\b", ["dapi[0-9a-f]{8}"], entropy=3),
        Rule("npm-access-token", "<TOKEN>", r"\bnpm_[A-Za-z0-9]{36}\b", ["npm_"], entropy=3),
        Rule("jwt", "<TOKEN>", r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w+/=-]{10,}", ["eyj"], entropy=3),
        Rule(
            "private-key",
            "<PRIVATE_KEY>",
            r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----[\s\S]{64,}?KEY(?: BLOCK)?-----",
            ["private key"],
        ),
        Rule(
            "generic-api-key",
            "<API_KEY>",
            secret + assigned,
            [r"""[=:>][ \t]{0,4}["'`][\w.=+/-]{20}"""],  # rarer than `key` or `auth`
            entropy=3.5,
            check=is_random,
        ),
    ]
