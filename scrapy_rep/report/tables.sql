-- What is kept of the records of an audit, what they say one by one, and what follows from them.

-- 16 MiB in memory, the rest in a temporary file.
PRAGMA cache_size = -16384;
PRAGMA journal_mode = OFF;

-- A table for each type of record. Its columns are fields, and: "file", its number; "place", that of
-- the line; "origin" and "host", as far as something tells; "url_key", which stands for the URL.
-- Decisions that allow, most of an audit, fill the first eight columns.
CREATE TABLE crawl (file, place, time, spider, agent, worker, version, settings);
CREATE TABLE copy (file, place, time, origin, host, state, status, url, fetched, digest, failure);
CREATE TABLE decision (file, place, time, origin, host, url_key, allowed, delay,
    enforced, url, cause, reason, "group", rule, line, digest);
CREATE TABLE sent (file, place, time, origin, host, url_key, robots, exempt);
CREATE TABLE answer (time, host, seconds, headers, status, error, robots);
CREATE TABLE backoff (time, host, what, seconds);
CREATE TABLE demand (time, host, url_key, status, cause, license, price);
CREATE TABLE waiting (file, place, time, host, cause, requests, until);
CREATE TABLE browser (time, url_key, allowed, enforced, cause);
CREATE TABLE dropped (time, url_key, cause);
CREATE TABLE "end" (file, place, time, reason, unsent);

-- The time before a request of a host (``gaps_of``).
CREATE TABLE gap (host, time, gap, delay, short);

CREATE TABLE body (digest PRIMARY KEY, packed);

-- It says: 0 refused by a rule, 1 refused otherwise, 2 sent all the same (REP_OBEY), 3 allowed.
CREATE VIEW verdict AS SELECT *, CASE
    WHEN allowed THEN 3 WHEN enforced IS 0 THEN 2 WHEN cause = 'rule' THEN 0 ELSE 1 END AS says
FROM decision;

CREATE VIEW reply AS SELECT *, COALESCE(status, error, 'no answer') AS result,
    status IS NULL OR status = 429 OR status >= 500 AS failed
FROM answer;

CREATE VIEW cause AS
SELECT what, COALESCE(cause, 'no cause given') AS cause, COUNT(DISTINCT url_key) AS urls,
    COUNT(*) AS requests
FROM (
    SELECT IIF(says = 2, 'dry_run', 'refused') AS what, cause, url_key FROM verdict WHERE says < 3
    UNION ALL SELECT 'exempt', exempt, url_key FROM sent WHERE exempt != 'passed_by'
    UNION ALL SELECT 'answers', result, NULL FROM reply WHERE robots IS NOT 1
    UNION ALL SELECT 'pauses', what, NULL FROM backoff
    UNION ALL SELECT 'aborted', cause, url_key FROM browser WHERE NOT allowed AND enforced IS NOT 0
    UNION ALL SELECT 'dropped', cause, url_key FROM dropped
    UNION ALL SELECT 'demanded', cause || COALESCE(', ' || price, '') || COALESCE(', ' || license, ''),
        url_key FROM demand
) GROUP BY 1, 2;

-- What the charts count over time.
CREATE VIEW happening AS
SELECT 'Requests sent and refused' AS chart, IIF(robots IS 1, 'robots', 'sent') AS name, time FROM sent
UNION ALL SELECT 'Requests sent and refused', 'refused', time FROM verdict WHERE says < 2
UNION ALL SELECT 'Answers, and hosts left alone', IIF(failed, 'failed', 'answered'), time FROM reply
UNION ALL SELECT 'Answers, and hosts left alone', 'alone', time FROM backoff;

CREATE VIEW span AS SELECT MIN(time) AS first, MAX(time) AS last FROM (
    SELECT time FROM happening UNION ALL SELECT time FROM decision
    UNION ALL SELECT time FROM crawl UNION ALL SELECT time FROM "end"
    UNION ALL SELECT time FROM copy UNION ALL SELECT time FROM waiting
    UNION ALL SELECT time FROM browser UNION ALL SELECT time FROM dropped
    UNION ALL SELECT time FROM demand
);

-- "ended": why; NULL: nobody says.
CREATE VIEW run AS
SELECT time, spider, agent, worker, version, settings, (
    SELECT COALESCE(reason, 'ended') FROM "end" AS its
    WHERE its.file = crawl.file AND place > crawl.place AND place < COALESCE((
        SELECT MIN(next.place) FROM crawl AS next
        WHERE next.file = crawl.file AND next.place > crawl.place), 1e18)
    ORDER BY place LIMIT 1
) AS ended
FROM crawl;

-- Python writes numbers that are none, which is no JSON.
CREATE VIEW unsent AS
SELECT key AS cause, SUM(value) AS requests
FROM "end", json_each(IIF(json_valid(unsent), unsent, '{}'))
WHERE json_each.type = 'integer' AND value BETWEEN 0 AND 1e11 GROUP BY 1;

