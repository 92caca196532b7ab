"""How features of several dates are reduced to those of a sample, where no option says it."""

#: kind of dates of a dataset -> options of `read_rows`
OF_DATES = {"series": {"temporal": "mean"}, "pair": {"pair": "concatenate"}}
