// Averages over the last n values, to smooth noisy quantities in the log.
//
// A window of n averages n values. A name without a value has no average: it is missing, not 0.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_METRICS_AVERAGES_H_
#define DING_WORKER_METRICS_AVERAGES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

// A window per name, attributes computed from the windows, and a clock of ticks that the owner
// steps.
class Monitor {
 public:
  // Returns a statistic of the windows of `monitor`, such as the largest value in a window; nullopt
  // if it has no value yet.
  using AttributeFn = std::function<std::optional<double>(const Monitor& monitor)>;

  explicit Monitor(int window);

  // Lists `name` from now on, also without a value. Names keep the order of their first mention.
  void Declare(absl::string_view name);
  // Adds a value, and declares the name if needed.
  void Add(absl::string_view name, double value);

  // Returns nullopt if the name is unknown or has no value.
  std::optional<double> Average(absl::string_view name) const;
  std::vector<std::pair<std::string, std::optional<double>>> Averages() const;
  // Returns the values in the window of this name, oldest first; none if the name is unknown.
  std::vector<double> Values(absl::string_view name) const;

  // Adds the attribute ("max") of a property ("use"), or replaces it.
  void RegisterAttributeValue(absl::string_view attribute, absl::string_view property,
                              AttributeFn value);
  // kNotFound if no such attribute is registered, kFailedPrecondition if it has no value yet.
  absl::StatusOr<double> GetAttribute(absl::string_view attribute,
                                      absl::string_view property) const;
  // Returns the attributes that have a value as "<property>_<attribute>", in the order of their
  // registration.
  std::vector<std::pair<std::string, double>> Attributes() const;

  // The clock: current_time() is the number of ticks. Between Freeze() and Unfreeze() all reads see
  // the windows as of Freeze(), at fixed_time(). Values that are added meanwhile appear after
  // Unfreeze(). If nothing is frozen, fixed_time() is the current time.
  void Step(int64_t ticks = 1) { time_ += ticks; }
  int64_t current_time() const { return time_; }
  int64_t fixed_time() const { return frozen_.has_value() ? frozen_->time : time_; }
  void Freeze() { frozen_ = Frozen{time_, entries_}; }
  void Unfreeze() { frozen_.reset(); }

  // Save and load the values in the windows, but not the clock, so that a resumed run logs the
  // averages of an uninterrupted one. LoadState() declares the saved names after those that are
  // already declared. If a saved window is longer than this one, it keeps the newest values.
  //   kInvalidArgument  the state was not written by SaveState()
  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  struct Entry {
    std::string name;
    WindowAverage window;
  };
  struct Frozen {
    int64_t time;
    std::vector<Entry> entries;
  };
  // The entries that reads see.
  const std::vector<Entry>& seen() const {
    return frozen_.has_value() ? frozen_->entries : entries_;
  }
  // Returns null if there is no such name.
  static const Entry* Find(const std::vector<Entry>& entries, absl::string_view name);

  struct Attribute {
    std::string attribute;
    std::string property;
    AttributeFn value;
  };

  int window_;
  std::vector<Entry> entries_;  // A few dozen, so a linear search is enough.
  std::vector<Attribute> attributes_;
  int64_t time_ = 0;
  std::optional<Frozen> frozen_;
};

}  // namespace ding

#endif  // DING_WORKER_METRICS_AVERAGES_H_