CREATE VIEW peak AS
SELECT cause, MAX(requests) AS most FROM waiting WHERE host = '' GROUP BY 1;

-- By host and time: the delay that a decision names; the headers of an answer, or that a request
-- has failed, and when it "began"; or neither: a request is sent.
CREATE VIEW pace AS SELECT * FROM (
    SELECT host, time, origin, delay, NULL AS began FROM decision WHERE delay IS NOT NULL
    UNION ALL SELECT host, time - seconds + headers, NULL, NULL, time - seconds FROM answer
    WHERE headers IS NOT NULL
    UNION ALL SELECT host, time, NULL, NULL, NULL FROM sent
) ORDER BY host, time, delay IS NULL, began IS NULL;

-- After the gaps

-- Of each URL by which requests are judged: how often it was tried, and what the last decision
-- before a try says, of the same worker, so in the same file. A try that no decision has let through
-- is "unjudged", unless it is exempt. One after a refusal by a rule is "against" that, unless more
-- were let through than were tried by then: the refusal may be of another request, for another agent.
CREATE VIEW url AS
SELECT MIN(host) AS host, SUM(tried IS NOT NULL) AS tries,
    SUM(tried IS 'exempt') AS exempt,
    SUM(tried IS 'passed_by' OR (tried IS '' AND COALESCE(last, 1) = 1)) AS unjudged,
    SUM(tried IS '' AND last = 2) AS dry,
    SUM(tried IS '' AND last = 0 AND through < nth) AS against,
    SUM(says IS 3) AS allowed, SUM(says IS 0) AS by_rule, SUM(says IS 1) AS otherwise
FROM (
    SELECT url_key, host, says, tried, MAX(place * 4 + says) OVER before & 3 AS last,
        SUM(says > 1) OVER before AS through, SUM(tried IS '') OVER before AS nth
    FROM (
        SELECT file, place, url_key, host, says, NULL AS tried FROM verdict
        UNION ALL SELECT file, place, url_key, host, NULL, 
            IIF(COALESCE(exempt, 'passed_by') = 'passed_by', COALESCE(exempt, ''), 'exempt')
        FROM sent WHERE robots IS NOT 1
    )
    WINDOW before AS (PARTITION BY file, url_key ORDER BY place ROWS UNBOUNDED PRECEDING)
)
GROUP BY url_key;

-- A robots.txt that nothing was asked by is of the host of its origin.
CREATE TABLE pair AS SELECT host, origin FROM decision UNION SELECT host, origin FROM sent;
INSERT INTO pair SELECT DISTINCT host, origin FROM copy
WHERE origin NOT IN (SELECT origin FROM pair WHERE origin IS NOT NULL);

-- What was last known of each origin's robots.txt.
CREATE TABLE robots AS
SELECT *, state IN ('unreachable', 'unknown') AS lacking,
    state || COALESCE(' (' || status || ')', '') AS said
