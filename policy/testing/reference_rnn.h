// An independent implementation of recurrent networks, for tests: parameters by name, one row at a
// time, in double precision, as torch documents nn.LSTM and nn.GRU.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_TESTING_REFERENCE_RNN_H_
#define DING_WORKER_POLICY_TESTING_REFERENCE_RNN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/rnn/rnn_structure.h"

namespace ding {

class ReferenceRnn {
 public:
  struct Outputs {
    std::vector<std::vector<double>> rows;    // the output fields of each row, side by side
    std::vector<std::vector<double>> states;  // after each row
  };

  // Copies the parameters of `network`, whose structure `options` describes.
  ReferenceRnn(const RnnOptions& options, const RecurrentNetwork& network);

  std::vector<double>& parameters() { return parameters_; }

  Outputs Run(const Sequences& sequences) const { return Run(sequences, {}); }
  // Does the same, but the state of sequence b after burn-in is `warm[b]`, unless `warm` is empty
  // or the next row begins an episode.
  Outputs Run(const Sequences& sequences, const std::vector<std::vector<double>>& warm) const;
  // Returns the state of each sequence after its rows of burn-in.
  std::vector<std::vector<double>> StatesAfterBurnIn(const Sequences& sequences) const;

  // Returns the fields of row `row`, side by side.
  static std::vector<double> RowOf(const ColumnsView& rows, int64_t row);

 private:
  using Vector = std::vector<double>;

  // Replaces the state h, or h and c, by the state after input `x`.
  void Step(const Vector& x, Vector* state) const;
  Vector Encode(Vector x) const;
  Vector RunHeads(const Vector& hidden) const;
  Vector Branch(const std::string& name, Vector x) const;
  // weight x + bias; no bias if its name is empty.
  Vector Affine(const std::string& weight, const std::string& bias, const Vector& x) const;
  Vector Activate(Vector values) const;
  const ParameterInfo& Find(const std::string& name) const;

  const RnnOptions options_;
  const SpecPtr output_;
  const std::vector<ParameterInfo> info_;
  Vector parameters_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_TESTING_REFERENCE_RNN_H_
