"""What do Scrapy's engine and downloader do, and how are they told?"""
