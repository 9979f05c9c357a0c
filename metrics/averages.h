// Averages over the last n values, to smooth noisy quantities in the log.
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
  // Returns nullopt before the first value.
  std::optional<double> Average() const;
  // Returns the values, oldest first.
  std::vector<double> Values() const;

 private:
  size_t window_;
  size_t oldest_ = 0;
  std::vector<double> values_;
};

// A window per name.
class Monitor {
 public:
  explicit Monitor(int window);

  // Lists `name` from now on, also without a value. Names keep the order of their first mention.
  void Declare(absl::string_view name);
  // Adds a value, and declares the name if needed.
  void Add(absl::string_view name, double value);

  // Returns nullopt if the name is unknown or has no value.
  std::optional<double> Average(absl::string_view name) const;
  std::vector<std::pair<std::string, std::optional<double>>> Averages() const;

  // Save and load the values in the windows, so that a resumed run logs the averages of an
  // uninterrupted one. LoadState() declares the saved names after those that are already declared. It
  // keeps the newest values of a longer window.
  //   kInvalidArgument  the state was not written by SaveState()
  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  struct Entry {
    std::string name;
    WindowAverage window;
  };
  // Returns the number of entries if there is no such name.
  size_t IndexOf(absl::string_view name) const;

  int window_;
  std::vector<Entry> entries_;  // A few dozen, so a linear search is enough.
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_AVERAGES_H_
