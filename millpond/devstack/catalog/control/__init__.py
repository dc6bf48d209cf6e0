"""Faults on order, under `/_control`: no part of the hoglake contract, and off unless it is asked for.

A rule says which requests it meets, and what then goes wrong on the wire or in the catalog. What it breaks is
real: the work of a lost reply was done, a table that was dropped first is gone.
"""

from millpond.devstack.catalog.control.injection import Injection
from millpond.devstack.catalog.control.panel import ControlPanel
from millpond.devstack.catalog.control.rulebook import RuleBook

__all__ = ["ControlPanel", "Injection", "RuleBook"]
