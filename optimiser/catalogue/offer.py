"""A price offer: what a cloud asks for an instance with GPUs."""

from typing import Literal

from pydantic import Field

from optimiser.schema import Schema

Term = Literal["on-demand", "spot"]


class Offer(Schema):
    """List price of one instance type in one region."""

    name: str = Field(min_length=1)
    """Catalogue name: cloud, region and instance."""
    gpu: str
    """Catalogue name of its GPU."""
    cloud: str
    """Seller."""
    region: str
    """Where it is sold."""
    instance: str
    """The seller's name of the instance type."""
    gpus_per_instance: int = Field(gt=0)
    """GPUs that are rented together."""
    usd_per_hour: float = Field(gt=0)
    """Price of the whole instance on demand."""
    spot_usd_per_hour: float | None = Field(default=None, gt=0)
    """Price of the whole instance as spot."""
    source: str = Field(min_length=3)
    """Public document that states the price."""
    as_of: str = Field(pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$")
    """Date of the price."""
    note: str | None = None
    """Caveat."""

    def price(self, term: Term) -> float | None:
        """Dollars per hour of the whole instance; None where it is not sold on that term."""
        return self.usd_per_hour if term == "on-demand" else self.spot_usd_per_hour

    def repriced(self, scale: float) -> "Offer":
        """The offer with its prices scaled."""
        spot = self.spot_usd_per_hour
        prices = {
            "usd_per_hour": self.usd_per_hour * scale,
            "spot_usd_per_hour": None if spot is None else spot * scale,
        }
        return self.model_copy(update=prices)
