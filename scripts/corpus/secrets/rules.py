"""Our own rules for passwords and keys: what detect-secrets and gitleaks (replace.py) do not find, or only in part.

Passwords under a name, in URLs, on command lines; whole private keys; keys under a name, in the forms of single services.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import re2

from scripts.corpus.secrets.checks import (
    is_encoded,
    is_login,
    is_no_type,
    is_passphrase,
    is_password,
    is_plain_password,
    is_plain_token,
    is_random,
    is_strong_password,
    is_token,
    is_unnamed_token,
    is_url_password,
)

# ruff: noqa: E501  (a pattern stands on one line)

# kind, placeholder, pattern, keyword, least entropy
FORMS = [
    ("alibaba-access-key", "<API_KEY>", r"\bLTAI[A-Za-z0-9]{12,20}\b", "ltai", 3),
    ("authorization-header", "<TOKEN>", r"(?i)authorization[\"'\])]{0,3}(?:[ \t]{0,4}[:=,][ \t]{0,4}[\"'`]?|[ \t]+[\"'])(?:bearer|basic|token)[ \t]+([a-z0-9+/_.~-]{16,}={0,2})", "authorization", 3),
    ("aws-secret-key", "<API_KEY>", r"""(?i)aws.{0,24}?(?:secret|key).{0,24}?["'=:\s]([a-z0-9/+]{40})(?:["'\s]|$)""", "aws", 3.5),
    ("private-key", "<PRIVATE_KEY>", r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----[\s\S]{64,}?KEY(?: BLOCK)?-----", "private key", 4),
    ("anthropic-api-key", "<API_KEY>", r"\bsk-ant-[\w-]{40,160}", "sk-ant-", 3.5),
    ("asana-token", "<TOKEN>", r"\b[12]/\d{10,17}(?:/\d{10,17})?:[0-9a-f]{32}\b", r"/\d{10,17}:[0-9a-f]{8}", 3),
    ("azure-storage-key", "<API_KEY>", r"(?i)(?:Account|SharedAccess)Key=([a-z0-9+/]{42,86}={1,2})", "(?:account|access)key=", 0),
    ("azure-client-secret", "<API_KEY>", r"\b[\w~.]{3}\dQ~[\w~.-]{28,38}", r"\dq~", 3),
    ("azure-signature", "<TOKEN>", r"[?&;]sig=([\w%+/-]{40,64}=?)", r"[?&;]sig=", 3.5),
    ("databricks-token", "<TOKEN>", r"\bdapi[0-9a-f]{32}\b", "dapi[0-9a-f]{8}", 3),
    ("digitalocean-token", "<TOKEN>", r"\bdo[opr]_v1_[0-9a-f]{64}\b", "do[opr]_v1_", 3),
    ("discord-bot-token", "<TOKEN>", r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}\b", r"\.[\w-]{6}\.[\w-]{27}", 4),
    ("django-secret-key", "<API_KEY>", r"""(?i)SECRET_KEY\b[^\n]{0,40}["']((?-i:[a-z0-9!@#$%^&*(_=+)-]{45,70}))["']""", "secret_key", 3.5),
    ("facebook-token", "<TOKEN>", r"\bEAA[A-Za-z0-9]{80,}", "eaa[a-z0-9]{40}", 3.5),
    ("firebase-server-key", "<API_KEY>", r"\bAAAA[\w-]{7}:APA91b[\w-]{100,160}", "apa91b", 3),
    ("gcp-api-key", "<API_KEY>", r"\bAIza[\w-]{35}", "aiza", 3),
    ("github-fine-grained-pat", "<TOKEN>", r"\bgithub_pat_\w{22,255}\b", "github_pat_", 3),
    ("google-oauth", "<TOKEN>", r"\b(?:GOCSPX-[\w-]{20,40}|ya29\.[\w-]{30,300}|1//0[\w-]{40,120})", r"gocspx-|ya29\.|1//0", 3.5),
    ("grafana-api-key", "<API_KEY>", r"\beyJrIjoi[A-Za-z0-9+/]{60,400}={0,2}", "eyjrijoi", 3.5),
    ("huggingface-access-token", "<TOKEN>", r"\bhf_[A-Za-z0-9]{30,40}\b", "hf_", 3),
    ("gmail-app-password", "<PASSWORD>", r"""\blogin\([^\n)]{1,80},[ \t]*["']([a-z]{4} ?[a-z]{4} ?[a-z]{4} ?[a-z]{4})["']\)""", r"login\(", 2.8),
    ("hubspot-token", "<TOKEN>", r"\bpat-[a-z]{2}\d-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", r"pat-[a-z][a-z]\d-", 3),
    ("jenkins-token", "<TOKEN>", r"\b11[0-9a-f]{32}\b", "jenkins", 3),
    ("jwt", "<TOKEN>", r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w+/=-]{10,}", "eyj", 3),
    ("kubernetes-client-key", "<TOKEN>", r"client-key-data:[ \t]{0,4}([\w+/]{64,}={0,2})", "client-key-data:", 3),
    ("laravel-key", "<API_KEY>", r"\bbase64:([A-Za-z0-9+/]{43}=)", "base64:", 3.5),
    ("mailgun-api-key", "<API_KEY>", r"\b(?:pub)?key-[0-9a-f]{32}\b", "key-[0-9a-f]{8}", 3),
    ("mailgun-api-key", "<API_KEY>", r"\b[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}\b", "[0-9a-f]{12}-[0-9a-f]{8}-", 3),
    ("npm-access-token", "<TOKEN>", r"\bnpm_[A-Za-z0-9]{36}\b", "npm_", 3),
    ("nuget-api-key", "<API_KEY>", r"\boy2[a-z0-9]{43}\b", "oy2[a-z0-9]{20}", 3.5),
    ("openai-api-key", "<API_KEY>", r"\bsk-(?:[a-z]+-)?[A-Za-z0-9_-]{32,200}", "sk-", 3.5),
    ("paypal-access-token", "<TOKEN>", r"\baccess_token\$(?:production|sandbox)\$[0-9a-z]{10,20}\$[0-9a-f]{20,40}", r"access_token\$", 0),
    ("shopify-token", "<TOKEN>", r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b", "shp(?:at|ca|pa|ss)_", 3),
    ("square-token", "<TOKEN>", r"\b(?:sq0[a-z]{3}-[\w-]{22,60}|EAAA[\w-]{56,64})", r"sq0[a-z]{3}-|eaaa[\w-]{40}", 3),
    ("telegram-bot-api-token", "<TOKEN>", r"\b[0-9]{8,10}:AA[\w-]{33}\b", ":AA", 3.5),
    ("tencent-secret-id", "<API_KEY>", r"\bAKID[A-Za-z0-9]{32}\b", "akid", 3.5),
    ("twitter-bearer-token", "<TOKEN>", r"""["'= ](A{20,24}[A-Za-z0-9%]{40,120})["'\s]""", "aaaaaaaaaaaaaaaaaaaa", 3),
    ("vault-token", "<TOKEN>", r"""(?i)vault\w{0,20}["'\]]{0,2}[ \t]*[:=][ \t]*["']?((?-i:s\.[A-Za-z0-9]{24}))\b""", "vault", 3.5),
    ("twitch-token", "<TOKEN>", r"\boauth:([a-z0-9]{30})\b", r"oauth:[a-z0-9]{30}", 3.5),
    ("wordpress-salt", "<API_KEY>", r"""define\([ \t]{0,2}['"](?:SECURE_)?(?:AUTH|LOGGED_IN|NONCE)_(?:KEY|SALT)['"],[ \t]{0,8}'([^'\\\n]{40,80})'""", "_(?:key|salt)['\"],", 3.5),
    ("webhook", "<TOKEN>", r"hooks\.zapier\.com/hooks/catch/\d+/([a-z0-9]{6,12})\b", r"hooks\.zapier", 0),
    ("webhook", "<TOKEN>", r"/IncomingWebhook/([0-9a-f]{32})", "/incomingwebhook/", 3),
    ("webhook", "<TOKEN>", r"https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d{10,20}/([\w-]{50,80})", "/api/webhooks/", 3),
]  # fmt: skip

# Beginnings of tokens; behind one of them stand 13 or more letters, digits and some symbols.
PREFIXES = (
    "hvs\\.", "hvb\\.", "hvr\\.",  # Vault
    "NRAK-", "NRJS-", "NRII-", "NRRA-", "NRIQ-",  # New Relic
    "figd_", "figo_", "figu_",  # Figma
    "PMAK-", "PMAT-",  # Postman
    "lin_api_", "lin_oauth_", "lin_wh_",  # Linear
    "rubygems_", "clojars_", "pypi-", "cio[A-Za-z0-9]{12}",  # package registries
    "dckr_pat_", "dckr_oat_",  # Docker
    "AT[AC]TT3", "ATBB", "ATOKEN_",  # Atlassian
    "nfp_", "sbp_", "sb_secret_", "pscale_(?:tkn|pw|oauth)_", "rnd_", "fo1_", "fm[12]_?", "vercel_", "vc[pak]_",  # hosts
    "dp\\.(?:pt|st|ct|sa|scim|audit)\\.", "ops_", "dt0[sc]01\\.",  # Doppler, 1Password, Dynatrace
    "glsa_", "glc_", "sntry[su]_", "hcaik_", "hcxik_", "phc_", "phx_", "bkua_", "CCIPAT_", "CCIPRJ_",  # monitoring, CI
    "pul-", "tfp_", "rdme_", "shippo_(?:live|test)_", "ntn_", "xkeysib-", "xsmtpsib-", "CFPAT-", "duffel_(?:live|test)_",
    "whsec_", "rzp_(?:live|test)_", "APP_USR-", "EZ[AT]K", "FLWSECK(?:_TEST)?-",  # payment
    "gsk_", "xai-", "pplx-", "r8_", "tvly-", "lsv2_(?:pt|sk)_", "co_api_", "fw_", "nvapi-", "pcsk_", "voy-", "pa-[A-Za-z0-9]{8}",
    "dbtc_", "dbtu_", "sl\\.[Bu]", "kaggle_", "wandb_v1_", "HRKU-", "xox[abeoprs]-", "xapp-", "amzn\\.mws\\.",
    "secret_[A-Za-z0-9]{8}", "gh[opsur]_", "gl[a-z]{2,6}-", "AGE-SECRET-KEY-1", "keystone_", "sm_[aps]at_",
    "aio_", "apify_(?:api|proxy)_", "ATTA", "avns_", "bce-v3/", "bkpat_", "CCDB1_", "csk-", "cnvca", "dsp_", "e2b_", "fc-", "jina_", "live_",
    "access-(?:sandbox|development|production)-", "secret-(?:test|live)-", "mka_", "mlsn\\.", "nap[it]_", "npg_", "nbp_", "packagist_[a-z]{3}_",
    "pat[A-Za-z0-9]{14}\\.", "pina_", "pk_\\d{5,9}_", "re_[A-Za-z0-9]{8}_", "rpa_", "sk_[0-9a-f]{16}", "sg[ps]_", "snyk_[a-z]{3}\\.", "sq[apu]_",
    "st\\.[0-9a-f]{8}-", "tgp_v1_", "tskey-[a-z]+-", "ucat_", "vk1\\.a\\.", "waka_", "xa[ap]t-", "y[0-3]_", "hrku-", "AKLT", "jfrt@", "akab-",
)  # fmt: skip

# Parts of patterns. Between a name and its literal: `] = "`, `[] = "`, `: "`, with a type as `: &str = "`; the literal
# may stand on the next line, also in parentheses, and in a call that makes text or bytes of it: `String::from("`, `b"`.
WRAPPED = (
    r"(?:(?:\[\]byte|string::from|secret(?:str|string(?:::from|::new)?)?|some|str|bytes|quote(?:_plus)?|std::string"
    r"|\w{1,10}\.string)\([ \t]{0,2}|[bru]{1,2}|!!str[ \t])?"
)
BECOMES = (
    r"""["'\[\])]{0,2}(?:[ \t]{0,2}:[ \t]{0,2}&?(?:\[\w{1,8}\]|[A-Za-z]\w{0,15})(?: \w{1,8})?| string)?[ \t]{0,4}(?::=|=>|<-|(?:\|\||\?\?|[?+])?=|:)[ \t]{0,4}"""
    r"(?:[(\\]?\r?\n[ \t]*|\[[ \t]?)?" + WRAPPED
)
# what is read where a name is not set: `os.environ.get("DB_PASSWORD", "`, `process.env.DB_PASSWORD || "`
LOOKED_UP = r"""(?i)(?:env|config|setting|propert|option|getorelse|getordefault)[\w.!:]{0,20}[(\[.]["']?[\w.-]{0,40}?"""
OR_ELSE = r"""[\w.-]{0,20}["'\])]{0,3}[ \t]{0,2}(?:,[ \t]{0,2}(?:default[ \t]?=[ \t]?)?|\|\||\?\?|\?:|or\b)[ \t]{0,2}"""
OR_LITERAL = r"""[\w"'\])]*[ \t]*(?:,|\|\||\?\?|\?:|or)[ \t]*(?:default[ \t]?=[ \t]?)?["'`]"""
REST = r"[ \t]*(?:[ \t][#;][^\n]*)?\r?$"  # the rest of a line of `.env`, YAML, ini
QUOTED = r"""["'`]([^"'`\s<>{}()%,;]{6,64})["'`]"""
PASS = r"(?:passw(?:or)?d|passwd|pwd|passphrase|passcode|(?:[a-z0-9]+_|\b)pass(?:_[a-z]{1,12})?|密码|口令)"

# `name: DB_PASSWORD` and below it `value: ...`, `{"name": "...", "value": "..."}`, `key="..." value="..."`
NAMED_VALUE = r"""(?i)\b(?:name|key)["']?[ \t]*[:=>][ \t]*["']?[\w.-]{0,40}?"""
VALUE_OF = r"""[\w.-]{0,20}(?:["']?(?:,\s{0,80}|\s{1,80})["']?value["']?[ \t]*[:=][ \t]*["']?(?:bearer )?|</key>\s{0,80}<string>)"""
# `.put("db.password", `, `.setHeader("X-Api-Key", `
CALLED = r"""\.(?:put|set|add|with|append|header|param|field|property|setenv)\w{0,12}\([ \t]*["'][\w.-]{0,40}?"""

# Passwords at other places: (pattern, keywords)
PLACES = [
    # `DB_PASS = "..."` and `"pass": "..."`, without the names that the rule above knows
    (r"(?i)(?:^|[a-z0-9]_|[\s\"'$.({[,;]|[a-z](?-i:P))pass(?:_[a-z]{1,12})?" + BECOMES + QUOTED, [r"pass[\w\"'\])]{0,16}[ \t]*(?::=|=>|=|:)"]),
    # `setPassword("...")`, `.withDbPassword('...')`, `auth("user", "...")`
    (r"(?i)(?:set|with|\.)_?\w{0,20}(?:" + PASS + r")\([ \t]{0,4}" + QUOTED + r"[ \t]{0,4}[),]", [r"pass[a-z]*\([ \t]{0,4}[\"'`]", r"pwd\([ \t]{0,4}[\"'`]"]),
    (r"(?i)\b(?:(?:http_?)?(?:basic|digest)_?auth|auth|credentials?|(?:password)?authentication|login)(?:\.\w{1,10})?[ \t]{0,2}[(=:][ \t]{0,2}\(?[ \t]{0,2}[\"'][\w.@+-]{1,64}[\"'][ \t]{0,2},[ \t]{0,2}" + QUOTED, [r"(?:auth|credentials?|authentication|login)(?:\.\w{1,10})?[ \t]{0,2}[(=:][ \t]{0,2}\(?[ \t]{0,2}[\"']"]),
    (LOOKED_UP + PASS + OR_ELSE + QUOTED, [rf"(?:pass|pwd){OR_LITERAL}"]),
    # `${DB_PASSWORD:-...}`, `@Value("${db.password:...}")`
    (r"(?i)\$\{[\w.-]{0,40}?" + PASS + r"[\w.-]{0,20}:[-=]?([^}\s\"'`$]{5,64})\}", [r"(?:pass|pwd)[\w.-]*:[^}\s]"]),
    # `#define WIFI_PASSWORD "..."`, `define('DB_PASSWORD', '...')`, `;password=...;`
    (r"""(?i)define[ \t(]{1,4}["']?(?:\w{0,40}(?:passw(?:or)?d|passwd|pwd|passphrase)\w{0,20}|(?:\w{0,40}_)?pass)["']?[ \t,]{1,8}""" + QUOTED, [r"define[ \t(]+[\"']?\w*(?:pass|pwd)"]),
    (r"(?im)(?:^|[;\"'])(?:password|pwd)=([^;\"'\s<>{}()%$]{4,64})[;\"']", ["password=", "pwd="]),
    (r"(?i)[\"' ](?:user|name|host|port|dbname)=[\w.-]+[ \t](?:[^\n\"']{0,80}[ \t])?(?:password|pwd)=([^;\"'\s<>{}()%$]{4,64})[ \"']", ["password=", "pwd="]),
    (r"(?im)(?:^|[\"' =])[\w.-]{1,32}:([^\s:@\"'<>{}$%]{4,64})@(?:tcp|unix)\(", [r"@(?:tcp|unix)\("]),
    # `ENV DB_PASSWORD ...` of a Dockerfile
    (r"(?im)^(?:ENV|ARG)[ \t]+\w{0,40}PASS(?:WORD|WD|PHRASE)?[ \t=]+([^\"'`\s<>{}()%$\\]{5,64})[ \t]*\r?$", [r"(?:env|arg)[ \t]+\w*pass"]),
    # `?user=me&password=...`
    (r"(?i)[?&;](?:\w{0,20}[_-])?(?:pass|passwd|password|pwd|passphrase)=([^&;\"'`\s<>{}()%$\\]{4,64})", [r"[?&;](?:\w{0,20}[_-])?(?:pass|pwd)[a-z]*="]),
    # `DB_PASS=...`, alone on its line or before a command
    (r"(?im)(?:^[ \t#/*;>-]*(?:export[ \t]+|set[ \t]+|env[ \t]+)?|(?:^|[ \t])(?:-e|--env)[ =][\"']?|^[ \t]*Environment=[\"']?)\w{0,40}(?:(?-i:PASS(?:WORD|WD|PHRASE)?|PWD)|_pass(?:word|wd|phrase)?|_pwd)=([^\"'`\s<>{}()%$\\,;]{5,64})(?:[\"'\s]|$)", [r"(?:pass(?:word|wd|phrase)?|pwd)=[^\"'`\s<>{}()%$\\,;]{5}"]),
    # `curl -u me:...`, `mysql --password=...`, `sshpass -p ...`
    (r"(?i)\b(?:curl|wget|http|https)\b[^\n]{0,200}?[ \t](?:-u|--user|-a|--auth)[ =]?[\"']?[\w.@+-]{1,64}:([^\"'`\s<>{}()%$\\]{4,64})", [r"[ \t](?:-u|--user|-a|--auth)[ =]?[\"']?[\w.@+-]{1,64}:"]),
    (r"(?i)[ \t\"'](?:--|/)(?:\w{1,20}-)?(?:pass|password|passwd|passphrase|pwd)[ =:][\"']?([^\"'`\s<>{}()\[\]%$\\]{5,64})", [r"(?:--|/)(?:\w{1,20}-)?(?:pass|pwd)[a-z]*[ =:]"]),
    (r"(?i)\b(?:sshpass|mysql|mysqldump|mysqladmin|redis-cli|htpasswd|smbclient|net use|(?:docker|podman|skopeo|az|registry) login)\b[^\n]{0,120}?[ \t]-[pa] ?[\"']?([^\"'`\s<>{}()%$\\/=-][^\"'`\s<>{}()%$\\]{4,64})", [r"\b(?:sshpass|mysql\w*|redis-cli)\b", r"(?:docker|podman|skopeo|az|registry) login"]),
    # `echo ... | docker login --password-stdin`, `echo ... | sudo -S`, `--from-literal=password=...`, a line of .pgpass
    (r"(?i)\becho[ \t]+(?:-n[ \t]+)?[\"']?([^\"'`\s<>{}()%$\\|]{5,64})[\"']?[ \t]*\|[ \t]*(?:[^\n|]*--(?:password-stdin|passphrase-fd)|sudo[ \t]+-S\b|(?:sudo[ \t]+)?(?:ch)?passwd\b)", [r"echo[^\n|]*\|[^\n]*(?:password-stdin|passphrase-fd|sudo[ \t]+-s|passwd)"]),
    (r"\b(?:mongosh?|mongodump|openssl enc|zip|unzip|ldap\w{1,10})\b[^\n]{0,120}?[ \t]-[kpPw][ \t]+[\"']?([^\"'`\s<>{}()%$\\/=-][^\"'`\s<>{}()%$\\]{4,64})", [r"(?:mongosh?|mongodump|openssl enc|zip|ldap\w+)\b[^\n]*[ \t]-[kpw][ \t]"]),
    (r"(?i)\b(?:vault|kubectl|consul|pulumi)\b[^\n]{0,120}?[ \t]\w{0,20}password[= ][\"']?([^\"'`\s<>{}()%$\\]{5,64})", [r"(?:vault|kubectl|consul|pulumi)\b[^\n]*password[= ]"]),
    (r"(?i)--(?:from-literal|build-arg|set(?:-string)?|env)[ =][\"']?[\w.-]{0,40}?" + PASS + r"[\w.-]{0,20}=([^\"'`\s<>{}()%$\\]{5,64})", [r"--(?:from-literal|build-arg|set(?:-string)?|env)[ =][\"']?[\w.-]*(?:pass|pwd)"]),
    (r"(?m)^[\w.*-]{1,100}:(?:54\d\d|6432|\*):[\w.*-]{1,64}:[\w.*-]{1,64}:([^\s:\"'`<>{}()]{5,64})\r?$", [r":(?:54\d\d|6432|\*):[\w.*-]+:[\w.*-]+:"]),
    # `IDENTIFIED BY '...'`, `WITH PASSWORD '...'`, `requirepass ...`, `<password>...</password>`
    (r"(?i)(?:\bidentified[ \t]+by|\b\w{0,20}password|\bpsk|[:\"'-]\w{0,20}password[\"']?,)[ \t]+['\"]([^'\"\s\\]{5,64})['\"]", [r"(?:identified[ \t]+by|psk|password[\"']?,?)[ \t]+['\"]"]),
    (r"(?im)^[ \t]*(?:requirepass|masterauth|bindpw|rootpw|ldap_bind_pw|PassPhrase|enable[ \t]+(?:secret|password)|snmp-server[ \t]+community|(?:radius|tacacs)-server[ \t]+key|username[ \t]+\S{1,40}(?:[ \t]+privilege[ \t]+\d+)?[ \t]+(?:secret|password))[ \t]+([^\"'`\s<>{}()%$\\]{5,64})(?:[ \t]+R[OW])?[ \t]*\r?$", [r"(?:requirepass|masterauth|bindpw|rootpw|ldap_bind_pw|passphrase|(?:enable|username)[ \t][^\n]*(?:secret|password)|community|-server[ \t]+key)[ \t]"]),
    (r"(?i)<(?:\w{0,20})(?:password|passwd|pwd|passphrase)>([^<>\s${}%]{5,64})</", [r"(?:passw(?:or)?d|pwd|passphrase)>"]),
    (NAMED_VALUE + PASS + VALUE_OF + r"([^\"'\s<>${}%,]{5,64})[\"'\s,}<]", [r"(?:pass|pwd)[\w.-]*(?:[\"'>]*,?\s*[\"']?value[\"']?[ \t]*[:=]|</key>)"]),
    # `ConvertTo-SecureString "..."`, `-Password "..."`, `props.put("db.password", "...")`, `redis.auth("...")`
    (r"(?i)\bConvertTo-SecureString[ \t]+(?:-String[ \t]+)?" + QUOTED, ["convertto-securestring"]),
    (r"(?i)password\w{0,20}:\s{1,40}default:[ \t]*[\"']?([^\"'`\s<>{}()%$\\,;!|&*]{6,64})", [r"password\w*:\s+default:"]),
    (r"(?i)[ \t]-\w{0,20}password[ \t]+" + QUOTED, [r"-\w*password[ \t]+[\"']"]),
    ("(?i)" + CALLED + PASS + r"[\w.-]{0,20}[\"'],[ \t]*" + QUOTED, [r"(?:pass|pwd)[\w.-]*[\"'],[ \t]*[\"'`]"]),
    # `user, password = "admin", "..."`
    (r"(?i),[ \t]*\w{0,20}" + PASS + r"\w{0,20}[ \t]*:?=[ \t]*[\"'][^\"'\n]{1,64}[\"'],[ \t]*" + QUOTED, [r"(?:pass|pwd)\w*[ \t]*:?=[ \t]*[\"'][^\"'\n]+[\"'],[ \t]*[\"']"]),
    (r"(?i)\.(?:auth|authenticate)\([ \t]*" + QUOTED + r"[ \t]*\)", [r"\.auth[a-z]*\([ \t]*[\"'`]"]),
]  # fmt: skip


# (pattern, keywords)
NETRC = r"""\b(?:machine\s+[^\s"'`]+|default)\s+login\s+[^\s"'`]+\s+password\s+([^\s"'`<>{}()%$\\]{4,64})""", [r"login\s+[^\s\"'`]+\s+password\s"]  # fmt: skip
URL_PASSWORD = r"""(?i)\b[a-z][a-z0-9+.-]{1,20}://[^/\s:@"'<>{}$%]{0,64}:([^/\s:@"'<>{}$%]{3,128})@[\w.-]""", [r"://[^/\s]*:[^/\s]+@"]  # fmt: skip
# `https://TOKEN@host`, also with a word of the host's in place of a password
URL_TOKEN = r"(?i)\bhttps?://([\w-]{20,255})(?::x-oauth-basic|:x-access-token)?@\w", [r"https?://[\w-]+(?::x-[a-z-]+)?@"]  # fmt: skip
# `getConnection(url, "root", "...")`, `ftp.login("me", "...")`
LOGGING_IN = r"(?:auth|login|logon|credential|password|connect|connection|ftp|pdo|begin|username_pw_set)\w{0,12}(?:(?:::|\.)\w{1,10})?\("
CALL_WITH_PASSWORD = (
    r"(?i)\b\w{0,20}" + LOGGING_IN + r"""(?:[^\n"'()]{0,40}|[^\n()]{0,80},[ \t]*)(?:["'][^"'\n]{0,40}["']|\w{1,20}),[ \t]*(?:some\()?""" + QUOTED,
    [LOGGING_IN + r"""[^\n]*,[ \t]*(?:some\()?["'`]"""],
)  # fmt: skip
# a line of .npmrc
NPMRC = r"""(?m)(?:^|:)_(?:authToken|password|auth)[ \t]*=[ \t]*["']?([\w+/-]{12,}={0,2})["']?[ \t]*\r?$""", [r"_(?:authtoken|password|auth)[ \t]*="]  # fmt: skip
# base64 of `user:password` for a registry in Docker's config.json
DOCKER_AUTH = r"""["']auth["'][ \t]?:[ \t]?["']([\w+/]{12,}={0,2})["']""", [r"[\"']auth[\"'][ \t]?:"]
SERVICE_TOKEN = rf"(?:^|[^\w.-])((?:{'|'.join(PREFIXES)})[\w.-]{{12,250}}\w)"
# of a service that nobody named above: `"word_..."`, `"word_word-..."`
UNNAMED_TOKEN = r"""(?m)["'`=]((?:[A-Za-z]{2,8}[_-]){1,3}[A-Za-z0-9]{28,120})(?:["'`]|\r?$)"""
PASSWORD = r"(?i)(?:passw(?:or)?d|passwd|pwd|passphrase|passcode|\b(?:wpa_?|wifi_?)?psk|密码|口令)"
NAMED_PASSWORD = PASSWORD + r"\w{0,20}(?:\.\w{1,10})?" + BECOMES + QUOTED
# as in `.env`, YAML, ini and properties: alone on its line, which may be a comment
PLAIN_PASSWORD = (
    r"(?im)^(?:[ \t-]*pass|[ \t#/*;>-]*(?:[\w.-]+[ \t]+){0,2}[\w.-]*(?:passw(?:or)?d|passwd|pwd|passphrase|\w_pass|\bpsk|密码|口令)\d?)[ \t]*"
    r"""(?::[ \t]+|=[ \t]*)([^"'`\s<>{}()\[\]%$\\,;|&*=!:][^"'`\s<>{}()\[\]%\\,;]{5,63})""" + REST
)
UNQUOTED = r"""(?:passw(?:or)?d|pwd|pass|passphrase|\bpsk|密码|口令)\d?[ \t]*(?::[ \t]|=)[ \t]*[^\s"'`=,;(){}]{6}"""
# before `key`
KEYS = r"(?:signing|encryption|master|app|account|service|session|storage|subscription|webhook|hmac|fernet|cipher|crypto|aes|jwt|pre_?shared|routing|integration|pagerduty|licen[cs]e)"  # fmt: skip
SECRET = rf"(?i)(?:secret|token|api_?-?key|access_?-?key|private_?-?key|credential|auth|{KEYS}[_-]?key)\w{{0,20}}"


# a value in base64, alone on its line or quoted, behind a name that ends so
ENCODED = (
    ("password", "<PASSWORD>", r"passw(?:or)?d|passwd|pwd"),
    ("generic-api-key", "<API_KEY>", r"secret|api[_-]?key|token"),
)
NAMED_ENCODED = r"""(?im)(?:{})["']?[ \t]*(?:=>|:?=|:)[ \t]*(?:["']([\w+/-]{{16,}}={{0,2}})["']|([\w+/-]{{16,}}={{0,2}})[ \t,;]*\r?$)"""
ENCODED_WORD = r"""(?:{})["']?[ \t]*(?:=>|:?=|:)[ \t]*["']?[\w+/-]{{8}}"""


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
        other: what replaces the match at [start, end) of a text; None for the placeholder.
    """

    kind: str
    placeholder: str
    pattern: str
    keywords: list[str]
    entropy: float = 0.0
    group: int | None = None
    check: Callable[[bytes, int, int], bool] | None = None
    other: Callable[[bytes, int, int], bytes] | None = None

    @cached_property
    def compiled(self):
        return re2.compile(self.pattern.encode(), re2_options())


KEY_NAME = (
    rf"(?:secret|token|api[_.-]?key|access[_.-]?key|private[_.-]?key|{KEYS}[_.-]?key|signature|auth|session(?:_?id)?)"
)
SERVICES = r"(?:fernet|secretkeyspec|hmac\w{0,8}|oauth\w{0,4}handler|github|gitlab|twilio|algolia\w{0,8}|amplitude|mixpanel|rollbar|bugsnag|segment|pusher|airbrake|honeybadger)"  # fmt: skip
# what stands before a literal that is a key
NAMED = (
    r":[\w-]{0,20}" + KEY_NAME + r"[\w-]{0,20}[ \t]+",
    r"""define[ \t(]{1,4}["']?\w{0,40}""" + KEY_NAME + r"""\w{0,20}["']?[ \t,]{1,8}""",
    r"\b(?:setx|setenv|set[ \t]+-\w+)[ \t]+\w{0,40}" + KEY_NAME + r"\w{0,20}[ \t]+",
    CALLED + KEY_NAME + r"""[\w.-]{0,20}["'],[ \t]*""",
    r"[ \t]-\w{0,20}" + KEY_NAME + r"[ \t]+",
    r"\b(?-i:[A-Z_]{0,20}(?:SECRET|TOKEN|KEY)[A-Z_]{0,20})[ \t]+",
    r"--[\w-]{0,20}" + KEY_NAME + r"""[\w-]{0,20}["'],[ \t]*""",
    r"\b" + SERVICES + r"""(?:\.\w{1,12})?\((?:[\w.]{0,30}\(|(?:\w{1,20}|["'][^\n"']{1,60}["']),[ \t]*)?b?""",
    r"""\b(?:jwt\.(?:encode|decode|sign|verify)|signwith)\([^\n"']{1,60},[ \t]*""",
    r"""\bvariable[ \t]+"[\w-]{0,40}""" + KEY_NAME + r"""[\w-]{0,20}"[ \t]*\{[^}]{0,200}?\bdefault[ \t]*=[ \t]*""",
)


def own_rules() -> list[Rule]:
    """Rules for the kinds that detect-secrets does not find, or finds only in part."""
    words = ["passw", "pwd", "passphrase", "passcode", r"psk[ \t]*[:=]", "密码", "口令"]
    named = rf"(?i)(?:{'|'.join(NAMED)})"
    in_element = rf"""(?i)<(?:\w{{1,20}}[ \t]+name=["'])?\w{{0,20}}{KEY_NAME}\w{{0,20}}["']?>"""
    keys = [
        (is_random, SECRET + r"(?:\.\w{1,20})?" + BECOMES + r"""["'`]{1,3}([\w.=+/-]{20,})["'`]""", [  # rarer than `key` or `auth`
            r"""[=:>][ \t]{0,4}(?:[(\\]?\r?\n[ \t]*)?["'`]{1,3}[\w.=+/-]{20}""",
            r"""(?:secret|token|key|credential|auth)\w*["'\])]*[ \t]*[:=>]+[ \t&=\w.:\[\]]*[(bru]["'`]"""]),
        (is_unnamed_token, r"(?i)\bkeys?" + BECOMES + r"""["'`]([\w+/=-]{24,90})["'`]""", [r"\bkeys?[\"'\])]*[ \t]*[:=]"]),
        (is_random, LOOKED_UP + SECRET + OR_ELSE + r"""["'`]([\w.=+/-]{20,})["'`]""", [rf"(?:secret|token|key|credential|auth){OR_LITERAL}"]),
        # a literal that a name stands before: `:api-key "..."`, `#define API_KEY "..."`, `.put("api.key", "...")`
        (is_random, named + r"""["']([\w.=+/-]{20,})["']""", [
            r"(?:secret|token|key|auth|signature)[\w.-]*[\"']?(?:,[ \t]*|[ \t]+|\)[ \t]+)[\"']",
            r"(?:jwt\.(?:encode|decode|sign|verify)|signwith)\(", SERVICES + r"(?:\.\w+)?\([^\n]*[\"']", r"variable[ \t]+\"[\w-]*(?:secret|token|key|auth)"]),
        # `name: API_TOKEN` and below it `value: ...`; `<apiKey>...</apiKey>`, `<param name="apiKey">...</param>`
        (is_plain_token, NAMED_VALUE + KEY_NAME + VALUE_OF + r"([\w=+/~.-]{20,})[\"'\s,}<]", [r"(?:secret|token|key|auth)[\w.-]*[\"'>]*,?\s*[\"']?value[\"']?[ \t]*[:=]", r"(?:secret|token|key)</key>\s*<string>"]),
        (is_plain_token, in_element + r"([\w=+/~.-]{20,})<", [r"(?:secret|token|key)[\"']?>"]),
        # `${TOKEN:-...}`
        (is_plain_token, r"(?i)\$\{[\w.-]{0,40}?" + KEY_NAME + r"[\w.-]{0,20}:[-=]?([\w=+/~.-]{20,})\}", [r"\$\{[\w.-]*(?:secret|token|key|auth)"]),
        # without quotes, alone on its line or behind a header's name, in a URL or on a command line
        (is_plain_token, r"(?im)^[ \t#/*;>+@-]*(?:export[ \t]+|set[ \t]+|-[ \t]+)?[\w.-]{0,40}" + KEY_NAME + r"[\w.-]{0,20}[ \t]*(?:=|:)[ \t]*([\w=+/~.-]{20,})[ \t]*\r?$",
            [r"(?:secret|token|key|auth)[\w.-]*[ \t]*(?:=|:)[ \t]*[\w=+/~.-]{20}"]),
        (is_plain_token, r"(?i)(?:--key|(?:[?&;]|--|\bx-|\b)(?:\w{1,20}[_-])?" + KEY_NAME + r")(?:(?:[_-]\w{1,12})?=|:[ \t]|[ \t])[ \t]?([\w=+/~-]{20,})",
            [r"(?:token|key|secret|signature|session(?:_?id)?)(?:=|:[ \t]|[ \t])[ \t]?[\w=+/~-]{20}"]),
        # one that somebody thought of
        (is_password, r"(?i)(?:^|[^\w:])\w{0,30}secret(?:_?key)?" + BECOMES + QUOTED, [r"secret(?:_?key)?[\"'\])]*[ \t]*[:=]"]),
    ]  # fmt: skip
    return [
        Rule("password", "<PASSWORD>", NAMED_PASSWORD, words, check=is_passphrase),
        *(
            Rule(kind, mark, NAMED_ENCODED.format(name), [ENCODED_WORD.format(name)], 3, check=is_encoded)
            for kind, mark, name in ENCODED
        ),
        Rule("password", "<PASSWORD>", PLAIN_PASSWORD, [UNQUOTED], check=is_plain_password),
        *(Rule("password", "<PASSWORD>", pattern, keywords, check=is_password) for pattern, keywords in PLACES),
        Rule("password", "<PASSWORD>", *CALL_WITH_PASSWORD, check=is_strong_password),
        Rule("netrc-password", "<PASSWORD>", *NETRC, check=is_no_type),
        Rule("url-password", "<PASSWORD>", *URL_PASSWORD, check=is_url_password),
        Rule("url-token", "<TOKEN>", *URL_TOKEN, entropy=3, check=is_token),
        Rule("npm-registry-login", "<TOKEN>", *NPMRC, entropy=3, check=is_token),
        Rule("docker-auth", "<TOKEN>", *DOCKER_AUTH, check=is_login),
        *(Rule(kind, placeholder, pattern, [word], entropy) for kind, placeholder, pattern, word, entropy in FORMS),
        Rule("service-token", "<TOKEN>", SERVICE_TOKEN, list(PREFIXES), entropy=3.2, check=is_token),
        Rule("service-token", "<TOKEN>", UNNAMED_TOKEN, [r"[_-][a-z0-9]{28}"], entropy=4, check=is_unnamed_token),
        *(Rule("generic-api-key", "<API_KEY>", pattern, found_by, 3, check=check) for check, pattern, found_by in keys),
    ]
