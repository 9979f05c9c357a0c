// Networks of linear layers on OpenBLAS, for floors.
//
// Example:
//   Network network = PlainNetwork(17, 256, 2, 6);
//   Pass pass(network, rows);
//   Forward(network, input, &pass);
//   ... = pass.result();
//
// Threads: one thread may use them.
#ifndef DING_WORKER_TOOLS_FLOORS_NETWORK_H_
#define DING_WORKER_TOOLS_FLOORS_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace floors {

enum Activation { kNone, kRelu };

struct Layer {
  int source;  // the layer whose output it reads; -1: the input
  int in;
  int out;
  Activation activation;
  size_t weight = 0;  // offset of the weights [in, out] in the parameters, set by Network
  size_t bias = 0;
};

struct Network {
  explicit Network(std::vector<Layer> layers, bool dueling = false);

  std::vector<Layer> layers;
  // Whether the result is value + advantage - mean advantage. The last layer then computes the
  // value, and layer kAdvantage an advantage for each action. Else the last layer's output is the
  // result.
  bool dueling;
  std::vector<float> parameters;
  std::vector<float> gradients;
};

inline constexpr size_t kAdvantage = 4;

// The numbers of a batch, for each layer [rows, out].
struct Pass {
  Pass(const Network& network, int rows);
  std::vector<float>& result() { return q.empty() ? outputs.back() : q; }
  std::vector<float>& d_result() { return q.empty() ? d_outputs.back() : d_q; }

  int rows;
  std::vector<std::vector<float>> outputs;
  std::vector<std::vector<float>> d_outputs;
  std::vector<float> q;  // if the network is dueling
  std::vector<float> d_q;
};

// CartPole's: 4-128-128-64, dueling with 64-2 and 64-1.
Network CartPoleNetwork();
// `count` hidden layers of `width` and a linear one.
Network PlainNetwork(int in, int width, int count, int out);

void Forward(const Network& network, const float* input, Pass* pass);

// Computes gradients from d_result(): those of the parameters if `weights` is set.
// `d_input` [rows, in - first], which may be null, receives the gradients of the inputs from
// `first` on.
void Backward(Network* network, const float* input, bool weights, Pass* pass,
              float* d_input = nullptr, int first = 0);

// Compares both passes with naive ones.
void CheckPasses(Network* network, int rows);

// Returns the column of the greatest number of each row.
void BestColumns(const std::vector<float>& numbers, std::vector<int64_t>* best);

class Adam {
 public:
  explicit Adam(size_t size) : first_(size), second_(size) {}
  void Step(Network* network, float rate);

 private:
  std::vector<float> first_;
  std::vector<float> second_;
  int64_t steps_ = 0;
};

// Moves `target` to `source` by a share.
void Follow(const std::vector<float>& source, float share, std::vector<float>* target);

// Numbers in -1..1, the same for equal sizes.
std::vector<float> RandomFloats(size_t size);

}  // namespace floors

#endif  // DING_WORKER_TOOLS_FLOORS_NETWORK_H_
