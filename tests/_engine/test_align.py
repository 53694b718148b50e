"""`align` and its thin siblings: options, forms of input, odd input. What is refused is in test_bad_input.py."""

import numpy as np
import pytest
import torch

import udtw
from udtw.errors import GammaError, LengthError

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((3, 9, 2)), RNG.standard_normal((3, 7, 2))
VAR_X, VAR_Y = RNG.uniform(0.5, 2, (3, 9)), RNG.uniform(0.5, 2, (3, 7))


def test_loss_is_distance_plus_weighted_regularisers():
    a = udtw.align(X, Y, VAR_X, VAR_Y, gamma=0.5, beta=0.3, lam=2.0, weighting="precision")
    deviation = a.paths.expect((a.variance - 1) ** 2)
    assert np.allclose(a.loss, a.distance + 0.3 * a.regularizer + 2.0 * deviation, rtol=1e-12)


@pytest.mark.parametrize("beta", [0.0, 1e-50, 1e-42, 1e-8, 1.0, -2.0, 1e8, 1e30])
def test_a_wanted_gradient_does_not_change_the_values(beta):
    x, y, a, b = (torch.from_numpy(t).float() for t in (X, Y, VAR_X, VAR_Y))
    plain = udtw.align(x, y, a, b, beta=beta, weighting="precision")
    tracked = udtw.align(x.clone().requires_grad_(), y, a, b, beta=beta, weighting="precision")
    assert torch.allclose(tracked.distance, plain.distance, rtol=1e-6)
    assert torch.allclose(tracked.regularizer, plain.regularizer, rtol=1e-5, atol=1e-5)


def test_forms_numpy_torch_single_and_batch_agree():
    batch = udtw.align(X, Y, VAR_X, VAR_Y)
    assert isinstance(batch.loss, np.ndarray)
    tensors = udtw.align(*map(torch.from_numpy, (X, Y, VAR_X, VAR_Y)))
    assert isinstance(tensors.loss, torch.Tensor)
    assert np.array_equal(tensors.loss.numpy(), batch.loss)
    single = udtw.align(X[0], Y[0], VAR_X[0], VAR_Y[0])
    assert np.ndim(single.loss) == 0
    assert single.loss == batch.loss[0]
    assert single.coupling.shape == single.cost.shape == single.variance.shape == (9, 7)
    assert udtw.align(X[:1], Y[:1]).loss.shape == (1,)  # a batch of one stays a batch
    flat = udtw.align(X[0, :, 0], Y[0, :, 0])
    assert flat.loss == udtw.align(X[0, :, :1], Y[0, :, :1]).loss


def test_one_sequence_against_a_batch():
    spread = udtw.align(X[0], Y, VAR_X[0], VAR_Y)
    assert np.allclose(spread.loss, udtw.align(np.stack([X[0]] * 3), Y, np.stack([VAR_X[0]] * 3), VAR_Y).loss)


@pytest.mark.parametrize("count", [2, 5])
def test_one_sequence_against_as_many_as_it_has_steps_or_features(count):
    """No axis is taken for another where their sizes agree by chance."""
    x, y = RNG.standard_normal((5, 2)), RNG.standard_normal((count, 4, 2))
    a, joint = RNG.uniform(0.5, 2, 5), RNG.uniform(0.5, 2, (5, 4))
    for options in ({"var_x": a}, {"variance": joint}):
        for found in (udtw.align(x, y, **options), udtw.align(x[None], y, **options)):
            for b in range(count):
                assert found.loss[b] == pytest.approx(udtw.align(x, y[b], **options).loss, rel=1e-12)


def test_a_scalar_variance_and_one_sided_variance():
    assert np.allclose(
        udtw.align(X, Y, 2.0, 2.0).distance, udtw.align(X, Y, np.full((3, 9), 2.0), np.full((3, 7), 2.0)).distance
    )
    one_sided = udtw.align(X, Y, VAR_X)
    assert np.allclose(one_sided.variance, 0.5 * (VAR_X[:, :, None] + 1))


def test_joint_variance_equals_the_steps_it_is_made_of():
    steps = udtw.align(X, Y, VAR_X, VAR_Y, weighting="precision")
    variance = 0.5 * (VAR_X[:, :, None] + VAR_Y[:, None, :])
    joint = udtw.align(X, Y, variance=variance, weighting="precision")
    assert np.allclose(steps.loss, joint.loss, rtol=1e-13)


def test_a_ready_made_cost_equals_the_sequences_it_is_made_of():
    cost = ((X[:, :, None] - Y[:, None]) ** 2).sum(3)
    assert np.allclose(udtw.align(None, None, VAR_X, VAR_Y, cost=cost).loss, udtw.align(X, Y, VAR_X, VAR_Y).loss)
    assert np.allclose(udtw.dtw(None, None, cost=cost), udtw.dtw(X, Y))


