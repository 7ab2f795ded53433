"""Which constants each GPU of the catalogue uses, and whose they are where it has none."""

RELATIVES = {
    "a10": "a100-sxm-80gb",
    "a100-pcie-40gb": "a100-sxm-80gb",
    "a100-pcie-80gb": "a100-sxm-80gb",
    "a100-sxm-40gb": "a100-sxm-80gb",
    "a10g": "a100-sxm-80gb",
    "a40": "a100-sxm-80gb",
    "gb200": "b200",
    "generic-80gb": "h100-sxm",
    "gh200-96gb": "h100-sxm",
    "h100-nvl": "h100-sxm",
    "h100-pcie": "h100-sxm",
    "h20": "h100-sxm",
    "l4": "l40s",
    "mi300x": "h100-sxm",
    "rtx-3090": "a100-sxm-80gb",
    "rtx-4090": "l40s",
    "rtx-5090": "b200",
    "rtx-a6000": "a100-sxm-80gb",
    "rtx-pro-6000": "b200",
    "t4": "a100-sxm-80gb",
    "v100-16gb": "a100-sxm-80gb",
    "v100-32gb": "a100-sxm-80gb",
}
"""The nearest GPU with measurements: the same architecture where there is one."""

END_TO_END_GPUS = ("h100-sxm", "h200", "b200", "b300")
KERNEL_GPUS = {"a100-sxm-80gb": "a100", "l40s": "l40s"}
"""Catalogue name and the kernel tables' name of GPUs without end-to-end runs."""

FAMILIES = {
    "hopper": ("h100-sxm", "h200", "h100-nvl", "h100-pcie", "h20", "gh200-96gb", "generic-80gb"),
    "blackwell": ("b200", "b300", "gb200", "rtx-5090", "rtx-pro-6000"),
    "ampere": (
        "a100-sxm-80gb",
        "a100-sxm-40gb",
        "a100-pcie-80gb",
        "a100-pcie-40gb",
        "a10",
        "a10g",
        "a40",
        "rtx-3090",
        "rtx-a6000",
    ),
    "ada": ("l40s", "l4", "rtx-4090"),
    "volta-turing": ("v100-16gb", "v100-32gb", "t4"),
    "cdna": ("mi300x",),
}
"""One file of constants each."""

BORROWED_DEVIATION = 1.3
"""Least multiplicative deviation of an efficiency that is borrowed, or fitted to one model only:
what groups of runs differ by."""
UNKNOWN_DEVIATION = 2.0
"""Of a constant that no measurement of the GPU touches."""
