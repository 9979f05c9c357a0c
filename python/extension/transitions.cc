#include "ding_worker/python/extension/transitions.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/python/extension/arrays.h"

namespace ding {
namespace {

namespace py = pybind11;

struct Leaf {
  std::string name;
  py::handle value;
};

void AddLeaves(const py::dict& dict, const std::string& prefix, std::vector<Leaf>* leaves) {
  for (const auto& [key, value] : dict) {
    if (!py::isinstance<py::str>(key)) {
      throw py::type_error(absl::StrCat("key ", std::string(py::repr(key)), " is a ",
                                        Py_TYPE(key.ptr())->tp_name, ", expected a str"));
    }
    const auto name = py::cast<std::string>(key);
    if (absl::StrContains(name, '/')) {
      throw py::value_error(absl::StrCat("key '", name, "' has a '/', which separates the keys of ",
                                         "nested dicts; expected one without"));
    }
    if (py::isinstance<py::dict>(value)) {
      AddLeaves(py::reinterpret_borrow<py::dict>(value), absl::StrCat(prefix, name, "/"), leaves);
    } else {
      leaves->push_back({prefix + name, value});
    }
  }
}

std::vector<Leaf> Leaves(const py::dict& dict) {
  std::vector<Leaf> leaves;
  AddLeaves(dict, "", &leaves);
  return leaves;
}

bool IsNextObs(absl::string_view name) {
  return absl::StartsWith(name, "next_") && IsObsColumn(name.substr(5));
}

FieldSpec FieldOf(const Leaf& leaf, bool column) {
  const ValuePlace place = {leaf.name, column ? -1 : 0};
  const py::object array = AsArray(leaf.value, place);
  const std::optional<DType> dtype = ArrayDType(array);
  absl::Span<const int64_t> shape = ArrayShape(array);
  if (!dtype.has_value() || (column && shape.empty())) {
    throw py::value_error(absl::StrCat(
        place.Text(), " is ", ArrayText(array), column ? ", expected a column [N, ...]" : "",
        ", expected one of the types bool, uint8, int32, int64, float32, float64"));
  }
  if (column) shape.remove_prefix(1);
  FieldSpec field;
  field.name = leaf.name;
  field.dtype = *dtype == DType::kFloat64 ? DType::kFloat32 : *dtype;
  field.shape.assign(shape.begin(), shape.end());
  // A reward of 1 is as good as one of 1.0.
  if (leaf.name == kColumnReward && PyLong_CheckExact(leaf.value.ptr())) {
    field.dtype = DType::kFloat32;
  }
  return field;
}

std::string Names(const Spec& rows, absl::Span<const FieldSpec> next) {
  const auto name = [](std::string* out, const FieldSpec& field) { out->append(field.name); };
  return absl::StrCat(absl::StrJoin(rows.fields(), ", ", name), ", ",
                      absl::StrJoin(next, ", ", name));
}

std::string InTransition(int64_t row) {
  return row < 0 ? "the columns" : absl::StrCat("transition ", row);
}

bool IsSet(const std::byte* value, DType dtype) {
  if (SizeOf(dtype) == 1) return *value != std::byte{0};
  if (dtype == DType::kFloat32) {
    float number;
    std::memcpy(&number, value, sizeof(number));
    return number != 0;
  }
  return std::any_of(value, value + SizeOf(dtype),
                     [](std::byte byte) { return byte != std::byte{0}; });
}

}  // namespace

KeyPath::KeyPath(absl::string_view name) {
  for (const absl::string_view key : absl::StrSplit(name, '/')) {
    PyObject* interned =
        PyUnicode_FromStringAndSize(key.data(), static_cast<Py_ssize_t>(key.size()));
    PyUnicode_InternInPlace(&interned);
    keys_.push_back(py::reinterpret_steal<py::str>(interned));
  }
}

py::handle KeyPath::Find(py::handle dict) const {
  py::handle value = dict;
  for (const py::str& key : keys_) {
    if (!PyDict_Check(value.ptr())) return {};
    value = PyDict_GetItemWithError(value.ptr(), key.ptr());
    if (!value) return {};
  }
  return value;
}

void KeyPath::Set(const py::dict& dict, const py::object& value) const {
  py::dict inner = dict;
  for (size_t i = 0; i + 1 < keys_.size(); ++i) {
    if (!inner.contains(keys_[i])) inner[keys_[i]] = py::dict();
    inner = inner[keys_[i]];
  }
  if (PyDict_SetItem(inner.ptr(), keys_.back().ptr(), value.ptr()) != 0) {
    throw py::error_already_set();
  }
}

TransitionReading TransitionReading::Of(const py::dict& first, bool columns) {
  std::vector<FieldSpec> fields;
  for (const Leaf& leaf : Leaves(first)) {
    if (!IsNextObs(leaf.name)) fields.push_back(FieldOf(leaf, columns));
  }
  const auto rest = std::stable_partition(
      fields.begin(), fields.end(), [](const FieldSpec& field) { return IsObsColumn(field.name); });
  const auto obs_fields = static_cast<int>(rest - fields.begin());
  if (obs_fields == 0) {
    throw py::value_error(absl::StrCat(InTransition(columns ? -1 : 0),
                                       " has no 'obs', expected a dict with obs, action, reward, "
                                       "next_obs, done, and what else is stored"));
  }
  return TransitionReading(ValueOrThrow(MakeSpec(std::move(fields))), obs_fields);
}

TransitionReading::TransitionReading(SpecPtr rows, int obs_fields) : rows_(std::move(rows)) {
  std::vector<FieldSpec> obs;
  for (int i = 0; i < rows_->size(); ++i) {
    const FieldSpec& field = rows_->field(i);
    row_keys_.emplace_back(field.name);
    nested_ = nested_ || row_keys_.back().nested();
    if (i >= obs_fields) continue;
    obs.push_back(field);
    next_fields_.push_back(field);
    next_fields_.back().name = NextObsColumn(field.name);
    next_keys_.emplace_back(next_fields_.back().name);
  }
  obs_ = ValueOrThrow(MakeSpec(std::move(obs)));
  done_ = FindEnd("done");
  terminated_ = FindEnd("terminated");
  truncated_ = FindEnd("truncated");
}

TransitionReading::EndField TransitionReading::FindEnd(absl::string_view name) const {
  const std::optional<int> field = rows_->Find(name);
  if (!field.has_value()) return {};
  const FieldSpec& found = rows_->field(*field);
  if (found.num_elements() != 1) {
    throw py::value_error(absl::StrCat("'", name, "' is ", found.DebugString(),
                                       ", expected one element: whether the episode ended"));
  }
  return {*field, found.dtype};
}

py::handle TransitionReading::Value(const KeyPath& path, const std::string& name, py::handle data,
                                    int64_t row) const {
  const py::handle value = path.Find(data);
  if (value) return value;
  throw py::value_error(absl::StrCat(InTransition(row), " has no '", name, "', expected the keys ",
                                     Names(*rows_, next_fields_)));
}

// All expected values were found, so that one too many is an unknown one.
void TransitionReading::CheckKeys(const py::dict& data, int64_t row) const {
  const size_t expected = row_keys_.size() + next_keys_.size();
  if (!nested_ && data.size() == expected) return;
  const std::vector<Leaf> leaves = Leaves(data);
  if (leaves.size() == expected) return;
  for (const Leaf& leaf : leaves) {
    const bool next = IsNextObs(leaf.name);
    if (rows_->Find(next ? leaf.name.substr(5) : leaf.name).has_value()) continue;
    throw py::value_error(absl::StrCat(InTransition(row), " has '", leaf.name,
                                       "', which the first push did not have, expected the keys ",
                                       Names(*rows_, next_fields_)));
  }
}

void TransitionReading::ReadColumns(const py::dict& data, PushedColumns* pushed) const {
  const std::string& first_name = rows_->field(0).name;
  const py::object first = AsArray(Value(row_keys_[0], first_name, data, /*row=*/-1), {first_name});
  pushed->size = ArrayShape(first).empty() ? 0 : ArrayShape(first)[0];
  pushed->keep.resize(row_keys_.size() + next_keys_.size());
  py::object* keep = pushed->keep.data();
  for (size_t i = 0; i < row_keys_.size(); ++i) {
    const FieldSpec& field = rows_->field(static_cast<int>(i));
    pushed->rows.push_back(ReadArray(Value(row_keys_[i], field.name, data, -1), field, pushed->size,
                                     {field.name}, keep++));
  }
  for (size_t i = 0; i < next_keys_.size(); ++i) {
    const FieldSpec& field = next_fields_[i];
    pushed->next_obs.push_back(ReadArray(Value(next_keys_[i], field.name, data, -1), field,
                                         pushed->size, {field.name}, keep++));
  }
  CheckKeys(data, -1);
}

void TransitionReading::ReadList(const py::list& data, PushedColumns* pushed) const {
  pushed->size = static_cast<int64_t>(data.size());
  pushed->memory.resize(
      static_cast<size_t>(pushed->size * (rows_->row_bytes() + obs_->row_bytes())));
  std::byte* to = pushed->memory.data();
  const auto transition = [&data](int64_t row) {
    const py::handle found = PyList_GetItem(data.ptr(), static_cast<Py_ssize_t>(row));
    if (!found) throw py::error_already_set();
    return found;
  };
  const auto read = [&](const KeyPath& path, const FieldSpec& field) {
    const std::byte* const column = to;
    for (int64_t row = 0; row < pushed->size; ++row, to += field.row_bytes()) {
      ReadRow(Value(path, field.name, transition(row), row), field, {field.name, row}, to);
    }
    return column;
  };
  for (int64_t row = 0; row < pushed->size; ++row) {
    if (PyDict_Check(transition(row).ptr())) continue;
    throw py::type_error(absl::StrCat("transition ", row, " is a ",
                                      Py_TYPE(transition(row).ptr())->tp_name,
                                      ", expected a dict"));
  }
  for (size_t i = 0; i < row_keys_.size(); ++i) {
    pushed->rows.push_back(read(row_keys_[i], rows_->field(static_cast<int>(i))));
  }
  for (size_t i = 0; i < next_keys_.size(); ++i) {
    pushed->next_obs.push_back(read(next_keys_[i], next_fields_[i]));
  }
  for (int64_t row = 0; row < pushed->size; ++row) {
    CheckKeys(py::reinterpret_borrow<py::dict>(transition(row)), row);
  }
}

void TransitionReading::FindEnds(const PushedColumns& pushed, std::vector<SegmentEnd>* ends) const {
  ends->assign(static_cast<size_t>(pushed.size), SegmentEnd::kCut);
  const auto mark = [&](const EndField& field, SegmentEnd end) {
    if (field.field < 0) return;
    const std::byte* value = pushed.rows[field.field];
    const int64_t bytes = SizeOf(field.dtype);
    for (SegmentEnd& found : *ends) {
      if (IsSet(value, field.dtype)) found = end;
      value += bytes;
    }
  };
  mark(done_, SegmentEnd::kTerminated);
  mark(truncated_, SegmentEnd::kTruncated);
  mark(terminated_, SegmentEnd::kTerminated);
}

absl::Status TransitionReading::MakeBlocks(const PushedColumns& pushed,
                                           absl::Span<const int64_t> last_rows,
                                           BlockPool* rows_pool, BlockPool* obs_pool,
                                           SegmentBatch* data) const {
  DING_ASSIGN_OR_RETURN(BatchBuilder rows, rows_pool->Allocate(pushed.size));
  const auto ends = static_cast<int64_t>(last_rows.size());
  DING_ASSIGN_OR_RETURN(BatchBuilder final_obs, obs_pool->Allocate(ends));
  for (size_t i = 0; i < pushed.rows.size(); ++i) {
    const int64_t bytes = rows.spec().row_bytes(static_cast<int>(i));
    std::memcpy(rows.view().raw_column(static_cast<int>(i)), pushed.rows[i],
                static_cast<size_t>(pushed.size * bytes));
  }
  for (size_t i = 0; i < pushed.next_obs.size(); ++i) {
    const auto bytes = static_cast<size_t>(final_obs.spec().row_bytes(static_cast<int>(i)));
    std::byte* to = final_obs.view().raw_column(static_cast<int>(i));
    for (const int64_t row : last_rows) {
      std::memcpy(to, pushed.next_obs[i] + row * bytes, bytes);
      to += bytes;
    }
  }
  data->rows = std::move(rows).Seal(pushed.size);
  data->final_obs = std::move(final_obs).Seal(ends);
  return absl::OkStatus();
}

std::vector<std::string> NamesWithin(const Spec& spec, absl::string_view whole) {
  std::vector<std::string> names;
  for (const FieldSpec& field : spec.fields()) {
    absl::string_view name = field.name;
    if (absl::ConsumePrefix(&name, whole)) absl::ConsumePrefix(&name, "/");
    names.emplace_back(name);
  }
  return names;
}

ObservationReading::ObservationReading(SpecPtr spec)
    : spec_(std::move(spec)), names_(NamesWithin(*spec_, kColumnObs)) {}

ColumnsView ObservationReading::Read(const py::object& obs, std::optional<int64_t>* batch) {
  const FieldSpec& first = spec_->field(0);
  const py::object array = AsArray(Value(obs, 0), {first.name});
  const absl::Span<const int64_t> shape = ArrayShape(array);
  batch->reset();
  if (shape.size() == first.shape.size() + 1) *batch = shape[0];
  const int64_t rows = batch->value_or(1);
  if (!rows_.has_value() || rows_->capacity_rows() != rows) {
    rows_.emplace(ValueOrThrow(BatchBuilder::Create(spec_, rows)));
  }
  const MutableColumnsView to = rows_->view();
  for (int i = 0; i < spec_->size(); ++i) {
    const FieldSpec& field = spec_->field(i);
    py::object keep;
    const std::byte* const from = ReadArray(Value(obs, static_cast<size_t>(i)), field,
                                            batch->value_or(-1), {field.name}, &keep);
    std::memcpy(to.raw_column(i), from, static_cast<size_t>(rows * field.row_bytes()));
  }
  return to;
}

py::object ObservationReading::Value(const py::object& obs, size_t index) const {
  const std::string& name = names_[index];
  if (names_.size() == 1 && !py::isinstance<py::dict>(obs)) return obs;
  if (!py::isinstance<py::dict>(obs) || !obs.contains(name)) {
    throw py::value_error(absl::StrCat("the observation is ", Py_TYPE(obs.ptr())->tp_name,
                                       " without '", name,
                                       "', expected a dict of arrays that has it"));
  }
  return obs[py::str(name)];
}

Batch ReadBatch(const py::dict& columns, bool sequences) {
  const std::vector<Leaf> leaves = Leaves(columns);
  std::vector<FieldSpec> stored;  // with the T of sequences, which are rows in a batch
  std::vector<FieldSpec> fields;
  for (const Leaf& leaf : leaves) {
    stored.push_back(FieldOf(leaf, /*column=*/true));
    fields.push_back(stored.back());
    if (leaf.name == "IS") fields.back().name = kColumnWeight;
    if (!sequences) continue;
    if (fields.back().shape.empty()) {
      throw py::value_error(absl::StrCat("'", leaf.name, "' is ", ArrayText(leaf.value),
                                         ", expected sequences [B, T, ...]"));
    }
    fields.back().shape.erase(fields.back().shape.begin());
  }
  if (leaves.empty()) throw py::value_error("there are no columns, expected at least one");
  const int64_t size = ArrayShape(AsArray(leaves[0].value, {leaves[0].name}))[0];
  const int64_t length = sequences ? stored[0].shape[0] : 1;
  BatchBuilder rows =
      ValueOrThrow(BatchBuilder::Create(ValueOrThrow(MakeSpec(std::move(fields))), size * length));
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (sequences && stored[i].shape[0] != length) {
      throw py::value_error(absl::StrCat("'", leaves[i].name, "' is ", ArrayText(leaves[i].value),
                                         ", expected sequences of ", length, " rows, as '",
                                         leaves[0].name, "' has"));
    }
    py::object keep;
    const std::byte* const from =
        ReadArray(leaves[i].value, stored[i], size, {leaves[i].name}, &keep);
    std::memcpy(rows.view().raw_column(static_cast<int>(i)), from,
                static_cast<size_t>(size * stored[i].row_bytes()));
  }
  Batch batch = std::move(rows).Seal(size * length);
  return sequences ? batch.AsSequences(length) : batch;
}

}  // namespace ding
