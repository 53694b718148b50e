"""Where a training step of skeletons spends its time: encoder or alignment. `python -m benchmarks.skeleton_step`.

5-way 1-shot, five queries a class, on generated actions of about 20 blocks, one torch thread.
"""

import time

import numpy as np
import torch

from udtw.fewshot import EpisodeSampler, Tokens
from udtw.skeleton import ActionRecognizer, Recipe
from udtw.skeleton.datasets import make_actions

REPEATS = 15


def main() -> None:
    torch.set_num_threads(1)
    actions = make_actions(8, 10, random_state=0)
    recognizer = ActionRecognizer(Recipe(metric="udtw", stride=3), actions.graph)
    source, model = recognizer.source(actions), recognizer.model.train()
    sampler = EpisodeSampler(source.labels, 5, 1, 5)
    spent: dict[str, list[float]] = {"encoder": [], "alignment": []}
    blocks: list[float] = []
    for number in range(REPEATS + 3):
        episode = sampler.episode(number)
        batch = source.batch(np.concatenate([episode.support.ravel(), episode.query.ravel()]))
        labels = [torch.from_numpy(own) for own in (episode.support_labels, episode.query_labels)]
        start = time.perf_counter()
        tokens = model.encode(batch)
        encoded = time.perf_counter()
        assert tokens.variance is not None, "the metric is udtw"
        parts = [part.detach().requires_grad_() for part in (tokens.features, tokens.variance)]
        cut = Tokens(parts[0], tokens.lengths, parts[1])
        middle = time.perf_counter()
        comparison, columns = model.compare(cut[5:], cut[:5], labels[0])
        model.objective(comparison, labels[1], columns).backward()
        aligned = time.perf_counter()
        torch.autograd.backward([tokens.features, tokens.variance], [part.grad for part in parts])
        end = time.perf_counter()
        if number >= 3:  # the first ones compile
            spent["encoder"].append(encoded - start + end - aligned)
            spent["alignment"].append(aligned - middle)
            blocks.append(float(tokens.lengths.float().mean()))
    median = {name: 1e3 * float(np.median(times)) for name, times in spent.items()}
    print(f"{np.mean(blocks):.0f} blocks a clip, 25 × 5 pairs, forward and backward, median of {REPEATS}")
    print(f"encoder {median['encoder']:.1f} ms, alignment {median['alignment']:.1f} ms: ", end="")
    print(f"the alignment takes {100 * median['alignment'] / sum(median.values()):.0f} % of the step")


if __name__ == "__main__":
    main()
