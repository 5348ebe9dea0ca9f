"""May this request go now, later, or never?"""

from scrapy_rep.judging.agents import Agents
from scrapy_rep.judging.pace_names import make_namer
from scrapy_rep.judging.patience import Patience
from scrapy_rep.judging.purposes import Purposes
from scrapy_rep.judging.ruling import Action, Judge, Objection, Ruling
from scrapy_rep.judging.symptoms import Symptoms
from scrapy_rep.judging.target import host_of, judged, leave_behind, note_origin

__all__ = [
    "Action",
    "Agents",
    "Judge",
    "Objection",
    "Patience",
    "Purposes",
    "Ruling",
    "Symptoms",
    "host_of",
    "judged",
    "leave_behind",
    "make_namer",
    "note_origin",
]
