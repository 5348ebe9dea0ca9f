-- ARGV: prefix, id, requests. Answers {how many wait or are handed out, how many were lost,
-- whether that is wrong}.
return length()
