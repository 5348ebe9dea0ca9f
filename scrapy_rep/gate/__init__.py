"""Who judges each request, and what holds in a crawl?"""
