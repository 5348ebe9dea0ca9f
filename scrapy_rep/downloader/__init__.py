"""What Scrapy's downloader does, and how it is told."""
