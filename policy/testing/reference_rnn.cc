#include "ding_worker/policy/testing/reference_rnn.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"

namespace ding {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

ReferenceRnn::ReferenceRnn(const RnnOptions& options, const RecurrentNetwork& network)
    : options_(options),
      output_(network.output_spec()),
      info_(network.parameter_info().begin(), network.parameter_info().end()),
      parameters_(network.parameters().begin(), network.parameters().end()) {}

ReferenceRnn::Outputs ReferenceRnn::Run(const Sequences& sequences,
                                        const std::vector<Vector>& warm) const {
  const int64_t state_size = options_.hidden_size * (options_.cell == RnnCell::kLstm ? 2 : 1);
  Outputs outputs;
  Vector state;
  for (int64_t row = 0; row < sequences.rows.rows(); ++row) {
    const int64_t sequence = row / sequences.length;
    if (row % sequences.length == 0) {
      state.assign(state_size, 0.0);
      if (!sequences.state.empty()) {
        const auto given = sequences.state.subspan(sequence * state_size, state_size);
        state.assign(given.begin(), given.end());
      }
    }
    if (!warm.empty() && row % sequences.length == sequences.burn_in) state = warm[sequence];
    if (!sequences.is_first.empty() && sequences.is_first[row] != 0) state.assign(state_size, 0.0);
    Step(Encode(RowOf(sequences.rows, row)), &state);
    outputs.states.push_back(state);
    outputs.rows.push_back(RunHeads(Vector(state.begin(), state.begin() + options_.hidden_size)));
  }
  return outputs;
}

std::vector<std::vector<double>> ReferenceRnn::StatesAfterBurnIn(const Sequences& sequences) const {
  std::vector<Vector> warm;
  if (sequences.burn_in == 0) return warm;
  const Outputs outputs = Run(sequences);
  for (int64_t row = 0; row < sequences.rows.rows(); row += sequences.length) {
    warm.push_back(outputs.states[row + sequences.burn_in - 1]);
  }
  return warm;
}

std::vector<double> ReferenceRnn::RowOf(const ColumnsView& rows, int64_t row) {
  Vector values;
  for (int field = 0; field < rows.spec().size(); ++field) {
    const auto elements = rows.row(row).field<float>(field);
    values.insert(values.end(), elements.begin(), elements.end());
  }
  return values;
}

void ReferenceRnn::Step(const Vector& x, Vector* state) const {
  const int64_t size = options_.hidden_size;
  const Vector hidden(state->begin(), state->begin() + size);
  if (options_.cell == RnnCell::kLstm) {
    const Vector a = Affine("rnn/weight_ih", "rnn/bias", x);
    const Vector b = Affine("rnn/weight_hh", "", hidden);
    for (int64_t k = 0; k < size; ++k) {
      const double i = Sigmoid(a[k] + b[k]);
      const double f = Sigmoid(a[size + k] + b[size + k]);
      const double g = std::tanh(a[2 * size + k] + b[2 * size + k]);
      const double o = Sigmoid(a[3 * size + k] + b[3 * size + k]);
      double& cell = (*state)[size + k];
      cell = f * cell + i * g;
      (*state)[k] = o * std::tanh(cell);
    }
    return;
  }
  const Vector a = Affine("rnn/weight_ih", "rnn/bias_ih", x);
  const Vector b = Affine("rnn/weight_hh", "rnn/bias_hh", hidden);
  for (int64_t k = 0; k < size; ++k) {
    const double r = Sigmoid(a[k] + b[k]);
    const double z = Sigmoid(a[size + k] + b[size + k]);
    const double n = std::tanh(a[2 * size + k] + r * b[2 * size + k]);
    (*state)[k] = (1 - z) * n + z * hidden[k];
  }
}

ReferenceRnn::Vector ReferenceRnn::Encode(Vector x) const {
  for (size_t i = 0; i < options_.mlp.encoder_hidden_size.size(); ++i) {
    x = Activate(
        Affine(absl::StrCat("encoder/", i, "/weight"), absl::StrCat("encoder/", i, "/bias"), x));
  }
  return x;
}

ReferenceRnn::Vector ReferenceRnn::RunHeads(const Vector& hidden) const {
  Vector outputs;
  for (const FieldSpec& field : output_->fields()) {
    Vector head;
    if (options_.mlp.dueling) {
      head = Branch(field.name + "/advantage", hidden);
      const Vector value = Branch(field.name + "/value", hidden);
      const Vector advantage = head;
      const size_t width = value.size();
      for (size_t i = 0; i < head.size(); ++i) {
        head[i] += value[i % width];
        for (size_t a = i % width; a < head.size(); a += width) {
          head[i] -= advantage[a] / static_cast<double>(field.shape[0]);
        }
      }
    } else {
      head = Branch(field.name, hidden);
    }
    outputs.insert(outputs.end(), head.begin(), head.end());
  }
  return outputs;
}

ReferenceRnn::Vector ReferenceRnn::Branch(const std::string& name, Vector x) const {
  const int64_t layers = options_.mlp.head_layer_num;
  for (int64_t i = 0; i <= layers; ++i) {
    x = Affine(absl::StrCat(name, "/", i, "/weight"), absl::StrCat(name, "/", i, "/bias"), x);
    if (i < layers) x = Activate(x);
  }
  return x;
}

ReferenceRnn::Vector ReferenceRnn::Affine(const std::string& weight, const std::string& bias,
                                          const Vector& x) const {
  const ParameterInfo& w = Find(weight);
  DING_CHECK(w.shape[1] == static_cast<int64_t>(x.size())) << weight;
  Vector y(w.shape[0]);
  for (size_t o = 0; o < y.size(); ++o) {
    if (!bias.empty()) y[o] = parameters_[Find(bias).offset + o];
    for (size_t i = 0; i < x.size(); ++i) {
      y[o] += parameters_[w.offset + o * x.size() + i] * x[i];
    }
  }
  return y;
}

ReferenceRnn::Vector ReferenceRnn::Activate(Vector values) const {
  const bool tanh = options_.mlp.activation == MlpOptions::Activation::kTanh;
  for (double& value : values) value = tanh ? std::tanh(value) : std::max(value, 0.0);
  return values;
}

const ParameterInfo& ReferenceRnn::Find(const std::string& name) const {
  const auto found = std::find_if(info_.begin(), info_.end(),
                                  [&](const ParameterInfo& info) { return info.name == name; });
  DING_CHECK(found != info_.end()) << "no parameter " << name;
  return *found;
}

}  // namespace ding
