"""Trains a small transformer with DistributedDataParallel on synthetic text, and prints how long each step took.

Run it with `torchrun --nproc-per-node 4 examples/train_transformer.py`, or beside it with `--backend gloo`; and across
emulated datacenters, once per arm, with `ringroad exec --arm all -- python examples/train_transformer.py`, which makes
a table of the step times. It takes nothing from Ringroad but the name of the backend: a script of yours runs the same
way.

The text is a made-up language whose next character depends on the two before it, so the loss can fall. In every step
each rank sends and receives 2·(n−1)/n times the gradients, four bytes per parameter.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import suppress

import torch
import torch.distributed as dist
from torch import nn

VOCABULARY = 64


class Transformer(nn.Module):
    """A causal language model, pre-norm, with learnt positions."""

    def __init__(self, width: int, layers: int, context: int) -> None:
        super().__init__()
        self.characters, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(context, width)
        layer = nn.TransformerEncoderLayer(
            width, nhead=4, dim_feedforward=4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(context), persistent=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Characters (batch, context) to logits of the next ones (batch, context, VOCABULARY)."""
        places = torch.arange(text.shape[1])
        hidden = self.layers(self.characters(text) + self.positions(places), mask=self.mask, is_causal=True)
        return self.head(hidden)


def synthetic_text(batch: int, length: int, numbers: torch.Generator) -> torch.Tensor:
    """Characters that follow from the two before them, one in ten at random."""
    text = torch.randint(0, VOCABULARY, (batch, length), generator=numbers)
    noisy = torch.rand(batch, length, generator=numbers) < 0.1
    for place in range(2, length):
        follows = (3 * text[:, place - 1] + 5 * text[:, place - 2] + 7) % VOCABULARY
        text[:, place] = torch.where(noisy[:, place], text[:, place], follows)
    return text


def main() -> None:
    """Train, print, and check that all ranks end with the same parameters."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default=None, help="torch.distributed backend (default: ring if it is there)")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=128, help="the gradients are 4·12·width²·layers bytes or so")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--context", type=int, default=32)
    parser.add_argument("--batch", type=int, default=8, help="sequences per rank and step")
    options = parser.parse_args()

    with suppress(ImportError):
        import workers.group  # noqa: F401  (registers the backend "ring")
    has_ring = dist.is_backend_available("ring")
    dist.init_process_group(options.backend or ("ring" if has_ring else "gloo"))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(Transformer(options.width, options.layers, options.context))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    numbers = torch.Generator().manual_seed(rank)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if rank == 0:
        print(
            f"{dist.get_world_size()} ranks, backend {dist.get_backend()}, {parameters:,} parameters: "
            f"{4 * parameters / 1e6:.1f} MB of gradients a step",
            flush=True,
        )
    took_s = []
    for step in range(options.steps):
        text = synthetic_text(options.batch, options.context + 1, numbers)
        started = time.monotonic()
        loss = nn.functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        took_s.append(time.monotonic() - started)
        if rank == 0:
            print(f"step {step:4d}  {took_s[-1]:7.3f} s  loss {loss.item():.3f}", flush=True)
    _report(model, took_s)
    dist.destroy_process_group()


def _report(model: nn.Module, took_s: list[float]) -> None:
    """The slowest rank's time of each step, and whether the parameters are bit-equal everywhere."""
    slowest = torch.tensor(took_s, dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    mine = torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).view(torch.int32)
    least, most = mine.clone(), mine.clone()
    dist.all_reduce(least, dist.ReduceOp.MIN)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        steps = slowest[1:] if len(slowest) > 1 else slowest  # the first one warms up
        print(
            f"step time: median {steps.median():.3f} s, least {steps.min():.3f}, most {steps.max():.3f}; "
            f"parameters {'bit-equal' if torch.equal(least, most) else 'DIFFERENT'} on all ranks",
            flush=True,
        )


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    main()
    # An interpreter that has used torch's own gloo aborts now and then while it ends ("terminate called without an
    # active exception"); all is done and printed by now.
    sys.stdout.flush()
    os._exit(0)
