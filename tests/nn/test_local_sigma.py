"""LocalSigmaNet: what it reads, padding, and its range."""

import pytest
import torch

from udtw.errors import OptionError
from udtw.nn import LocalSigmaNet
from udtw.nn.local_sigma import local_noise, windows


def test_padding_changes_nothing():
    torch.manual_seed(0)
    net = LocalSigmaNet(2, outputs=2)
    x = torch.randn(3, 40, 2)
    lengths = torch.tensor([40, 25, 3])
    padded = net(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = net(x[row : row + 1, :length])
        torch.testing.assert_close(padded[row, :length], alone[0], rtol=1e-5, atol=1e-6)
        assert (padded[row, length:] == 1).all()


def test_sigma_starts_near_one_and_stays_in_its_range():
    torch.manual_seed(0)
    net = LocalSigmaNet(1, sigma_range=(0.5, 3.0))
    x = torch.randn(4, 50, 1)
    assert (net(x).sqrt() - 1).abs().max() < 0.5
    with torch.no_grad():
        net.out.weight.mul_(1e4)
    sigma = net(x).sqrt()
    assert sigma.min() >= 0.5 - 1e-5
    assert sigma.max() <= 3.0 + 1e-5


@pytest.mark.parametrize("bounds", [(2.0, 1.0), (0.0, 1.0), 3.0, (1.0, float("inf"))])
def test_a_wrong_range_is_named(bounds):
    with pytest.raises(OptionError, match="sigma_range"):
        LocalSigmaNet(1, sigma_range=bounds)


def test_local_noise_finds_the_variance_of_white_noise_and_none_on_a_line():
    torch.manual_seed(0)
    noise = 0.3 * torch.randn(1, 4000, 1)
    assert local_noise(noise + 0.01 * torch.arange(4000.0)[None, :, None]).mean().item() == pytest.approx(0.09, rel=0.1)
    assert local_noise(torch.arange(9.0)[None, :, None]).abs().max() < 1e-9
    assert (local_noise(torch.ones(1, 2, 1)) == 0).all()


def test_windows_repeat_the_last_step_of_each_length():
    x = torch.arange(5.0)[None, :, None].repeat(2, 1, 1)
    around = windows(x, torch.tensor([5, 3]), 1)[..., 0]
    assert around[0, 4].tolist() == [3, 4, 4]
    assert around[1, 2].tolist() == [1, 2, 2]


def test_a_burst_can_be_told_from_a_calm_stretch():
    """One gradient step per batch on the residual: after few of them σ is larger inside bursts."""
    torch.manual_seed(0)
    net = LocalSigmaNet(1)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)

    def bursts(count):
        clean = torch.sin(torch.arange(60) / 5 + 6 * torch.rand(count, 1))
        noise = torch.zeros(count, 60)
        noise[:, 20:32] = 2 * torch.randn(count, 12)
        return (clean + noise)[..., None], noise.square()

    for _ in range(60):
        x, residual = bursts(32)
        variance = net(x)
        loss = ((residual + 0.1) / variance + variance.log()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    variance = net(bursts(50)[0]).mean(0)
    assert variance[22:30].mean() > 5 * variance[40:].mean()


def test_every_feature_is_read_by_itself():
    torch.manual_seed(0)
    net = LocalSigmaNet(3, outputs=2)
    x = torch.randn(2, 30, 3)
    found = net(x)
    alone = LocalSigmaNet(1, outputs=2)
    alone.load_state_dict(net.state_dict() | {"scale": torch.ones(1)})
    for feature in range(3):
        torch.testing.assert_close(found[..., feature::3], alone(x[..., feature : feature + 1]))
