// Dicts of a Python program as rows: which key is which field, what was pushed as columns, and the
// observations and batches of a policy.
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
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
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
  // Copies the rows, and the observations after `last_rows`, to blocks of pools of rows() and
  // obs(). kResourceExhausted without the memory.
  absl::Status MakeBlocks(const PushedColumns& pushed, absl::Span<const int64_t> last_rows,
                          BlockPool* rows_pool, BlockPool* obs_pool, SegmentBatch* data) const;

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

// The fields of `spec` as they are called within an observation or an action: "obs/pos" is "pos",
// and the only field is "".
std::vector<std::string> NamesWithin(const Spec& spec, absl::string_view whole);

// Reads what a policy observes: an array, or a dict of arrays by field.
class ObservationReading {
 public:
  explicit ObservationReading(SpecPtr spec);

  // `batch` gets B of [B, ...] observations; nullopt: `obs` is a single one. The rows are valid
  // until the next call. ValueError, TypeError: it is no such observation.
  ColumnsView Read(const pybind11::object& obs, std::optional<int64_t>* batch);

 private:
  pybind11::object Value(const pybind11::object& obs, size_t index) const;

  const SpecPtr spec_;
  const std::vector<std::string> names_;
  std::optional<BatchBuilder> rows_;
};

// Returns a dict of columns [B, ...], or with `sequences` [B, T, ...], as a batch. It is a copy.
// ValueError: there is no column, or their sizes differ.
Batch ReadBatch(const pybind11::dict& columns, bool sequences);

}  // namespace ding

#endif  // DING_WORKER_PYTHON_EXTENSION_TRANSITIONS_H_
