"""Task packs: one folder per task, loaded into a frozen TaskSpec."""

from templates.errors import PackError, PackNotFound, Problem, TemplateError
from templates.pack import BUILT_IN, FILES, Pack, copy_pack, find_pack, load_pack, pack_files, pack_folders
from templates.rows import Context, SeedRow
from templates.spec import TaskSpec

__all__ = [
    "BUILT_IN", "FILES", "Context", "Pack", "PackError", "PackNotFound", "Problem", "SeedRow", "TaskSpec",
    "TemplateError", "copy_pack", "find_pack", "load_pack", "pack_files", "pack_folders",
]  # fmt: skip
