"""Effects of instructions that rules are about, a module for each family.

Importing the package registers all of them in `registry.EFFECTS`.
"""

from convc.auditor.effects import copies as copies
from convc.auditor.effects import fences as fences
from convc.auditor.effects import lanes as lanes
from convc.auditor.effects import mbarriers as mbarriers
from convc.auditor.effects import memory as memory
from convc.auditor.effects import multiply as multiply
from convc.auditor.effects import tensor as tensor
from convc.auditor.effects import warpgroups as warpgroups