@pytest.mark.parametrize("dim", [1, 16, 17, 256])
def test_many_features_by_matrix_product_equal_the_direct_sum(dim):
    x, y = RNG.standard_normal((2, 8, dim)) + 1000, RNG.standard_normal((2, 6, dim)) + 1000
    cost = ((x[:, :, None] - y[:, None]) ** 2).sum(3)
    assert np.allclose(udtw.align(x, y).distance, udtw.align(None, None, cost=cost).distance, rtol=1e-10)


def test_lengths_of_one_side_alone():
    """The other is as long as its array; padding may hold anything."""
    padded = np.concatenate([X, np.full((3, 2, 2), np.nan)], axis=1)
    expected = udtw.align(X, Y)
    for found in (udtw.align(padded, Y, lengths_x=9), udtw.align(Y, padded, lengths_y=[9, 9, 9])):
        assert np.allclose(found.loss, expected.loss, rtol=1e-12)
    leaf = torch.from_numpy(padded).requires_grad_()
    udtw.align(leaf, torch.from_numpy(Y), lengths_x=9).coupling.square().sum().backward()
    assert torch.isfinite(leaf.grad).all()


def test_debias_makes_self_distance_zero_and_leaves_the_regulariser():
    for distance in ("expected", "soft_min"):
        a = udtw.align(X, X, VAR_X, VAR_X, debias=True, distance=distance, weighting="precision")
        assert np.allclose(a.distance, 0, atol=1e-12)
        plain = udtw.align(X, X, VAR_X, VAR_X, weighting="precision")
        assert np.allclose(a.regularizer, plain.regularizer)
    assert (udtw.soft_dtw_divergence(X, Y) > 0).all()


def test_divergence_is_made_of_three_soft_dtws():
    expected = udtw.soft_dtw(X, Y) - 0.5 * (udtw.soft_dtw(X, X) + udtw.soft_dtw(Y, Y))
    assert np.allclose(udtw.soft_dtw_divergence(X, Y), expected)


def test_normalisation():
    plain = udtw.align(X, Y, VAR_X, VAR_Y, lam=0.5, weighting="precision")
    by_length = udtw.align(X, Y, VAR_X, VAR_Y, lam=0.5, normalize="length", weighting="precision")
    assert np.allclose(by_length.loss, plain.loss / 9)
    by_path = udtw.align(X, Y, VAR_X, VAR_Y, lam=0.5, normalize="path", weighting="precision")
    assert np.allclose(by_path.loss, plain.loss / plain.coupling.sum((1, 2)))
    assert np.allclose(udtw.dtw(X, Y, normalize="length"), udtw.dtw(X, Y) / 9)
    assert np.allclose(udtw.euclidean(X, X + 1, normalize="length"), 2)


def test_squared_or_not():
    assert np.allclose(udtw.dtw(X, Y, squared=False) ** 2, udtw.dtw(X, Y))
    assert np.allclose(udtw.euclidean(X, X + 1), 18)
    assert np.allclose(udtw.euclidean(X, X + 1, squared=False), np.sqrt(18))
    assert udtw.dtw(None, None, cost=np.full((3, 3), -1.0), squared=False) == 0  # a cost of one's own may be negative


def test_euclidean_with_lengths_ignores_padding():
    padded = np.concatenate([X, np.full((3, 2, 2), np.nan)], axis=1)
    assert np.allclose(udtw.euclidean(padded, padded + 1, lengths_x=9, lengths_y=9), 18)
    with pytest.raises(LengthError, match="equal lengths"):
        udtw.euclidean(X, Y)
    with pytest.raises(LengthError, match="equal lengths"):
        udtw.euclidean(X, X, lengths_x=[9, 4, 2], lengths_y=[9, 4, 3])


@pytest.mark.parametrize("backend", ["numba", "portable"])
def test_dtw_gradient_follows_the_least_path(backend):
    x, y = torch.from_numpy(X).requires_grad_(), torch.from_numpy(Y)
    value = udtw.dtw(x, y, backend=backend)
    (grad,) = torch.autograd.grad(value.sum(), x)
    limit = udtw.align(x, y, gamma=1e-6)
    (expected,) = torch.autograd.grad(limit.distance.sum(), x)
    assert torch.allclose(grad, expected, atol=1e-6)


