#include "ding_worker/tools/floors/network.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ding_worker/tools/floors/floors.h"

namespace floors {
namespace {

FLOOR_LOOP void AddBias(const float* bias, int rows, int out, bool relu, float* y) {
  for (int row = 0; row < rows; ++row) {
    float* const to = y + row * out;
    if (relu) {
      for (int i = 0; i < out; ++i) to[i] = std::max(to[i] + bias[i], 0.0f);
    } else {
      for (int i = 0; i < out; ++i) to[i] += bias[i];
    }
  }
}

FLOOR_LOOP void ReluGradient(const float* y, size_t size, float* d_y) {
  for (size_t i = 0; i < size; ++i) d_y[i] = y[i] > 0 ? d_y[i] : 0;
}

FLOOR_LOOP void SumRows(const float* d_y, int rows, int out, float* sums) {
  std::fill_n(sums, out, 0.0f);
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < out; ++i) sums[i] += d_y[row * out + i];
  }
}

FLOOR_LOOP void AdamLoop(size_t size, float rate, float root, const float* gradient, float* first,
                         float* second, float* parameter) {
  for (size_t i = 0; i < size; ++i) {
    const float g = gradient[i];
    first[i] = 0.9f * first[i] + 0.1f * g;
    second[i] = 0.999f * second[i] + 0.001f * g * g;
    parameter[i] -= rate * first[i] / (std::sqrt(second[i]) * root + 1e-8f);
  }
}

FLOOR_LOOP void FollowLoop(size_t size, float share, const float* source, float* target) {
  for (size_t i = 0; i < size; ++i) target[i] += share * (source[i] - target[i]);
}

// result = value + advantage - its mean, and back.
void Combine(Pass* pass) {
  const std::vector<float>& advantage = pass->outputs[kAdvantage];
  const auto actions = advantage.size() / static_cast<size_t>(pass->rows);
  for (size_t at = 0, row = 0; at < advantage.size(); at += actions, ++row) {
    float mean = 0;
    for (size_t i = 0; i < actions; ++i) mean += advantage[at + i] / static_cast<float>(actions);
    const float base = pass->outputs.back()[row] - mean;
    for (size_t i = 0; i < actions; ++i) pass->q[at + i] = base + advantage[at + i];
  }
}
void Split(Pass* pass) {
  const auto actions = pass->d_q.size() / static_cast<size_t>(pass->rows);
  for (size_t at = 0, row = 0; at < pass->d_q.size(); at += actions, ++row) {
    float sum = 0;
    for (size_t i = 0; i < actions; ++i) sum += pass->d_q[at + i];
    pass->d_outputs.back()[row] = sum;
    for (size_t i = 0; i < actions; ++i) {
      pass->d_outputs[kAdvantage][at + i] = pass->d_q[at + i] - sum / static_cast<float>(actions);
    }
  }
}

void RequireNear(double found, double expected) {
  Require(std::abs(found - expected) < 2e-4 * (1 + std::abs(expected)),
          "a product differs from a naive one");
}

}  // namespace

Network::Network(std::vector<Layer> all, bool dueling) : layers(std::move(all)), dueling(dueling) {
  size_t size = 0;
  for (Layer& layer : layers) {
    layer.weight = size;
    size += static_cast<size_t>(layer.in * layer.out);
    layer.bias = size;
    size += static_cast<size_t>(layer.out);
  }
  parameters = RandomFloats(size);
  for (const Layer& layer : layers) {
    for (size_t i = layer.weight; i < layer.bias + static_cast<size_t>(layer.out); ++i) {
      parameters[i] /= std::sqrt(static_cast<float>(layer.in));
    }
  }
  gradients.resize(size);
}

Pass::Pass(const Network& network, int rows) : rows(rows) {
  for (const Layer& layer : network.layers) {
    outputs.push_back(std::vector<float>(static_cast<size_t>(rows * layer.out)));
  }
  d_outputs = outputs;
  if (network.dueling) q = d_q = outputs[kAdvantage];
}

Network CartPoleNetwork() {
  return Network({{-1, 4, 128, kRelu},
                  {0, 128, 128, kRelu},
                  {1, 128, 64, kRelu},
                  {2, 64, 64, kRelu},
                  {3, 64, 2, kNone},
                  {2, 64, 64, kRelu},
                  {5, 64, 1, kNone}},
                 /*dueling=*/true);
}

Network PlainNetwork(int in, int width, int count, int out) {
  std::vector<Layer> layers;
  for (int i = 0; i < count; ++i) layers.push_back({i - 1, i == 0 ? in : width, width, kRelu});
  layers.push_back({count - 1, width, out, kNone});
  return Network(std::move(layers));
}

void Forward(const Network& network, const float* input, Pass* pass) {
  for (size_t l = 0; l < network.layers.size(); ++l) {
    const Layer& layer = network.layers[l];
    const float* const x = layer.source < 0 ? input : pass->outputs[layer.source].data();
    const float* const weight = &network.parameters[layer.weight];
    float* const y = pass->outputs[l].data();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, pass->rows, layer.out, layer.in, 1, x,
                layer.in, weight, layer.out, 0, y, layer.out);
    AddBias(&network.parameters[layer.bias], pass->rows, layer.out, layer.activation == kRelu, y);
  }
  if (network.dueling) Combine(pass);
}

