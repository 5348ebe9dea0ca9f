"""How is a robots.txt reached, and what does an answer mean? RFC 9309 2.3."""
