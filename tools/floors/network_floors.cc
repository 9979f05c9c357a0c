// Floors of passes: products, biases and activations.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ding_worker/tools/floors/floors.h"
#include "ding_worker/tools/floors/network.h"

namespace floors {
namespace {

// Width 0 is CartPole's network; another width, two layers of it on 17 observations for 6 actions.
Network NetworkOf(int width) {
  return width == 0 ? CartPoleNetwork() : PlainNetwork(17, width, 2, 6);
}

enum Task { kInfer, kAct, kForwardBackward };

// A pass over `rows` rows; to act, with the best column of each row; or with the way back.
class Passes {
 public:
  Passes(int width, int rows, Task task)
      : network_(NetworkOf(width)),
        pass_(network_, rows),
        input_(RandomFloats(static_cast<size_t>(rows * network_.layers[0].in))),
        task_(task),
        best_(static_cast<size_t>(rows)) {
    CheckPasses(&network_, rows);
    pass_.d_result() = RandomFloats(pass_.result().size());
  }
  void operator()() {
    Forward(network_, input_.data(), &pass_);
    if (task_ == kAct) BestColumns(pass_.result(), &best_);
    if (task_ == kForwardBackward) Backward(&network_, input_.data(), /*weights=*/true, &pass_);
  }

 private:
  Network network_;
  Pass pass_;
  const std::vector<float> input_;
  const Task task_;
  std::vector<int64_t> best_;
};

std::string Name(const char* name, int width, int rows) {
  return std::string(name) + "/" + std::to_string(width) + "/" + std::to_string(rows);
}

}  // namespace

void AddNetworkFloors() {
  using Case = std::pair<int, int>;
  for (const auto& [width, rows] :
       {Case(0, 1), Case(0, 4), Case(0, 8), Case(0, 64), Case(256, 1), Case(256, 8)}) {
    AddFloor(Name("mlp_benchmark:Infer", width, rows), 1, rows,
             [width = width, rows = rows] { return Passes(width, rows, kInfer); });
  }
  for (const auto& [width, rows] : {Case(0, 64), Case(256, 256), Case(512, 256)}) {
    AddFloor(Name("mlp_benchmark:ForwardBackward", width, rows), 1, rows,
             [width = width, rows = rows] { return Passes(width, rows, kForwardBackward); });
  }
  for (const int rows : {1, 8, 64}) {
    for (const int width : {0, 256}) {
      AddFloor(Name("actor_benchmark:Act", width, rows), 0, rows,
               [width, rows] { return Passes(width, rows, kAct); });
    }
    AddFloor("dqn_benchmark:Collect/" + std::to_string(rows), 0, rows,
             [rows] { return Passes(0, rows, kAct); });
  }
}

}  // namespace floors
