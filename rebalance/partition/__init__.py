"""WHAT maps a key to a channel: the ring, and the function made of splits, routes and ring."""

from rebalance.partition.function import Key, KeyType, PartitionFunction, Share, slots_of
from rebalance.partition.lookup import channels_at
from rebalance.partition.ring import REPLICAS, SLOT_SHIFT, SLOTS, consistent_ring, ring_of

__all__ = [
    "REPLICAS",
    "SLOTS",
    "SLOT_SHIFT",
    "Key",
    "KeyType",
    "PartitionFunction",
    "Share",
    "channels_at",
    "consistent_ring",
    "ring_of",
    "slots_of",
]
