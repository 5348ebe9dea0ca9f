"""What do we know of this origin now?"""

from scrapy_rep.policies.agreed import Approval, Permissions
from scrapy_rep.policies.fetcher import Fetcher
from scrapy_rep.policies.lifecycle import Known
from scrapy_rep.policies.service import Policies

__all__ = ["Approval", "Fetcher", "Known", "Permissions", "Policies"]
