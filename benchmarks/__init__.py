"""Speed beside other libraries: ours and the peer do the same work, taking turns in one run, and the ratio is
printed."""
