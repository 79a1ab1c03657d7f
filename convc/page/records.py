"""A page as an object: its contents, which show themselves in a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from convc.page.contents import PageContents
from convc.page.contents import PageKernel as PageKernel
from convc.page.contents import PageLayer as PageLayer
from convc.report.format import counted

FRAME = "width:100%;height:85vh;border:0"
ALLOWED = "allow-scripts allow-downloads allow-modals"
"""What a page does in the frame of a notebook: its sliders, saving a trace, printing."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PageReport(PageContents):
    """The contents of a page, which `convc.page.render` writes."""

    def _repr_html_(self) -> str:
        """The page in a frame of its own, for notebooks: its style and its script do not reach what is around it."""
        # Imported when a notebook shows it: the page draws everything that there is.
        from convc.page.render import page_html

        return f'<iframe sandbox="{ALLOWED}" style="{FRAME}" srcdoc="{escape(page_html(self).decode())}"></iframe>'

    def __repr__(self) -> str:
        counts = f"{counted(len(self.layers), 'layer')}, {counted(len(self.kernels), 'kernel')}"
        return f"<PageReport {self.source}: {counts} on {self.chip.name}>"
