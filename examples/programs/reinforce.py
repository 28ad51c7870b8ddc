"""REINFORCE learns to balance a pole on a cart.

    reinforce.py [EPISODES]
"""
import math
import sys

import torch
from torch import nn
from torch.distributions import Categorical

STEPS = 500
GAMMA = 0.99


class Cart:
    """CartPole-v1 of Gymnasium."""

    def __init__(self):
        self.state = (0.1 * torch.rand(4) - 0.05).tolist()

    def push(self, right):
        """Pushes the cart for 0.02 s. Returns whether the episode continues."""
        x, speed, angle, spin = self.state
        sine, cosine = math.sin(angle), math.cos(angle)
        force = (10.0 if right else -10.0) + 0.05 * spin**2 * sine
        turn = (9.8 * sine - cosine * force / 1.1) / (
            0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1)
        )
        gain = force / 1.1 - 0.05 * turn * cosine / 1.1
        x += 0.02 * speed
        speed += 0.02 * gain
        angle += 0.02 * spin
        spin += 0.02 * turn
        self.state = x, speed, angle, spin
        return abs(x) < 2.4 and abs(angle) < 12 * math.pi / 180


def play(policy):
    """Returns the log-probabilities of the actions of one episode."""
    cart = Cart()
    log_probs = []
    for _ in range(STEPS):
        choice = Categorical(logits=policy(torch.tensor(cart.state)))
        action = choice.sample()
        log_probs.append(choice.log_prob(action))
        if not cart.push(action.item() == 1):
            break
    return torch.stack(log_probs)


def returns(count):
    """Returns the discounted sums of rewards from each step on, normalised."""
    sums, later = [], 0.0
    for _ in range(count):
        later = 1 + GAMMA * later
        sums.insert(0, later)
    r = torch.tensor(sums)
    return (r - r.mean()) / (r.std() + 1e-6)


def main():
    episodes = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    torch.manual_seed(1)
    policy = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    mean = 0.0
    for episode in range(1, episodes + 1):
        chosen = play(policy)
        count = len(chosen)
        loss = -(chosen * returns(count)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean += (count - mean) / min(episode, 20)
        if episode % 50 == 0:
            print(f"episode {episode}: {mean:.0f} steps")
    print(f"mean of the last episodes: {mean:.1f} steps")


if __name__ == "__main__":
    main()
