// The clock and the event queue of the simulation. It also keeps the result of the run.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COORDINATOR_SIMULATION_SIM_LOOP_H_
#define DING_WORKER_COORDINATOR_SIMULATION_SIM_LOOP_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/coordinator/simulation/simulation.h"

namespace ding {
namespace internal_simulation {

inline constexpr int64_t kMillis = 1000000;
inline constexpr int64_t kSecond = 1000 * kMillis;
inline constexpr int64_t kMaxTime = 600 * kSecond;  // the run must be over then

class SimLoop {
 public:
  explicit SimLoop(const SimulationOptions& options)
      : traces_(options.traces), rng_(options.seed, "simulation") {}

  int64_t now() const { return clock_.MonotonicNanos(); }
  const Clock* clock() const { return &clock_; }
  Rng* rng() { return &rng_; }
  SimulationResult* result() { return &result_; }

  void At(int64_t nanos, std::function<void()> what) {
    queue_.push_back({std::max(nanos, now()), ++order_, std::move(what)});
    std::push_heap(queue_.begin(), queue_.end());
  }
  void In(int64_t nanos, std::function<void()> what) { At(now() + nanos, std::move(what)); }
  // A delay around its mean, with a long tail.
  int64_t Delay(int64_t mean) {
    const double factor = rng_.UniformInt(20) == 0 ? 20 : 2;
    return 1 + static_cast<int64_t>(static_cast<double>(mean) * factor * rng_.Uniform());
  }
  // Runs the next event. Returns false if there is none before kMaxTime.
  bool Step() {
    if (queue_.empty() || queue_.front().nanos > kMaxTime) return false;
    std::pop_heap(queue_.begin(), queue_.end());
    const Timed next = std::move(queue_.back());
    queue_.pop_back();
    clock_.Advance(absl::Nanoseconds(next.nanos - now()));
    ++result_.steps;
    Note(static_cast<uint64_t>(next.nanos));
    next.what();
    return true;
  }
  bool empty() const { return queue_.empty(); }

  // Adds `what` to the digest of all events.
  void Note(uint64_t what) {
    result_.digest = (result_.digest ^ what) * 0x9E3779B97F4A7C15;
    result_.digest ^= result_.digest >> 29;
  }
  // Adds a line to the trace.
  template <typename... Parts>
  void Trace(const Parts&... parts) {
    if (!traces_) return;
    result_.trace.push_back(
        absl::StrCat(absl::FormatDuration(absl::Nanoseconds(now())), "  ", parts...));
  }
  // Says that a rule is broken, and how.
  void Break(const std::string& rule, const std::string& how) {
    Trace("BROKEN: ", rule, ": ", how);
    if (!result_.rule.empty()) return;
    result_.rule = rule;
    result_.broken = absl::StrCat(rule, ": ", how, " (step ", result_.steps, ")");
  }

 private:
  struct Timed {
    int64_t nanos;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Timed& other) const {  // the heap begins with the largest
      return std::tie(nanos, order) > std::tie(other.nanos, other.order);
    }
  };

  const bool traces_;
  Rng rng_;
  SimulatedClock clock_;
  std::vector<Timed> queue_;  // a heap
  uint64_t order_ = 0;
  SimulationResult result_;
};

}  // namespace internal_simulation
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_SIMULATION_SIM_LOOP_H_
