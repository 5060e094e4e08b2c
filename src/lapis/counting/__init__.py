"""clause × world → number of true groundings, in total or per ground atom."""