void Backward(Network* network, const float* input, bool weights, Pass* pass, float* d_input,
              int first) {
  const std::vector<Layer>& layers = network->layers;
  std::vector<bool> begun(layers.size());
  if (network->dueling) Split(pass);
  for (size_t l = layers.size(); l-- > 0;) {
    const Layer& layer = layers[l];
    const float* const x = layer.source < 0 ? input : pass->outputs[layer.source].data();
    const float* const weight = &network->parameters[layer.weight];
    float* const d_y = pass->d_outputs[l].data();
    if (layer.activation == kRelu) {
      ReluGradient(pass->outputs[l].data(), pass->outputs[l].size(), d_y);
    }
    if (weights) {
      cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, layer.in, layer.out, pass->rows, 1, x,
                  layer.in, d_y, layer.out, 0, &network->gradients[layer.weight], layer.out);
      SumRows(d_y, pass->rows, layer.out, &network->gradients[layer.bias]);
    }
    if (layer.source >= 0) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, pass->rows, layer.in, layer.out, 1, d_y,
                  layer.out, weight, layer.out, begun[layer.source] ? 1 : 0,
                  pass->d_outputs[layer.source].data(), layer.in);
      begun[layer.source] = true;
    } else if (d_input != nullptr) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, pass->rows, layer.in - first, layer.out,
                  1, d_y, layer.out, weight + first * layer.out, layer.out, 0, d_input,
                  layer.in - first);
    }
  }
}

void CheckPasses(Network* network, int rows) {
  const std::vector<float> input = RandomFloats(static_cast<size_t>(rows * network->layers[0].in));
  Pass pass(*network, rows);
  Forward(*network, input.data(), &pass);
  pass.d_result() = RandomFloats(pass.result().size());
  std::vector<float> d_input(input.size());
  Backward(network, input.data(), /*weights=*/true, &pass, d_input.data());
  // The gradients by the outputs of layers that no other one reads are given.
  std::vector<std::vector<double>> d_outputs;
  for (const Layer& layer : network->layers) {
    const bool given = layer.activation == kNone;
    const std::vector<float>& d_output = pass.d_outputs[d_outputs.size()];
    d_outputs.push_back(given ? std::vector<double>(d_output.begin(), d_output.end())
                              : std::vector<double>(d_output.size()));
  }
  for (size_t i = 0; i < pass.q.size(); ++i) {
    const size_t row = i / 2;
    const std::vector<float>& advantage = pass.outputs[kAdvantage];
    RequireNear(pass.q[i], pass.outputs.back()[row] + advantage[i] -
                               (advantage[2 * row] + advantage[2 * row + 1]) / 2);
    RequireNear(pass.d_outputs[kAdvantage][i],
                pass.d_q[i] - (pass.d_q[2 * row] + pass.d_q[2 * row + 1]) / 2);
    RequireNear(pass.d_outputs.back()[row], pass.d_q[2 * row] + pass.d_q[2 * row + 1]);
  }
  std::vector<double> d_naive_input(input.size());
  for (size_t l = pass.outputs.size(); l-- > 0;) {
    const Layer& layer = network->layers[l];
    const float* const x = layer.source < 0 ? input.data() : pass.outputs[layer.source].data();
    double* const d_x = layer.source < 0 ? d_naive_input.data() : d_outputs[layer.source].data();
    for (int o = 0; o < layer.out; ++o) {
      const float* const weights = &network->parameters[layer.weight] + o;
      std::vector<double> d_weights(static_cast<size_t>(layer.in));
      double d_bias = 0;
      for (int row = 0; row < rows; ++row) {
        double y = network->parameters[layer.bias + static_cast<size_t>(o)];
        for (int i = 0; i < layer.in; ++i) {
          y += x[row * layer.in + i] * double{weights[i * layer.out]};
        }
        const int at = row * layer.out + o;
        const float found = pass.outputs[l][at];
        RequireNear(found, layer.activation == kRelu ? std::max(y, 0.0) : y);
        const double d_y = layer.activation == kRelu && found <= 0 ? 0 : d_outputs[l][at];
        d_bias += d_y;
        for (int i = 0; i < layer.in; ++i) {
          d_weights[i] += d_y * x[row * layer.in + i];
          d_x[row * layer.in + i] += d_y * weights[i * layer.out];
        }
      }
      RequireNear(network->gradients[layer.bias + static_cast<size_t>(o)], d_bias);
      for (int i = 0; i < layer.in; ++i) {
        RequireNear(network->gradients[layer.weight + static_cast<size_t>(i * layer.out + o)],
                    d_weights[i]);
      }
    }
  }
  for (size_t i = 0; i < d_input.size(); ++i) RequireNear(d_input[i], d_naive_input[i]);
}

void BestColumns(const std::vector<float>& numbers, std::vector<int64_t>* best) {
  const size_t columns = numbers.size() / best->size();
  for (size_t row = 0; row < best->size(); ++row) {
    const auto first = numbers.begin() + static_cast<int64_t>(row * columns);
    (*best)[row] = std::max_element(first, first + static_cast<int64_t>(columns)) - first;
  }
}

void Adam::Step(Network* network, float rate) {
  ++steps_;
  const auto steps = static_cast<float>(steps_);
  AdamLoop(first_.size(), rate / (1 - std::pow(0.9f, steps)),
           1 / std::sqrt(1 - std::pow(0.999f, steps)), network->gradients.data(), first_.data(),
           second_.data(), network->parameters.data());
}

void Follow(const std::vector<float>& source, float share, std::vector<float>* target) {
  FollowLoop(source.size(), share, source.data(), target->data());
}

std::vector<float> RandomFloats(size_t size) {
  Random random;
  std::vector<float> values(size);
  for (float& value : values) value = 2 * random.Uniform() - 1;
  return values;
}

}  // namespace floors
