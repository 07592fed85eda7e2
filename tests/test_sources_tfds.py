import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from loaderproof.loaders import sources
from loaderproof.loaders.sources import SourceError
from loaderproof.loaders.sources.arrays import ArraySource

pytest.importorskip("tensorflow_datasets", exc_type=ImportError)
