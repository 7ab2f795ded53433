"""Any Hugging Face config.json, read into an exact architecture shape without its libraries."""

from optimiser.catalogue.hf_config.errors import ConfigError, Problem
from optimiser.catalogue.hf_config.read import read_config, shape_of, stored_weight_bytes
from optimiser.catalogue.hf_config.shape import CacheLayers, Experts, Quantisation, Shape

__all__ = [
    "CacheLayers",
    "ConfigError",
    "Experts",
    "Problem",
    "Quantisation",
    "Shape",
    "read_config",
    "shape_of",
    "stored_weight_bytes",
]
