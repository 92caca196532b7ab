# Permafrost's workflow, of the version that is installed, with the configuration of this folder.
from permafrost.core.home import SNAKEFILE


configfile: "config/config.yaml"


module permafrost:
    snakefile:
        str(SNAKEFILE)
    config:
        config


use rule * from permafrost


# A rule may be changed here, such as what its jobs ask for:
#
# use rule extract from permafrost with:
#     threads: 8
