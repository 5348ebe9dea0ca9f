-- What follows from the records of an audit, once "gap" is there (tables.py).

-- What a decision says: 0 refused by a rule, 1 refused otherwise, 2 not allowed, but sent as REP_OBEY
-- leaves that out, 3 allowed.
CREATE VIEW verdict AS SELECT *, CASE
    WHEN allowed THEN 3 WHEN enforced IS 0 THEN 2 WHEN cause = 'rule' THEN 0 ELSE 1 END AS says
FROM decision;

CREATE VIEW reply AS SELECT *, COALESCE(status, error, 'no answer') AS result,
    status IS NULL OR status = 429 OR status >= 500 AS failed
FROM answer;

-- Of each URL: how often it was tried, and by what the last decision before a try says. That
-- decision is of the same worker, so it stands before the try in the same file. A try with none
-- is of a request that was exempt, or that was judged by another URL (robotstxt_url).
CREATE TABLE url AS
SELECT url_key, MIN(host) AS host, SUM(is_sent) AS tries,
    SUM(is_sent AND COALESCE(last, 1) = 1) AS exempt,
    SUM(is_sent AND last = 2) AS dry,
    SUM(is_sent AND last = 0) AS against,
    COALESCE(SUM(says = 3), 0) AS allowed,
    COALESCE(SUM(says = 0), 0) AS by_rule,
    COALESCE(SUM(says = 1), 0) AS otherwise
FROM (
    SELECT url_key, host, is_sent, says,
        MAX(place * 4 + says) OVER (PARTITION BY file, url_key ORDER BY place) & 3 AS last
    FROM (
        SELECT file, url_key, place, host, 0 AS is_sent, says FROM verdict
        UNION ALL
        SELECT file, url_key, place, host, 1, NULL FROM sent WHERE robots IS NOT 1
    )
)
GROUP BY url_key;

-- Which origins a host has. A robots.txt that nothing was asked by is of the host of its origin.
CREATE TABLE pair AS
SELECT host, origin FROM decision WHERE origin IS NOT NULL
UNION SELECT host, origin FROM sent WHERE origin IS NOT NULL;
INSERT INTO pair SELECT DISTINCT host, origin FROM copy
WHERE origin NOT IN (SELECT origin FROM pair);

-- What was last known of each origin's robots.txt, and how often its text has changed.
CREATE TABLE robots AS
SELECT * FROM (
    SELECT *, state IN ('unreachable', 'unknown') AS lacking, ROW_NUMBER() OVER (
        PARTITION BY origin ORDER BY time DESC, file DESC, place DESC) AS back
    FROM copy
)
LEFT JOIN (
    SELECT origin AS its, SUM(digest != before) AS changes FROM (
        SELECT origin, digest, LAG(digest) OVER (
            PARTITION BY origin ORDER BY time, file, place) AS before
        FROM copy WHERE digest IS NOT NULL
    ) GROUP BY origin
) ON its = origin
WHERE back = 1;

CREATE TABLE result AS
SELECT host, result, COUNT(*) AS answers, SUM(failed) AS failed
FROM reply WHERE robots IS NOT 1 GROUP BY host, result;

CREATE TABLE host AS
SELECT name,
    -- URLs are counted apart from requests, which are tries. "not_again" are URLs that were sent,
    -- and refused at another try.
    COALESCE(urls, 0) AS urls, COALESCE(requests, 0) AS requests,
    COALESCE(robots, 0) AS robots, COALESCE(allowed, 0) AS allowed,
    COALESCE(refused_by_rule, 0) AS refused_by_rule,
    COALESCE(refused_otherwise, 0) AS refused_otherwise,
    COALESCE(not_sent, 0) AS not_sent, COALESCE(not_sent_by_rule, 0) AS not_sent_by_rule,
    COALESCE(not_again, 0) AS not_again, COALESCE(exempt, 0) AS exempt,
    COALESCE(dry, 0) AS dry, COALESCE(against, 0) AS against,
    COALESCE(gaps, 0) AS gaps, COALESCE(measured, 0) AS measured, COALESCE(short, 0) AS short,
    COALESCE(answers, 0) AS answers, COALESCE(failed, 0) AS failed,
    COALESCE(pauses, 0) AS pauses, COALESCE(left_alone, 0) AS left_alone,
    least, most, smallest, median
