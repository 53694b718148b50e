"""Batches of different lengths as torch users keep them give the numbers of padded batches, or a named error."""

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_sequence, pad_sequence

import udtw
from udtw.errors import LengthError, OptionError, ShapeError
from udtw.nn import SigmaNet, SoftDTW, UDTWLoss

GENERATOR = torch.Generator().manual_seed(0)
STEPS_X, STEPS_Y = [7, 4, 9], [5, 8, 6]
X = [torch.randn(n, 2, generator=GENERATOR) for n in STEPS_X]
Y = [torch.randn(n, 2, generator=GENERATOR) for n in STEPS_Y]
PADDED = pad_sequence(X, batch_first=True), pad_sequence(Y, batch_first=True)


def nested(series):
    return torch.nested.nested_tensor(series, layout=torch.jagged)


FORMS = {
    "list": list,
    "tuple": tuple,
    "nested": nested,
    "strided nested": lambda series: torch.nested.nested_tensor(series, layout=torch.strided),
    "packed": lambda series: pack_sequence(series, enforce_sorted=False),
}
quiet = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")


def reference(**options):
    return udtw.align(*PADDED, lengths_x=STEPS_X, lengths_y=torch.tensor(STEPS_Y), **options)


@quiet
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_numbers_of_a_padded_batch(form):
    found = udtw.align(FORMS[form](X), FORMS[form](Y), gamma=0.5)
    torch.testing.assert_close(found.loss, reference(gamma=0.5).loss)
    torch.testing.assert_close(found.coupling, reference(gamma=0.5).coupling)
    assert found.matches().index.shape == (3, 9)
    torch.testing.assert_close(
        udtw.dtw(FORMS[form](X), FORMS[form](Y)), udtw.dtw(*PADDED, lengths_x=STEPS_X, lengths_y=STEPS_Y)
    )
    np.testing.assert_allclose(udtw.pairwise(FORMS[form](X), FORMS[form](Y)), udtw.pairwise(X, Y))


@quiet
@pytest.mark.parametrize("form", ["list", "nested", "packed"])
def test_gradients_reach_every_series(form):
    series = [one.clone().requires_grad_() for one in X]
    given = torch.nested.as_nested_tensor(series, layout=torch.jagged) if form == "nested" else FORMS[form](series)
    UDTWLoss()(given, Y).backward()
    padded = PADDED[0].clone().requires_grad_()
    UDTWLoss()(padded, PADDED[1], lengths_pred=STEPS_X, lengths_target=STEPS_Y).backward()
    for one, expected in zip(series, padded.grad, strict=True):
        torch.testing.assert_close(one.grad, expected[: len(one)])


def test_a_list_of_arrays_comes_back_as_numpy():
    found = udtw.align([one.numpy() for one in X], [one.numpy() for one in Y], gamma=0.5)
    assert isinstance(found.loss, np.ndarray)
    np.testing.assert_allclose(found.loss, reference(gamma=0.5).loss, rtol=1e-5)


def test_equal_lengths_are_a_batch_and_may_have_lengths():
    two = [X[0], X[0] + 1]
    torch.testing.assert_close(udtw.align(two, two).loss, udtw.align(torch.stack(two), torch.stack(two)).loss)
    short = udtw.align(two, two, lengths_x=[3, 7]).loss
    torch.testing.assert_close(short[0], udtw.align(X[0][:3], X[0]).loss)


@quiet
def test_variances_come_as_a_list_too():
    noise = [torch.rand(n, generator=GENERATOR) + 0.5 for n in STEPS_X]
    padded = pad_sequence(noise, batch_first=True, padding_value=1.0)
    expected = reference(var_x=padded).loss
    torch.testing.assert_close(udtw.align(X, Y, noise).loss, expected)
    torch.testing.assert_close(udtw.align(nested(X), Y, nested(noise)).loss, expected)
    for objective in (None, "faithful"):
        loss = UDTWLoss(objective=objective, reduction="none")
        torch.testing.assert_close(
            loss(X, Y, noise), loss(*PADDED, padded, lengths_pred=STEPS_X, lengths_target=STEPS_Y)
        )
    estimated = udtw.align(X, Y, "estimate", "estimate").loss
    torch.testing.assert_close(estimated, reference(var_x="estimate", var_y="estimate").loss)
    with pytest.raises(ShapeError, match="one variance per step of each series"):
        udtw.align(X, Y, noise[::-1])


