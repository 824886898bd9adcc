"""CUDA's cells of LSTM and GRU, which have no kernels on CPUs; a GPU with cuDNN runs whole layers instead.

Workspaces have the layout of PyTorch's kernels (aten/src/ATen/native/cuda/RNN.cu).
"""

import torch

aten = torch.ops.aten


def lstm(inputs, hidden, state, input_bias=None, hidden_bias=None):
    gates = inputs + hidden
    gates = gates if input_bias is None else gates + input_bias + hidden_bias
    i, f, n, o = gates.chunk(4, -1)
    i, f, n, o = i.sigmoid(), f.sigmoid(), n.tanh(), o.sigmoid()
    new = f * state + i * n
    return o * new.tanh(), new, torch.cat([i, f, n, o], -1)


def lstm_backward(grad, grad_state, state, new, workspace, has_bias):
    i, f, n, o = workspace.chunk(4, -1)
    bent = new.tanh()
    grad = torch.zeros_like(new) if grad is None else grad
    grad_new = grad * o * (1 - bent * bent) + (0 if grad_state is None else grad_state)
    parts = (n * i * (1 - i), state * f * (1 - f), i * (1 - n * n))
    gates = torch.cat([*(grad_new * part for part in parts), grad * bent * o * (1 - o)], -1)
    return gates, grad_new * f, gates.sum(0) if has_bias else None


def gru(inputs, hidden, state, input_bias=None, hidden_bias=None):
    if input_bias is not None:
        inputs, hidden = inputs + input_bias, hidden + hidden_bias
    (ir, iz, new), (hr, hz, old) = inputs.chunk(3, -1), hidden.chunk(3, -1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (new + r * old).tanh()
    return n + z * (state - n), torch.cat([r, z, n, state, old], -1)


def gru_backward(grad, workspace, has_bias):
    r, z, n, state, old = workspace.chunk(5, -1)
    grad_new = grad * (1 - z) * (1 - n * n)
    gates = [grad_new * old * r * (1 - r), grad * (state - n) * z * (1 - z)]
    inputs, hidden = torch.cat([*gates, grad_new], -1), torch.cat([*gates, grad_new * r], -1)
    biases = (inputs.sum(0), hidden.sum(0)) if has_bias else (None, None)
    return inputs, hidden, grad * z, *biases


CELLS = {
    aten._thnn_fused_lstm_cell: lstm,
    aten._thnn_fused_lstm_cell_backward_impl: lstm_backward,
    aten._thnn_fused_gru_cell: gru,
    aten._thnn_fused_gru_cell_backward: gru_backward,
}
