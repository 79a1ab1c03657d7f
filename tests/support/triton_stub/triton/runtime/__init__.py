"""The runtime: which driver is active."""


class DriverConfig:
    """The runtime's choice of a driver."""

    _active = "the GPU"

    def set_active(self, driver):
        self._active = driver

    @property
    def active(self):
        return self._active


driver = DriverConfig()
