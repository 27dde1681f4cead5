"""Every option of every verb, declared once: name, type, default, help, what it reads, what it leaves.

A verb is one frozen dataclass here and one ``run(config)`` elsewhere (the table is in ``cli.py``).
``inputs()`` and ``outputs()`` are what ``stages.py`` needs to tell whether a result is fresh; this
module therefore imports nothing heavy.  A comment after a field becomes its ``--help`` text.
"""

from asr_parallel.config.align import (
    AdaptConfig,
    AlignConfig,
    ClassesConfig,
    GmmSystem,
    LabelConfig,
    LdaMlltConfig,
    MonoConfig,
    RealignConfig,
    SatConfig,
    TriConfig,
)
from asr_parallel.config.data import FeaturesConfig, Form, LangConfig, PrepareConfig, ValidateConfig
from asr_parallel.config.decode import (
    ClassifyConfig,
    DecodeConfig,
    GraphConfig,
    HypothesesConfig,
    ImportLatticesConfig,
    RescoreConfig,
)
from asr_parallel.config.kaldi import ExportKaldiConfig, ImportKaldiConfig
from asr_parallel.config.score import (
    CompareConfig,
    CompareWordsConfig,
    DoctorConfig,
    InfoConfig,
    ProjectConfig,
    ReportConfig,
    ResultsConfig,
    ScoreConfig,
)
from asr_parallel.config.train import (
    FramesConfig,
    ModelConfig,
    OptimConfig,
    PretrainConfig,
    ScheduleConfig,
    StrategyConfig,
    TrainConfig,
)
from asr_parallel.config.verb import (
    FeatureKind,
    MadeKind,
    VerbConfig,
    cores,
    cuts_path,
    features_of,
    found_sets,
    listing,
    model_files,
)

__all__ = [
    "AdaptConfig",
    "AlignConfig",
    "ClassesConfig",
    "ClassifyConfig",
    "CompareConfig",
    "CompareWordsConfig",
    "DecodeConfig",
    "DoctorConfig",
    "ExportKaldiConfig",
    "FeatureKind",
    "FeaturesConfig",
    "Form",
    "FramesConfig",
    "GmmSystem",
    "GraphConfig",
    "HypothesesConfig",
    "ImportKaldiConfig",
    "ImportLatticesConfig",
    "InfoConfig",
    "LabelConfig",
    "LangConfig",
    "LdaMlltConfig",
    "MadeKind",
    "ModelConfig",
    "MonoConfig",
    "OptimConfig",
    "PrepareConfig",
    "PretrainConfig",
    "ProjectConfig",
    "RealignConfig",
    "ReportConfig",
    "RescoreConfig",
    "ResultsConfig",
    "SatConfig",
    "ScheduleConfig",
    "ScoreConfig",
    "StrategyConfig",
    "TrainConfig",
    "TriConfig",
    "ValidateConfig",
    "VerbConfig",
    "cores",
    "cuts_path",
    "features_of",
    "found_sets",
    "listing",
    "model_files",
]
