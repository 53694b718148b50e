import pytest
import torch

from tests.fewshot.helpers import random_tokens
from udtw.errors import OptionError
from udtw.fewshot.dictionary import Dictionary, histogram_intersection


def test_codes_by_hand():
    dictionary = Dictionary(4, 3, 2, n_nearest=2, temperature=0.5)
    distance = torch.tensor([[1.0, 0.5, 3.0, 0.7]])
    odds = torch.exp(-3 * torch.tensor([0.5, 0.7]) / 0.5)
    expected = torch.tensor([[0.0, odds[0] / odds.sum(), 0.0, odds[1] / odds.sum()]])
    torch.testing.assert_close(dictionary.codes(distance), expected)


def test_reconstruction_mixes_atoms():
    dictionary = Dictionary(3, 4, 2, n_nearest=1)
    torch.nn.init.normal_(dictionary.atoms)
    out = dictionary.reconstruct(torch.tensor([[0.25, 0.75, 0.0]]))
    torch.testing.assert_close(out.features[0], 0.25 * dictionary.atoms[0] + 0.75 * dictionary.atoms[1])
    assert out.lengths.tolist() == [4]


def test_atoms_start_as_given_sequences():
    tokens = random_tokens(4)
    dictionary = Dictionary(3, 5, 4, n_nearest=1)
    dictionary.start_from(tokens)
    torch.testing.assert_close(dictionary.atoms.detach(), tokens[:3].resampled(5).float())
    with pytest.raises(OptionError, match="as many sequences"):
        Dictionary(5, 5, 4, n_nearest=1).start_from(tokens)


def test_histogram_intersection_by_hand():
    x, y = torch.tensor([[0.5, 0.5, 0.0]]), torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.2, 0.8, 0.0]])
    torch.testing.assert_close(histogram_intersection(x, y), torch.tensor([[1.0, 0.0, 0.7]]))


@pytest.mark.parametrize("options", [{"n_nearest": 0}, {"n_nearest": 9}, {"temperature": 0.0}])
def test_impossible_dictionaries_are_refused(options):
    with pytest.raises(OptionError):
        Dictionary(8, 5, 4, **options)
