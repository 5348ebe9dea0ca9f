"""The only code that touches Scrapy's downloader, its slots and the engine's inner parts."""