FROM (
    SELECT host AS name FROM pair UNION SELECT host FROM decision UNION SELECT host FROM sent
    UNION SELECT host FROM answer UNION SELECT host FROM backoff
    UNION SELECT host FROM waiting WHERE host != ''
)
LEFT JOIN (
    SELECT host AS of_urls, SUM(tries > 0) AS urls, SUM(tries) AS requests,
        SUM(tries = 0 AND by_rule + otherwise > 0) AS not_sent,
        SUM(tries = 0 AND by_rule > 0) AS not_sent_by_rule,
        SUM(tries > 0 AND by_rule + otherwise > 0) AS not_again,
        SUM(allowed) AS allowed, SUM(by_rule) AS refused_by_rule,
        SUM(otherwise) AS refused_otherwise,
        SUM(exempt) AS exempt, SUM(dry) AS dry, SUM(against) AS against
    FROM url GROUP BY host
) ON of_urls = name
LEFT JOIN (
    SELECT host AS of_sent, SUM(robots IS 1) AS robots FROM sent GROUP BY host
) ON of_sent = name
LEFT JOIN (
    SELECT host AS of_delays, MIN(NULLIF(delay, 0)) AS least, MAX(NULLIF(delay, 0)) AS most
    FROM decision GROUP BY host
) ON of_delays = name
LEFT JOIN (
    SELECT host AS of_gaps, COUNT(*) AS gaps, SUM(delay > 0) AS measured, SUM(short) AS short,
        MIN(gap) AS smallest
    FROM gap GROUP BY host
) ON of_gaps = name
LEFT JOIN (
    SELECT host AS of_medians, AVG(gap) AS median FROM (
        SELECT host, gap, COUNT(*) OVER (PARTITION BY host) AS number,
            ROW_NUMBER() OVER (PARTITION BY host ORDER BY gap) AS nth
        FROM gap
    ) WHERE nth IN ((number + 1) / 2, number / 2 + 1) GROUP BY host
) ON of_medians = name
LEFT JOIN (
    SELECT host AS of_results, SUM(answers) AS answers, SUM(failed) AS failed
    FROM result GROUP BY host
) ON of_results = name
LEFT JOIN (
    -- Pauses that overlap count once.
    SELECT host AS of_pauses, COUNT(*) AS pauses,
        SUM(MAX(0, until - MAX(time, COALESCE(before, 0)))) AS left_alone
    FROM (
        SELECT host, time, time + seconds AS until, MAX(time + seconds) OVER (
            PARTITION BY host ORDER BY time
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM backoff
    ) GROUP BY host
) ON of_pauses = name;

-- Why requests of a host were refused, or should have been.
CREATE TABLE reason AS
SELECT host, cause, rule, line, digest, says = 2 AS dry, MIN(reason) AS reason,
    MIN("group") AS tokens, COUNT(DISTINCT url_key) AS urls, COUNT(*) AS requests
FROM verdict WHERE NOT allowed
GROUP BY host, cause, rule, line, digest, says = 2;

CREATE TABLE pause AS
SELECT host, COALESCE(what, 'other') AS result, COUNT(*) AS answers
FROM backoff GROUP BY 1, 2;

-- What the page asks for by host.
CREATE INDEX gap_by_host ON gap (host);
CREATE INDEX pair_by_host ON pair (host);
CREATE INDEX pause_by_host ON pause (host);
CREATE INDEX reason_by_host ON reason (host);
CREATE INDEX refused_by_host ON decision (host) WHERE NOT allowed;
CREATE INDEX result_by_host ON result (host);
CREATE INDEX robots_by_origin ON robots (origin);
CREATE INDEX wait_by_host ON waiting (host) WHERE host != '';

-- What is counted by cause: requests refused, sent all the same as REP_OBEY says, of pages in a
-- browser, and dropped by the rules of pages; answers; times that a host was left alone.
CREATE VIEW counted AS
SELECT 'refused' AS what, cause, url_key FROM verdict WHERE says < 2
UNION ALL SELECT 'dry_run', cause, url_key FROM verdict WHERE says = 2
UNION ALL SELECT 'answers', result, NULL FROM reply WHERE robots IS NOT 1
UNION ALL SELECT 'pauses', what, NULL FROM backoff
UNION ALL SELECT 'aborted', cause, url_key FROM browser WHERE NOT allowed AND enforced IS NOT 0
UNION ALL SELECT 'dropped', cause, url_key FROM dropped;

-- What the charts count over time.
CREATE VIEW happening AS
SELECT 'sent' AS chart, IIF(robots IS 1, 'robots', 'sent') AS name, time FROM sent
UNION ALL SELECT 'sent', 'refused', time FROM verdict WHERE says < 2
UNION ALL SELECT 'answers', IIF(failed, 'failed', 'answered'), time FROM reply
UNION ALL SELECT 'answers', 'alone', time FROM backoff;

-- How many requests wait from a time on. What a worker tells for a cause holds until it tells
-- something else, or ends.
CREATE TABLE level AS
SELECT time, step, SUM(step) OVER (
    ORDER BY time, file, place ROWS UNBOUNDED PRECEDING) AS level
FROM (
    SELECT time, file, place, requests - LAG(requests, 1, 0) OVER (
        PARTITION BY file, cause ORDER BY place) AS step
    FROM (
        SELECT time, file, place, cause, requests FROM waiting WHERE host = ''
        UNION ALL
        SELECT time, its.file, place, cause, 0 FROM "end" AS its
        JOIN (SELECT DISTINCT file, cause FROM waiting WHERE host = '') AS told
        ON told.file = its.file
    )
);

-- What all hosts come to together. Sites are origins.
CREATE VIEW total AS SELECT * FROM (
    SELECT COUNT(*) AS hosts, COALESCE(SUM(urls), 0) AS urls, COALESCE(SUM(requests), 0) AS requests, COALESCE(SUM(robots), 0) AS robots,
        COALESCE(SUM(allowed), 0) AS allowed, COALESCE(SUM(refused_by_rule), 0) AS refused_by_rule,
        COALESCE(SUM(refused_otherwise), 0) AS refused_otherwise, COALESCE(SUM(not_sent), 0) AS not_sent,
        COALESCE(SUM(not_sent_by_rule), 0) AS not_sent_by_rule, COALESCE(SUM(not_again), 0) AS not_again,
        COALESCE(SUM(exempt), 0) AS exempt, COALESCE(SUM(dry), 0) AS dry, COALESCE(SUM(against), 0) AS against,
        COALESCE(SUM(gaps), 0) AS gaps, COALESCE(SUM(measured), 0) AS measured, COALESCE(SUM(short), 0) AS short,
        COALESCE(SUM(answers), 0) AS answers, COALESCE(SUM(failed), 0) AS failed, COALESCE(SUM(pauses), 0) AS pauses,
        COALESCE(SUM(short > 0), 0) AS hosts_short, COALESCE(SUM(pauses > 0), 0) AS hosts_left_alone,
        MAX(most) AS longest_delay
    FROM host
) JOIN (
    SELECT COUNT(*) AS sites, COALESCE(SUM(lacking AND status IS NULL), 0) AS sites_silent,
        COALESCE(SUM(lacking AND status IS NOT NULL), 0) AS sites_failing
    FROM robots
);

-- The workers, each from its start to its end; "ended" is why, NULL: nobody says.
CREATE VIEW run AS
SELECT time, spider, agent, worker, version, settings, (
    SELECT COALESCE(reason, 'ended') FROM "end" AS its
    WHERE its.file = crawl.file AND its.place > crawl.place AND NOT EXISTS (
        SELECT 1 FROM crawl AS next WHERE next.file = crawl.file
        AND next.place BETWEEN crawl.place + 1 AND its.place
    ) ORDER BY place LIMIT 1
) AS ended
FROM crawl;

-- Requests that still waited when their run ended, by cause.
CREATE VIEW unsent AS
SELECT key AS cause, SUM(value) AS requests FROM "end", json_each(unsent)
WHERE json_each.type = 'integer' AND value BETWEEN 0 AND 1e11 GROUP BY 1;

-- The times of the first and of the last record.
CREATE VIEW span AS SELECT MIN(time) AS first, MAX(time) AS last FROM (
    SELECT time FROM crawl UNION ALL SELECT time FROM copy UNION ALL SELECT time FROM decision
    UNION ALL SELECT time FROM sent UNION ALL SELECT time FROM answer
    UNION ALL SELECT time FROM backoff UNION ALL SELECT time FROM waiting
    UNION ALL SELECT time FROM browser UNION ALL SELECT time FROM dropped
    UNION ALL SELECT time FROM "end"
);

-- The origins of a host, each with its robots.txt; and how many are in which state.
CREATE VIEW site AS
SELECT pair.host, origin, state, status, url, fetched, digest, failure, changes
FROM pair LEFT JOIN robots USING (origin);
CREATE TABLE site_state AS
SELECT host, COALESCE(state, 'not in the audit') || COALESCE(' (' || status || ')', '') AS state,
    COUNT(*) AS number
FROM site GROUP BY 1, 2;
CREATE INDEX site_state_by_host ON site_state (host);

-- At most so many requests waited for a cause.
CREATE VIEW peak AS
SELECT cause, MAX(requests) AS most FROM waiting WHERE host = '' GROUP BY 1;
