-- What is kept of the records of an audit, and what they say one by one.

-- SQLite holds 16 MiB in memory; what is more goes to a temporary file of its own.
PRAGMA cache_size = -16384;
PRAGMA journal_mode = OFF;

-- A table for each type of record. Its columns are fields, and: "file", the number of the file;
-- "place", that of the line; "origin" and "host", as far as something tells; "url_key", a number
-- that stands for the URL. Decisions that allow, most of an audit, fill the first eight columns.
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

-- The time before a request of a host (``gaps_of``), and whether it is short of the delay.
CREATE TABLE gap (host, time, gap, delay, short);

-- Each text of a robots.txt, once.
CREATE TABLE body (digest PRIMARY KEY, packed);

-- What a decision says: 0 refused by a rule, 1 refused otherwise, 2 not allowed, but sent as REP_OBEY
-- leaves that out, 3 allowed.
CREATE VIEW verdict AS SELECT *, CASE
    WHEN allowed THEN 3 WHEN enforced IS 0 THEN 2 WHEN cause = 'rule' THEN 0 ELSE 1 END AS says
FROM decision;

CREATE VIEW reply AS SELECT *, COALESCE(status, error, 'no answer') AS result,
    status IS NULL OR status = 429 OR status >= 500 AS failed
FROM answer;

-- What is counted by cause: requests refused, sent all the same as REP_OBEY says, sent unjudged, of
-- pages in a browser, and dropped by the rules of pages; answers; times that a host was left alone.
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

-- The times of the first and of the last record.
CREATE VIEW span AS SELECT MIN(time) AS first, MAX(time) AS last FROM (
    SELECT time FROM happening UNION ALL SELECT time FROM decision
    UNION ALL SELECT time FROM crawl UNION ALL SELECT time FROM "end"
    UNION ALL SELECT time FROM copy UNION ALL SELECT time FROM waiting
    UNION ALL SELECT time FROM browser UNION ALL SELECT time FROM dropped
    UNION ALL SELECT time FROM demand
);

-- The workers, each from its start to its end; "ended" is why, NULL: nobody says.
CREATE VIEW run AS
SELECT time, spider, agent, worker, version, settings, (
    SELECT COALESCE(reason, 'ended') FROM "end" AS its
    WHERE its.file = crawl.file AND place > crawl.place AND place < COALESCE((
        SELECT MIN(next.place) FROM crawl AS next
        WHERE next.file = crawl.file AND next.place > crawl.place), 1e18)
    ORDER BY place LIMIT 1
) AS ended
FROM crawl;

-- Requests that still waited when their run ended, by cause. Python writes numbers that are none,
-- which is no JSON.
CREATE VIEW unsent AS
SELECT key AS cause, SUM(value) AS requests
FROM "end", json_each(IIF(json_valid(unsent), unsent, '{}'))
WHERE json_each.type = 'integer' AND value BETWEEN 0 AND 1e11 GROUP BY 1;

-- At most so many requests waited for a cause.
CREATE VIEW peak AS
SELECT cause, MAX(requests) AS most FROM waiting WHERE host = '' GROUP BY 1;

-- By host and time: the delay that a decision on an origin names; the headers of an answer, or that
-- a request has failed, and when it "began"; or neither: a request is sent.
CREATE VIEW pace AS SELECT * FROM (
    SELECT host, time, origin, delay, NULL AS began FROM decision WHERE delay IS NOT NULL
    UNION ALL SELECT host, time - seconds + headers, NULL, NULL, time - seconds FROM answer
    WHERE headers IS NOT NULL
    UNION ALL SELECT host, time, NULL, NULL, NULL FROM sent
) ORDER BY host, time, delay IS NULL, began IS NULL;
