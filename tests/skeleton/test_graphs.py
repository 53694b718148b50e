import numpy as np
import pytest

from udtw.errors import OptionError
from udtw.skeleton import GRAPHS, from_edges, graph
from udtw.skeleton.graphs import graph_name


@pytest.mark.parametrize(("name", "joints"), [("ntu25", 25), ("openpose18", 18), ("kinect20", 20), ("upperbody8", 8)])
def test_every_layout_is_a_tree_over_all_its_joints(name, joints):
    layout = graph(name)
    assert len(layout.joints) == len(set(layout.joints)) == joints
    assert len({frozenset(edge) for edge in layout.edges}) == joints - 1
    reached = np.linalg.matrix_power(layout.adjacency(), joints)
    assert (reached > 0).all()


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_the_normalised_adjacency_is_symmetric_with_largest_eigenvalue_one(name):
    matrix = graph(name).adjacency()
    np.testing.assert_allclose(matrix, matrix.T)
    values = np.linalg.eigvalsh(matrix)
    assert values.max() == pytest.approx(1)
    assert values.min() > -1


def test_left_and_right_are_mirror_images():
    for layout in GRAPHS.values():
        names = dict(enumerate(layout.joints))
        mirror = {"_l": "_r", "_r": "_l"}
        bones = {frozenset(names[j] for j in edge) for edge in layout.edges}
        mirrored = {frozenset(n[:-2] + mirror.get(n[-2:], n[-2:]) for n in bone) for bone in bones}
        assert mirrored == bones


@pytest.mark.parametrize(("name", "joints"), [("coco17", 17), ("mediapipe33", 33), ("halpe26", 26), ("smpl24", 24)])
def test_layouts_of_pose_estimators_are_connected(name, joints):
    layout = graph(name)
    assert len(set(layout.joints)) == joints
    assert len(layout.outwards()) == joints - 1


def test_a_graph_is_known_by_a_name():
    mine = from_edges([(0, 1), (1, 2)], 3, centre=1)
    assert graph(mine) is mine
    assert graph(graph_name(mine)) == mine
    assert graph_name(GRAPHS["smpl24"]) == graph_name("smpl24") == "smpl24"


def test_any_edge_list_makes_a_graph():
    np.testing.assert_allclose(from_edges([(0, 1)], 2).adjacency(), np.full((2, 2), 0.5))


@pytest.mark.parametrize("make", [lambda: graph("smpl"), lambda: from_edges([(0, 5)], 3), lambda: from_edges([], 3, 4)])
def test_impossible_graphs_are_refused(make):
    with pytest.raises(OptionError, match=r"must be"):
        make()


@pytest.mark.parametrize("edges", [[(0, 1.5)], [(0, 1, 2)], [0, 1], [(0, 0)], [(0, 9)]])
def test_edges_that_are_no_pairs_of_joints_are_refused(edges):
    with pytest.raises(OptionError, match=r"pairs of joint numbers|an edge joins two joints"):
        from_edges(edges, 3)
