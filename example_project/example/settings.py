"""Settings of the example: one line enables scrapy_rep, all others are ordinary Scrapy."""

ADDONS = {"scrapy_rep.Addon": 500}

BOT_NAME = "example"
SPIDER_MODULES = ["example.spiders"]

# The product token, ExampleBot, is the name that sites know the crawler by in their
# robots.txt; the URL is where their owners read about it.
USER_AGENT = "ExampleBot/1.0 (+https://example.com/bot)"

# A robots.txt that answers 503 is asked again after this many seconds; until then the
# requests that it concerns wait in the queue. On the Web, leave the default: a server in trouble is not helped by a crawler in a hurry.
REP_UNREACHABLE_RETRY_DELAYS = [2.0]

# For spiders that yield items: kept.py. Others are not concerned.
ITEM_PIPELINES = {"example.pipelines.Evidence": 300}

# Refusals are logged one by one at DEBUG: scrapy crawl tour -L DEBUG
LOG_LEVEL = "INFO"

# The example opens no port but those of its own little web.
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
