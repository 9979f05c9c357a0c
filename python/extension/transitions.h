// Dicts of a Python program as rows of a replay buffer: which key is which field, and what was
// pushed as columns.
//
//     {"obs": {"pos": ..., "goal": ...}, "action": ..., "reward": ..., "next_obs": {...}}
//          obs/pos   obs/goal   action   reward     the fields of a row, in this order
//          next_obs/pos   next_obs/goal             the observation after it
//
// Ownership: holds references to the keys.
// Threads:   the caller holds the GIL.
// Errors:    the functions throw Python exceptions that name the value.
#ifndef DING_WORKER_PYTHON_EXTENSION_TRANSITIONS_H_
#define DING_WORKER_PYTHON_EXTENSION_TRANSITIONS_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"

namespace ding {

// The keys that lead to a value in nested dicts, for the name "obs/pos" of a field.
class KeyPath {
 public:
  explicit KeyPath(absl::string_view name);

  // Returns null without such a value.
  pybind11::handle Find(pybind11::handle dict) const;
  // Makes the dicts on the way.
  void Set(const pybind11::dict& dict, const pybind11::object& value) const;
  bool nested() const { return keys_.size() > 1; }

 private:
  std::vector<pybind11::str> keys_;
};

// What was pushed, as columns of the fields of a TransitionReading. `keep` and `memory` hold them.
struct PushedColumns {
  int64_t size = 0;
  std::vector<const std::byte*> rows;      // [size, ...] for each field of the rows
  std::vector<const std::byte*> next_obs;  // [size, ...] for each field of the observation
  std::vector<pybind11::object> keep;
  std::vector<std::byte> memory;
};

class TransitionReading {
 public:
  // Takes the fields from the first transition, or the first columns. TypeError, ValueError: there
  // is no observation or no next_obs, or a value is of a type that rows cannot have.
  static TransitionReading Of(const pybind11::dict& first, bool columns);
  // The first `obs_fields` of the fields are the observation. ValueError: keys cannot give them.
  TransitionReading(SpecPtr rows, int obs_fields);

  const SpecPtr& rows() const { return rows_; }
  const SpecPtr& obs() const { return obs_; }

  // Read a dict of columns, or a list of dicts. ValueError: other keys, types or shapes.
  void ReadColumns(const pybind11::dict& data, PushedColumns* pushed) const;
  void ReadList(const pybind11::list& data, PushedColumns* pushed) const;
  // Says after which rows an episode ends: by "terminated" or "done", or by "truncated".
  void FindEnds(const PushedColumns& pushed, std::vector<SegmentEnd>* ends) const;

 private:
  struct EndField {
    int field = -1;  // -1: the rows do not have it
    DType dtype = DType::kBool;
  };

  EndField FindEnd(absl::string_view name) const;
  void CheckKeys(const pybind11::dict& data, int64_t row) const;
  pybind11::handle Value(const KeyPath& path, const std::string& name, pybind11::handle data,
                         int64_t row) const;

  SpecPtr rows_;
  SpecPtr obs_;
  std::vector<KeyPath> row_keys_;
  std::vector<KeyPath> next_keys_;
  std::vector<FieldSpec> next_fields_;  // with the names "next_obs..."
  bool nested_ = false;
  EndField done_, terminated_, truncated_;
};

}  // namespace ding

#endif  // DING_WORKER_PYTHON_EXTENSION_TRANSITIONS_H_
