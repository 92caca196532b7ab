from permafrost.evaluators import detection as detection
from permafrost.evaluators import map_accuracy as map_accuracy
from permafrost.interface.estimators import KNN as KNN
from permafrost.interface.estimators import LinearSweep as LinearSweep
from permafrost.interface.estimators import SGDLinear as SGDLinear
from permafrost.interface.extraction import extract as extract
from permafrost.interface.ranking import rank as rank
from permafrost.interface.regressor import Ridge as Ridge
from permafrost.interface.results import Results as Results
from permafrost.interface.scoring import compare as compare
from permafrost.interface.scoring import evaluate as evaluate
from permafrost.interface.scoring import measures as measures
from permafrost.interface.scoring import neuco_bench as neuco_bench

__version__: str
