// The elementwise part of one step of a recurrent cell, for the rows of one panel
// (policy/mlp/panel_kernels.h), compiled for several instruction sets. The products with the
// weights come before it in the forward pass and after it in the backward pass.
//
// LSTM (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000; s is the
// sigmoid):
//   i, f, o = s(a_i), s(a_f), s(a_o)   g = tanh(a_g)   c' = f * c + i * g   h' = o * tanh(c')
// GRU (Cho et al. 2014, with the reset gate after the product, as cuDNN and torch have it):
//   r, z = s(a_r + b_r), s(a_z + b_z)   n = tanh(a_n + r * b_n)   h' = (1 - z) * n + z * h
// a = W_ih x + bias and b = W_hh h + bias_hh are the products; the LSTM has their sum in a.
//
// `d_...` are gradients of the loss.
//
// Threads: thread-safe; the functions use their arguments only.
#ifndef DING_WORKER_POLICY_RNN_CELL_KERNELS_H_
#define DING_WORKER_POLICY_RNN_CELL_KERNELS_H_

#include <cstdint>

#include "ding_worker/base/cpu.h"

namespace ding::internal_rnn {

// The number of gates that the forward pass keeps for the backward pass, each as a plane of `size`
// floats: i, f, g, o of an LSTM; r, z, n and b_n of a GRU.
inline constexpr int64_t kKeptGates = 4;

// All planes have `size` = hidden_size * kPanelRows floats. A state "before" is the state before
// the step.
struct LstmForward {
  int64_t size = 0;
  float* gates = nullptr;  // [4]: a; the function replaces it by i, f, g, o
  const float* cell_before = nullptr;
  float* cell = nullptr;
  float* tanh_cell = nullptr;
  float* hidden = nullptr;
};

struct LstmBackward {
  int64_t size = 0;
  const float* gates = nullptr;  // [4]
  const float* cell_before = nullptr;
  const float* tanh_cell = nullptr;
  const float* d_output = nullptr;  // by h', through the output of this step
  const float* d_hidden = nullptr;  // by h', through the next step
  float* d_cell = nullptr;          // by c', through the next step; replaced by the gradient by c
  float* d_gates = nullptr;         // [4]: by a
  float* bias_sums = nullptr;       // [4]: by a, added
};

struct GruForward {
  int64_t size = 0;
  float* gates = nullptr;           // [4]: a in the first 3; replaced by r, z, n and b_n
  const float* products = nullptr;  // [3]: b
  const float* hidden_before = nullptr;
  float* hidden = nullptr;
};

struct GruBackward {
  int64_t size = 0;
  const float* gates = nullptr;  // [4]
  const float* hidden_before = nullptr;
  const float* d_output = nullptr;  // as above
  float* d_hidden =
      nullptr;  // by h', through the next step; replaced by the gradient by h without the product
  float* d_gates = nullptr;     // [3]: by a
  float* d_products = nullptr;  // [3]: by b
  float* bias_sums = nullptr;   // [4]: by a, and by b_n, added
};

struct CellKernels {
  void (*lstm_forward)(const LstmForward& step);
  void (*lstm_backward)(const LstmBackward& step);
  void (*gru_forward)(const GruForward& step);
  void (*gru_backward)(const GruBackward& step);
};

// This processor must support `set`.
const CellKernels& CellKernelsFor(InstructionSet set);

}  // namespace ding::internal_rnn

#endif  // DING_WORKER_POLICY_RNN_CELL_KERNELS_H_