# --- odd but valid input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numba", "portable"])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 50), (50, 1), (2, 3), (300, 2), (2, 300)])
def test_extreme_shapes(backend, n, m):
    x, y = torch.randn(2, n, 1, dtype=torch.float64), torch.randn(2, m, 1, dtype=torch.float64)
    found = udtw.align(x.requires_grad_(), y, backend=backend)
    found.loss.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert torch.allclose(found.coupling.sum((1, 2)), found.paths.expect(torch.ones(2, n, m, dtype=torch.float64)))


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_costs(scale, dtype):
    cost = (RNG.random((6, 5)) * scale).astype(dtype)
    for gamma in (1e-3 * scale, scale, 1e3 * scale):
        found = udtw.PathDistribution(cost, gamma=float(gamma))
        reference = udtw.PathDistribution((cost / dtype(scale)).astype(np.float64), gamma=float(gamma / scale))
        assert np.allclose(found.coupling, reference.coupling, atol=1e-4 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("gamma", [1e-12, 1e12])
def test_gamma_at_both_ends(gamma):
    x = torch.from_numpy(X).requires_grad_()
    found = udtw.align(x, torch.from_numpy(Y), gamma=gamma)
    found.loss.sum().backward()
    assert torch.isfinite(x.grad).all()
    if gamma < 1:
        assert torch.allclose(found.distance, udtw.dtw(x, torch.from_numpy(Y)))


def test_gamma_is_one_number_for_all_pairs_or_one_for_each():
    expected = udtw.align(X, Y, gamma=0.5).distance
    for gamma in (torch.tensor(0.5), torch.tensor([0.5]), np.array([0.5]), np.full(3, 0.5), torch.full((3,), 0.5)):
        assert np.allclose(udtw.align(X, Y, gamma=gamma).distance, expected)
    for gamma in (torch.full((2,), 0.5), torch.full((3, 1), 0.5)):
        with pytest.raises(GammaError, match="one number, or one for each of 3 pairs"):
            udtw.align(X, Y, gamma=gamma)


def test_constant_series_have_distance_zero():
    assert udtw.align(np.ones(20), np.ones(30)).distance == 0
    assert udtw.dtw(np.ones(20), np.ones(30)) == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_computes_in_float32(dtype):
    x, y = torch.randn(2, 20, 3).to(dtype), torch.randn(2, 15, 3).to(dtype)
    found = udtw.align(x.requires_grad_(), y)
    assert found.loss.dtype == torch.float32
    assert torch.equal(found.loss, udtw.align(x.float(), y.float()).loss)
    found.loss.sum().backward()
    assert x.grad.dtype == dtype


def test_mixed_dtypes_take_the_widest():
    found = udtw.align(torch.from_numpy(X).float(), torch.from_numpy(Y))
    assert found.loss.dtype == torch.float64
    assert udtw.align([1, 2, 3], [1, 3]).loss.dtype == np.float64


def test_strided_expanded_and_read_only_inputs_work_and_stay_unchanged():
    wide = RNG.standard_normal((9, 3, 4))
    strided = wide.transpose(1, 0, 2)[:, ::2, 1:3]
    frozen = Y.copy()
    frozen.flags.writeable = False
    expected = udtw.align(np.ascontiguousarray(strided), Y).loss
    before = wide.copy()
    assert np.array_equal(udtw.align(strided, frozen).loss, expected)
    assert np.array_equal(udtw.align(strided[:, ::-1], frozen).loss, udtw.align(strided[:, ::-1].copy(), frozen).loss)
    assert np.array_equal(wide, before)
    assert np.array_equal(frozen, Y)
    expanded = torch.from_numpy(X[:1]).expand(3, -1, -1)
    assert torch.allclose(
        udtw.align(expanded, torch.from_numpy(Y)).loss, udtw.align(expanded.clone(), torch.from_numpy(Y)).loss
    )


def test_inputs_are_never_written_to():
    tensors = [torch.from_numpy(a.copy()).requires_grad_() for a in (X, Y, VAR_X, VAR_Y)]
    found = udtw.align(*tensors, lengths_x=[9, 4, 2], lengths_y=[7, 7, 1], band=3, debias=True)
    (found.loss.sum() + found.coupling.sum()).backward()
    for tensor, original in zip(tensors, (X, Y, VAR_X, VAR_Y), strict=True):
        assert np.array_equal(tensor.detach().numpy(), original)


def test_an_empty_batch():
    x = torch.zeros(0, 5, 2, requires_grad=True)
    found = udtw.align(x, torch.zeros(0, 4, 2))
    assert found.loss.shape == (0,)
    found.loss.sum().backward()
    assert x.grad.shape == (0, 5, 2)


def test_results_looked_at_without_gradients_do_not_lose_them():
    x = torch.from_numpy(X).requires_grad_()
    found = udtw.align(x, torch.from_numpy(Y))
    with torch.no_grad():
        assert not found.coupling.requires_grad
    assert found.coupling.requires_grad


# --- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numba", "portable"])
def test_beta_may_be_learned(backend):
    beta = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    tensors = [torch.from_numpy(one) for one in (X, Y, VAR_X, VAR_Y)]
    options = {"backend": backend, "weighting": "precision"}
    found = udtw.align(*tensors, beta=beta, **options)
    assert torch.allclose(found.loss, udtw.align(*tensors, beta=0.4, **options).loss)
    (gradient,) = torch.autograd.grad(found.loss.sum(), beta)
    assert torch.allclose(gradient, found.regularizer.sum())
