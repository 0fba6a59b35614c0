"""templates describes: one folder per task, loaded into one frozen TaskSpec."""

from templates.errors import PackError, Problem, TemplateError
from templates.pack import BUILT_IN, FILES, Pack, find_pack, load_pack, pack_folders
from templates.rows import Context, SeedRow
from templates.spec import TaskSpec

__all__ = [
    "BUILT_IN",
    "FILES",
    "Context",
    "Pack",
    "PackError",
    "Problem",
    "SeedRow",
    "TaskSpec",
    "TemplateError",
    "find_pack",
    "load_pack",
    "pack_folders",
]
