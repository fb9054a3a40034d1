"""Keys and tokens of services that are known by their form: beginnings that nothing else has, and what follows them.

These are the forms that detect-secrets and gitleaks (detectors.py) do not know, or know with one exact length only.
"""

# ruff: noqa: E501  (a pattern stands on one line)

# kind, placeholder, pattern, keyword, least entropy
FORMS = [
    ("alibaba-access-key", "<API_KEY>", r"\bLTAI[A-Za-z0-9]{12,20}\b", "ltai", 3),
    ("anthropic-api-key", "<API_KEY>", r"\bsk-ant-[\w-]{40,160}", "sk-ant-", 3.5),
    ("azure-storage-key", "<API_KEY>", r"(?i)(?:Account|SharedAccess)Key=([a-z0-9+/]{42,86}={1,2})", "(?:account|access)key=", 0),
    ("azure-client-secret", "<API_KEY>", r"\b[\w~.]{3}\dQ~[\w~.-]{28,38}", r"\dq~", 3),
    ("azure-signature", "<TOKEN>", r"[?&;]sig=([\w%+/-]{40,64}=?)", r"[?&;]sig=", 3.5),
    ("databricks-token", "<TOKEN>", r"\bdapi[0-9a-f]{32}\b", "dapi[0-9a-f]{8}", 3),
    ("digitalocean-token", "<TOKEN>", r"\bdo[opr]_v1_[0-9a-f]{64}\b", "do[opr]_v1_", 3),
    ("discord-bot-token", "<TOKEN>", r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}\b", r"\.[\w-]{6}\.[\w-]{27}", 4),
    ("firebase-server-key", "<API_KEY>", r"\bAAAA[\w-]{7}:APA91b[\w-]{100,160}", "apa91b", 3),
    ("gcp-api-key", "<API_KEY>", r"\bAIza[\w-]{35}", "aiza", 3),
    ("github-fine-grained-pat", "<TOKEN>", r"\bgithub_pat_\w{22,255}\b", "github_pat_", 3),
    ("google-oauth", "<TOKEN>", r"\b(?:GOCSPX-[\w-]{20,40}|ya29\.[\w-]{30,300}|1//0[\w-]{40,120})", r"gocspx-|ya29\.|1//0", 3.5),
    ("huggingface-access-token", "<TOKEN>", r"\bhf_[A-Za-z0-9]{30,40}\b", "hf_", 3),
    ("jwt", "<TOKEN>", r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w+/=-]{10,}", "eyj", 3),
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
    ("webhook", "<TOKEN>", r"https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d{15,20}/([\w-]{50,80})", "/api/webhooks/", 3),
]  # fmt: skip

# Beginnings of tokens; behind one of them stand 16 or more letters, digits and some symbols.
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
)  # fmt: skip
