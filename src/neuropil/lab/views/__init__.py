"""What each view of the lab answers; `neuropil.lab.view` has the table of them."""