@quiet
@pytest.mark.parametrize("objective", ["free_energy", "faithful"])
@pytest.mark.parametrize("net", [SigmaNet(2), SigmaNet(2, context=3), SigmaNet(2, length=6)])
def test_the_loss_takes_lists_of_lengths(objective, net):
    loss = UDTWLoss(net, objective=objective, normalize="length")
    expected = loss(*PADDED, lengths_pred=torch.tensor(STEPS_X), lengths_target=torch.tensor(STEPS_Y))
    torch.testing.assert_close(loss(*PADDED, lengths_pred=STEPS_X, lengths_target=tuple(STEPS_Y)), expected)
    torch.testing.assert_close(loss(X, nested(Y)), expected)
    torch.testing.assert_close(net(X), net(PADDED[0], STEPS_X))
    one = loss(PADDED[0][:1], PADDED[1], lengths_pred=[3, 4, 5], lengths_target=STEPS_Y)
    several = loss(PADDED[0][:1].expand(3, -1, -1), PADDED[1], lengths_pred=[3, 4, 5], lengths_target=STEPS_Y)
    torch.testing.assert_close(one, several)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # torch's own compiler still imports torch.jit
def test_lists_of_lengths_compile():
    def objective(x, y):
        return udtw.align(x, y, lengths_x=[7, 4, 9], lengths_y=[5, 8, 6], gamma=0.5).loss.sum()

    compiled = torch.compile(objective, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*PADDED), objective(*PADDED))


def test_one_gamma_for_each_pair_may_be_a_list():
    torch.testing.assert_close(reference(gamma=[0.5, 1.0, 2.0]).loss, reference(gamma=torch.tensor([0.5, 1, 2])).loss)


@quiet
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: udtw.align([one[:, 0] for one in X], Y), ShapeError, r"torch.stack"),
        (lambda: udtw.align([one[:, 0].numpy() for one in X], Y), ShapeError, r"arrays \(T, 1\)"),
        (lambda: udtw.align([X[0], Y[0].numpy()], Y), ShapeError, "tensors and arrays"),
        (lambda: udtw.align([X[0], X[1][:, :1]], Y[:2]), ShapeError, "number of features"),
        (lambda: udtw.align([X[0], X[1][:0]], Y[:2]), LengthError, r"x\[1\] has no step"),
        (lambda: udtw.align(X, Y, lengths_x=STEPS_X), OptionError, "already"),
        (lambda: udtw.align([[1.0, 2.0], [1.0]], [1.0, 2.0]), ShapeError, "not a numeric array"),
        (lambda: udtw.align(pack_sequence([torch.ones(3, 2, 2)]), Y), ShapeError, r"\(T,\) or \(T, d\)"),
        (lambda: udtw.PathDistribution(nested(X)), ShapeError, "a nested tensor"),
        (lambda: udtw.PathDistribution(FORMS["packed"](X)), ShapeError, "a PackedSequence"),
        (lambda: SoftDTW()(X, Y), ShapeError, "udtw.soft_dtw"),
        (lambda: SoftDTW()(nested(X), nested(Y)), ShapeError, "a nested tensor"),
        (lambda: UDTWLoss()(np.zeros((2, 3, 1)), np.zeros((2, 3, 1))), ShapeError, "must be a tensor"),
        (lambda: UDTWLoss()(*PADDED, lengths_pred=[7, 4]), LengthError, "lengths_pred"),
    ],
)
def test_what_cannot_be_told_is_refused_by_name(call, error, words):
    with pytest.raises(error, match=words):
        call()
