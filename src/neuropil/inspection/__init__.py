"""Read-only views of a model's inside as plain data, their pictures, and the report that shows them."""

from neuropil.inspection.recording import Tape as Tape
from neuropil.inspection.recording import record as record
