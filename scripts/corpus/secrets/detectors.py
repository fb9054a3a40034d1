"""The rules of detect-secrets, an installed library, and of gitleaks (gitleaks.json), in the syntax of RE2.

RE2's time is linear in the text.
"""

import json
import re
from pathlib import Path

from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.plugins.base import RegexBasedDetector

from scripts.corpus.secrets.rules import Rule

# For each detector of detect-secrets the keywords of which at least one occurs in every match. Left out are detectors
# that find only a header (private keys), any URL with a password, any address or any literal of 44 or 48 characters
# (IBM), any number, colon and 35 letters (Telegram), and one whose match
# includes the name before the key (Azure). Short ones are faster: their automaton has fewer states.
KEYWORDS = {
    "Artifactory Credentials": ["akc", r"ap[\da-f][a-z0-9]{8}"],
    "AWS Access Key": ["a3t", "abia", "acca", "akia", "asia", "aws"],
    "Cloudant Credentials": [r"cl(?:ou(?:dant)?)?[_-]?(?:api)?[_-]?(?:key|pw|pass|token)", r"cloudant\.com"],
    "Discord Bot Token": [r"\.[\w-]{6}\.[\w-]{27}"],
    "GitHub Token": ["gh[opsur]_"],
    "GitLab Token": ["gl[a-z]{2,5}-", "gr1348941"],
    "JSON Web Token": ["eyj"],
    "Mailchimp Access Key": [r"-us\d"],
    "NPM tokens": [":_authtoken="],
    "OpenAI Token": ["t3blbkfj"],
    "PyPI Token": ["pypi-age"],
    "SendGrid API Key": [r"sg\.[\w-]{22}\."],
    "Slack Token": ["xox[abprs]-", r"hooks\.slack\.com"],
    "SoftLayer Credentials": ["(?:softlayer|sl)[_-]?(?:api)?[_-]?(?:key|pw|pass|token)", r"api.softlayer\.com"],
    "Square OAuth Secret": ["sq0csp-"],
    "Stripe Access Key": ["[rs]k_live_"],
    "Twilio API Key": ["(?:ac|sk)[a-z0-9]{32}"],
}
# detectors whose first group is the secret; for the others it is the whole match
ONE_GROUP = {"AWS Access Key", "Cloudant Credentials", "NPM tokens", "SoftLayer Credentials"}
ENTROPY = 3.0  # the least of a match (bits per byte); names, and digests of zeros only, have less


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


def gitleaks_rules() -> list[Rule]:
    """The rules of gitleaks that gitleaks.json holds, with its licence."""
    data = json.loads(Path(__file__).with_name("gitleaks.json").read_text(encoding="utf-8"))
    rules = []
    for row in data["rules"]:
        placeholder = "<TOKEN>" if "token" in row["id"] or "oauth" in row["id"] else "<API_KEY>"
        keywords = [re.escape(word) for word in row["keywords"]]
        rules.append(Rule(row["id"], placeholder, row["pattern"], keywords, row["entropy"], row.get("group")))
    return rules
