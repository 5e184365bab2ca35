import torch

from residual_audio.decomposition.heads import contribution_frame, head_contributions


def test_coordinates_keep_distances_lengths_and_scatter():
    torch.manual_seed(0)
    heads, d_head, d_model, clips = 3, 4, 12, 20
    z = torch.randn(clips, heads, d_head, dtype=torch.float64)
    weight, bias = torch.randn(d_model, heads * d_head, dtype=torch.float64), torch.randn(d_model, dtype=torch.float64)
    written = head_contributions(z, weight, bias)
    frame = contribution_frame(weight, bias, heads)
    y = frame.coordinates(z)
    for h in range(heads):
        torch.testing.assert_close(torch.cdist(y[:, h], y[:, h]), torch.cdist(written[:, h], written[:, h]))
        torch.testing.assert_close(y[:, h].square().sum(-1) + frame.rest[h] ** 2, written[:, h].square().sum(-1))
        rebuilt = (y[:, h] - frame.offset[h]) @ frame.q[h].T + bias / heads
        torch.testing.assert_close(rebuilt, written[:, h])
    assert frame.rank.tolist() == [4.0, 4.0, 4.0]


def test_rank_of_a_deficient_projection():
    weight = torch.randn(12, 8, dtype=torch.float64)
    weight[:, 1] = weight[:, 0]
    assert contribution_frame(weight, None, 2).rank.tolist() == [3.0, 4.0]
