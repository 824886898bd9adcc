"""The inverse by matrix products."""

import torch

import toys
from selfpretrain.mixers.nystromformer import pseudoinverse


def test_is_the_pseudoinverse_of_every_matrix_on_its_own():
    toys.settle()
    A = torch.randn(3, 2, 6, 6, dtype=torch.double)
    A[0, 0, :, 5] = A[0, 0, :, 0]  # one of them has no inverse
    torch.testing.assert_close(pseudoinverse(A, 40), torch.linalg.pinv(A), atol=1e-8, rtol=1e-8)
    A[1] *= 1000
    torch.testing.assert_close(pseudoinverse(A, 4)[:1], pseudoinverse(A[:1], 4))


def test_six_steps_are_enough_for_attention_among_landmarks():
    toys.settle()
    A = (torch.randn(4, 16, 16, dtype=torch.double) * 3).softmax(-1)
    product = A @ pseudoinverse(A, 6) @ A
    assert (product - A).norm() < 0.01 * A.norm()
