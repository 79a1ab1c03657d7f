from triton.backends.driver import DriverBase

class _Config:
    _active: DriverBase | None
    def set_active(self, driver: DriverBase) -> None: ...

driver: _Config
