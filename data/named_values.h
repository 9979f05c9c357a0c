// A few named numbers: settings of a policy's forward pass ("eps"), parameters of a reset,
// statistics of an episode.
//
// Ownership: a value.   Threads: thread-compatible.
#ifndef DING_WORKER_DATA_NAMED_VALUES_H_
#define DING_WORKER_DATA_NAMED_VALUES_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace ding {

// Keeps the order of first insertion. Lookups are linear, so it is for a handful of values.
class NamedValues {
 public:
  using Entry = std::pair<std::string, double>;

  NamedValues() = default;
  NamedValues(std::initializer_list<Entry> entries) {
    for (const Entry& entry : entries) Set(entry.first, entry.second);
  }

  void Set(absl::string_view name, double value) {
    for (Entry& entry : entries_) {
      if (entry.first == name) {
        entry.second = value;
        return;
      }
    }
    entries_.emplace_back(std::string(name), value);
  }
  std::optional<double> Get(absl::string_view name) const {
    for (const Entry& entry : entries_) {
      if (entry.first == name) return entry.second;
    }
    return std::nullopt;
  }
  double GetOr(absl::string_view name, double fallback) const {
    return Get(name).value_or(fallback);
  }
  void Clear() { entries_.clear(); }

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  std::vector<Entry>::const_iterator begin() const { return entries_.begin(); }
  std::vector<Entry>::const_iterator end() const { return entries_.end(); }

 private:
  std::vector<Entry> entries_;
};

}  // namespace ding

#endif  // DING_WORKER_DATA_NAMED_VALUES_H_
