"""From a step to the names and numbers of its template; importing this package registers every kind of step."""

from convc.compiler.emit.fragments import epilogue as epilogue
from convc.compiler.emit.fragments import lanes as lanes
from convc.compiler.emit.fragments import operands as operands
from convc.compiler.emit.fragments import persistent as persistent
from convc.compiler.emit.fragments.base import fragment as fragment
