"""What does a person read of a crawl, in the log and in the stats?"""
