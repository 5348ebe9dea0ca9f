"""When may this host be asked again?"""

from scrapy_rep.pacing.health import Health
from scrapy_rep.pacing.hosts import HOSTS, Asking
from scrapy_rep.pacing.keeper import Keeper, OverBudgetError
from scrapy_rep.pacing.pace import FREE, Pace, pace_of
from scrapy_rep.pacing.turns import Bookings, ParkedError, early_of

__all__ = [
    "FREE",
    "HOSTS",
    "Asking",
    "Bookings",
    "Health",
    "Keeper",
    "OverBudgetError",
    "Pace",
    "ParkedError",
    "early_of",
    "pace_of",
]
