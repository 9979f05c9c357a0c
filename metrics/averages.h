// Averages over the last n values: what log lines show of quantities that jump.
//
// A window of n averages n values. A name without a value has no average: it is missing, not 0.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_METRICS_AVERAGES_H_
#define DING_WORKER_METRICS_AVERAGES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/state.h"

namespace ding {

// Keeps the last `window` (>= 1) values.
class WindowAverage {
 public:
  explicit WindowAverage(int window);

  void Add(double value);
  // None before the first value.
  std::optional<double> Average() const;
  // Oldest first.
  std::vector<double> Values() const;

 private:
  size_t window_;
  size_t oldest_ = 0;
  std::vector<double> values_;
};

// A window for each of some names.
class Monitor {
 public:
  explicit Monitor(int window);

  // Lists `name` from now on, with or without a value. Names are listed in the order in which they
  // were first heard of.
  void Declare(absl::string_view name);
  // Declares it if need be.
  void Add(absl::string_view name, double value);

  // None if the name has no value, or is not known.
  std::optional<double> Average(absl::string_view name) const;
  std::vector<std::pair<std::string, std::optional<double>>> Averages() const;

  // The values in the windows, so that a resumed run logs the averages of one that was never
  // interrupted. LoadState declares the saved names after those that are declared already.
  // Of a longer window it keeps the newest values.
  //   kInvalidArgument  not saved by SaveState
  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  struct Entry {
    std::string name;
    WindowAverage window;
  };
  // The number of entries if there is none of that name.
  size_t IndexOf(absl::string_view name) const;

  int window_;
  std::vector<Entry> entries_;  // A few dozen: a search needs no index.
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_AVERAGES_H_
