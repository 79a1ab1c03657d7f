"""Settings of Triton."""


class Tools:
    """Tools that come with Triton."""

    ptxas = "ptxas"
    ptxas_blackwell = "ptxas-blackwell"


nvidia = Tools()