FROM (
    SELECT *, ROW_NUMBER() OVER (
        PARTITION BY origin ORDER BY time DESC, file DESC, place DESC) AS back
    FROM copy
) LEFT JOIN (
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

-- Requests are tries. "not_again" are URLs that were sent, and refused at another try.
CREATE TABLE host AS
SELECT name,
    COALESCE(urls, 0) AS urls, COALESCE(requests, 0) AS requests, COALESCE(robots, 0) AS robots,
    COALESCE(allowed, 0) AS allowed, COALESCE(refused_by_rule, 0) AS refused_by_rule,
    COALESCE(refused_otherwise, 0) AS refused_otherwise, COALESCE(not_sent, 0) AS not_sent,
    COALESCE(not_sent_by_rule, 0) AS not_sent_by_rule, COALESCE(not_again, 0) AS not_again,
    COALESCE(exempt, 0) AS exempt, COALESCE(unjudged, 0) AS unjudged,
    COALESCE(dry, 0) AS dry, COALESCE(against, 0) AS against,
    COALESCE(gaps, 0) AS gaps, COALESCE(measured, 0) AS measured, COALESCE(short, 0) AS short,
    COALESCE(answers, 0) AS answers, COALESCE(failed, 0) AS failed,
    COALESCE(pauses, 0) AS pauses, COALESCE(left_alone, 0) AS left_alone,
    least, most, smallest, median
FROM (
    SELECT host AS name FROM pair UNION SELECT host FROM answer UNION SELECT host FROM backoff
    UNION SELECT host FROM waiting WHERE host != ''
) LEFT JOIN (
    SELECT host AS of_urls, SUM(tries > 0) AS urls, SUM(tries) AS requests,
        SUM(tries = 0 AND by_rule + otherwise > 0) AS not_sent,
        SUM(tries = 0 AND by_rule > 0) AS not_sent_by_rule,
        SUM(tries > 0 AND by_rule + otherwise > 0) AS not_again,
        SUM(allowed) AS allowed, SUM(by_rule) AS refused_by_rule,
        SUM(otherwise) AS refused_otherwise,
        SUM(exempt) AS exempt, SUM(unjudged) AS unjudged, SUM(dry) AS dry, SUM(against) AS against
    FROM url GROUP BY host
) ON of_urls = name
LEFT JOIN (
    SELECT host AS of_robots, COUNT(*) AS robots FROM sent WHERE robots IS 1 GROUP BY host
) ON of_robots = name
LEFT JOIN (
    SELECT host AS of_delays, MIN(delay) AS least, MAX(delay) AS most
    FROM decision WHERE delay > 0 GROUP BY host
) ON of_delays = name
LEFT JOIN (
    SELECT host AS of_gaps, COUNT(*) AS gaps, SUM(delay > 0) AS measured, SUM(short) AS short,
        MIN(gap) AS smallest,
        AVG(gap) FILTER (WHERE nth IN ((number + 1) / 2, number / 2 + 1)) AS median
    FROM (
        SELECT *, COUNT(*) OVER (PARTITION BY host) AS number,
            ROW_NUMBER() OVER (PARTITION BY host ORDER BY gap) AS nth
        FROM gap
    ) GROUP BY host
) ON of_gaps = name
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

CREATE TABLE reason AS
SELECT host, cause, rule, line, digest, says = 2 AS dry, MIN(reason) AS reason,
    MIN("group") AS tokens, COUNT(DISTINCT url_key) AS urls, COUNT(*) AS requests
FROM verdict WHERE NOT allowed GROUP BY host, cause, rule, line, digest, says = 2;

CREATE VIEW refusing_line AS
SELECT digest, line, SUM(requests) AS refused FROM reason WHERE digest IS NOT NULL GROUP BY 1, 2;
CREATE VIEW refusing_file AS
SELECT digest, SUM(refused) AS refused FROM refusing_line WHERE line > 0 GROUP BY 1;

CREATE TABLE pause AS
SELECT host, COALESCE(what, 'other') AS result, COUNT(*) AS answers
FROM backoff GROUP BY 1, 2;

-- How many requests wait from a time on: what a worker tells for a cause holds until it tells
-- something else, or ends.
CREATE TABLE level AS
SELECT time, step, SUM(step) OVER (
    ORDER BY time, file, place ROWS UNBOUNDED PRECEDING) AS level
FROM (
    SELECT time, file, place, requests - LAG(requests, 1, 0) OVER (
        PARTITION BY file, cause ORDER BY place) AS step
    FROM (
        SELECT time, file, place, cause, requests FROM waiting WHERE host = ''
        UNION ALL SELECT time, its.file, place, cause, 0 FROM "end" AS its
        JOIN (SELECT DISTINCT file, cause FROM waiting WHERE host = '') AS told
        ON told.file = its.file
    )
);

CREATE VIEW site AS
SELECT pair.host, origin, state, said, status, url, fetched, digest, failure, changes
FROM pair LEFT JOIN robots USING (origin) WHERE origin IS NOT NULL;
CREATE TABLE site_state AS
SELECT host, COALESCE(said, 'not in the audit') AS state, COUNT(*) AS number
FROM site GROUP BY 1, 2;

-- Sites are origins.
CREATE VIEW total AS SELECT * FROM (
    SELECT COUNT(*) AS hosts, SUM(urls) AS urls, SUM(requests) AS requests, SUM(robots) AS robots,
        SUM(allowed) AS allowed, SUM(refused_by_rule) AS refused_by_rule,
        SUM(refused_otherwise) AS refused_otherwise, SUM(not_sent) AS not_sent,
        SUM(not_sent_by_rule) AS not_sent_by_rule, SUM(not_again) AS not_again,
        SUM(exempt) AS exempt, SUM(unjudged) AS unjudged, SUM(dry) AS dry, SUM(against) AS against,
        SUM(gaps) AS gaps, SUM(measured) AS measured, SUM(short) AS short,
        SUM(answers) AS answers, SUM(failed) AS failed, SUM(pauses) AS pauses,
        SUM(short > 0) AS hosts_short, SUM(pauses > 0) AS hosts_left_alone,
        MAX(most) AS longest_delay
    FROM host
) JOIN (
    SELECT COUNT(*) AS sites, SUM(lacking AND status IS NULL) AS sites_silent,
        SUM(lacking AND status IS NOT NULL) AS sites_failing
    FROM robots
);

CREATE INDEX gap_by_host ON gap (host);
CREATE INDEX pair_by_host ON pair (host);
CREATE INDEX pause_by_host ON pause (host);
CREATE INDEX reason_by_host ON reason (host);
CREATE INDEX refused_by_host ON decision (host) WHERE NOT allowed;
CREATE INDEX result_by_host ON result (host);
CREATE INDEX robots_by_origin ON robots (origin);
CREATE INDEX site_state_by_host ON site_state (host);
CREATE INDEX wait_by_host ON waiting (host) WHERE host != '';
