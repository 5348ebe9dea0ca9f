"""Scrapy's own tests with the add-on enabled for every crawler, and why some of them differ."""
