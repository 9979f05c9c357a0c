// Class Buffer of the extension: a replay buffer of any type behind dicts and numpy arrays. The
// classes of ding_worker/replay_buffer.py derive from it.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/saved_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/python/extension/arrays.h"
#include "ding_worker/python/extension/module.h"
#include "ding_worker/python/extension/process_guard.h"
#include "ding_worker/python/extension/stream_tracker.h"
#include "ding_worker/python/extension/transitions.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/advanced_buffer.pb.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_file.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/worker/config/text_config.h"

namespace ding {
namespace {

namespace py = pybind11;

// Calls that move more bytes than this let other threads of Python run.
constexpr int64_t kReleaseBytes = 32 << 10;

// Lets other threads of Python run, if `release` is set.
class MaybeReleaseGil {
 public:
  explicit MaybeReleaseGil(bool release) {
    if (release) released_.emplace();
  }

 private:
  std::optional<py::gil_scoped_release> released_;
};

// Keeps the spec of the rows from a state that is written.
class SpecKeeper : public StateWriter {
 public:
  bool needs_values(DType /*dtype*/) const override { return false; }
  absl::Status Write(absl::string_view name, DType dtype, absl::Span<const int64_t> shape,
                     absl::Span<const absl::string_view> parts) override {
    const absl::string_view last = name.substr(name.rfind('/') + 1);
    if (last != "spec" && last != "obs_fields") return absl::OkStatus();
    return kept.Write(last, dtype, shape, parts);
  }

  StateDict kept;
};

AgeRange RangeOf(const py::slice& slice) {
  const py::object step = slice.attr("step");
  if (!step.is_none() && !step.equal(py::int_(1))) {
    throw py::value_error(absl::StrCat("sample_range is ", std::string(py::repr(slice)),
                                       ", expected a slice without a step"));
  }
  const py::object start = slice.attr("start");
  AgeRange range;
  if (!start.is_none()) range.begin = start.cast<int64_t>();
  range.end = slice.attr("stop").cast<std::optional<int64_t>>();
  return range;
}

void Warn(const std::string& text) {
  py::module_::import("logging").attr("getLogger")("ding_worker").attr("warning")("%s", text);
}

class Buffer {
 public:
  // `config` is a BufferConfig in text format. `sets_window`: the window of an elastic buffer is
  // what set_window() says.
  Buffer(const std::string& config, uint64_t seed, std::string name, bool sets_window)
      : name_(std::move(name)) {
    BufferConfig parsed;
    ThrowIfError(
        ProblemsToStatus(ParseTextConfig(config, absl::StrCat("config of ", name_), &parsed)));
    BufferDeps deps;
    deps.metrics = nullptr;
    deps.seed = seed;
    deps.name = name_;
    if (sets_window) {
      ElasticReplayBuffer::Options options;
      std::vector<std::string> problems;
      ReadCommonOptions(parsed, deps, &options.ring, &problems);
      ThrowIfError(ProblemsToStatus(problems, name_));
      options.window_rows = [window = window_](int64_t) { return window->load(); };
      buffer_ = ValueOrThrow(ElasticReplayBuffer::Create(std::move(options)));
    } else {
      // Without GuardBuffer(): there is no code of a user in it.
      buffer_ = ValueOrThrow(BufferRegistry().Create(parsed, deps));
    }
    AdvancedBufferConfig advanced;
    waits_ = parsed.type() == "advanced" && parsed.has_params() &&
             parsed.params().UnpackTo(&advanced) &&
             advanced.thruput_controller().max_wait_seconds() > 0;
    sequences_ = buffer_->draws_sequences();
  }

  void Push(const py::object& data, int64_t envstep, bool columns, const py::object& streams,
            bool ends) {
    const std::shared_ptr<IBuffer> buffer = Open();
    const std::unique_lock<std::mutex> lock = LockPushes();
    py::list list;
    if (columns) {
      if (!PyDict_Check(data.ptr())) {
        throw py::type_error(absl::StrCat(name_, ": the columns are a ",
                                          Py_TYPE(data.ptr())->tp_name, ", expected a dict"));
      }
    } else if (PyDict_Check(data.ptr())) {
      list.append(data);
    } else if (PyList_Check(data.ptr()) || PyTuple_Check(data.ptr())) {
      list = py::list(data);
    } else {
      throw py::type_error(absl::StrCat(name_, ": the data are a ", Py_TYPE(data.ptr())->tp_name,
                                        ", expected a transition (a dict), or a list of them"));
    }
    if (!columns && list.empty()) return;
    PushedColumns pushed;
    std::optional<TransitionReading> made;
    if (!reading_.has_value()) {
      const py::object first = columns ? data : py::object(list[0]);
      if (!PyDict_Check(first.ptr())) {
        throw py::type_error(
            absl::StrCat("transition 0 is a ", Py_TYPE(first.ptr())->tp_name, ", expected a dict"));
      }
      made = TransitionReading::Of(first, columns);
    }
    const TransitionReading& reading = made.has_value() ? *made : *reading_;
    if (columns) {
      reading.ReadColumns(py::reinterpret_borrow<py::dict>(data), &pushed);
    } else {
      reading.ReadList(list, &pushed);
    }
    if (pushed.size == 0) return;
    if (made.has_value()) ForgetBlocks();
    const int64_t bytes = pushed.size * (reading.rows()->row_bytes() + reading.obs()->row_bytes());
    py::object keep_streams;
    absl::Span<const int64_t> stream_of;
    if (!streams.is_none()) {
      const std::string what = "streams";
      const auto* const numbers = reinterpret_cast<const int64_t*>(
          ReadArray(streams, Scalar(what, DType::kInt64), pushed.size, {what}, &keep_streams));
      stream_of = absl::MakeConstSpan(numbers, static_cast<size_t>(pushed.size));
    }
    absl::Status status;
    {
      const MaybeReleaseGil release(waits_ || bytes > kReleaseBytes);
      status = PushRows(buffer.get(), reading, pushed, stream_of, envstep, ends);
    }
    if (absl::IsUnavailable(status)) {
      Warn(std::string(status.message()));
      return;
    }
    ThrowIfError(status);
    if (made.has_value()) reading_ = std::move(made);
  }

  py::object Sample(int64_t size, int64_t iter, const py::object& range, bool replace,
                    std::optional<int64_t> sequence) {
    const std::shared_ptr<IBuffer> buffer = Open();
    SampleOptions options;
    options.replace = replace;
    options.sequence = sequence;
    if (!range.is_none()) {
      if (!PySlice_Check(range.ptr())) {
        throw py::type_error(absl::StrCat("sample_range is a ", Py_TYPE(range.ptr())->tp_name,
                                          ", expected a slice, such as slice(-10, None)"));
      }
      options.range = RangeOf(py::reinterpret_borrow<py::slice>(range));
    }
    absl::StatusOr<Batch> batch = absl::UnknownError("");
    {
      const MaybeReleaseGil release(waits_ || sequences_ || size * row_bytes_ > kReleaseBytes);
      batch = buffer->Sample(size, iter, options);
    }
    if (absl::IsFailedPrecondition(batch.status())) {
      Warn(std::string(batch.status().message()));
      return py::none();
    }
    return Columns(ValueOrThrow(std::move(batch)));
  }

  void Update(const py::dict& info) {
    const std::shared_ptr<IBuffer> buffer = Open();
    PriorityInfo priorities;
    const auto read = [&info](const char* key, DType dtype, auto* out) {
      const std::string name = key;
      if (!info.contains(key)) {
        throw py::value_error(absl::StrCat("the info has no '", name, "', expected the keys ",
                                           "priority, replay_unique_id and replay_buffer_idx"));
      }
      const py::object value = info[key];
      const py::object array = AsArray(value, {name});
      const int64_t rows = ArrayShape(array).empty() ? 0 : ArrayShape(array)[0];
      py::object keep;
      using T = typename std::decay_t<decltype(*out)>::value_type;
      const auto* const data =
          reinterpret_cast<const T*>(ReadArray(array, Scalar(name, dtype), rows, {name}, &keep));
      out->assign(data, data + rows);
    };
    read("priority", DType::kFloat32, &priorities.priority);
    read("replay_unique_id", DType::kInt64, &priorities.replay_unique_id);
    read("replay_buffer_idx", DType::kInt64, &priorities.replay_buffer_idx);
    ThrowIfError(buffer->Update(priorities));
  }

  // The window of an elastic buffer from now on.
  void SetWindow(int64_t rows) {
    window_->store(rows);
    ThrowIfError(Open()->Push(SegmentBatch(), /*cur_collector_envstep=*/0));
  }

  void Clear() {
    Open()->Clear();
    const std::unique_lock<std::mutex> lock = LockPushes();
    streams_.Clear();
  }

  void Close() {
    if (buffer_ == nullptr) return;
    ThrowIfError(Open()->Close());
    buffer_ = nullptr;
  }

  int64_t Count() const { return Open()->count(); }
  int64_t PushCount() const { return Open()->push_count(); }
  py::object Beta() const {
    const auto* const advanced = dynamic_cast<const AdvancedReplayBuffer*>(Open().get());
    return advanced == nullptr ? py::object(py::none()) : py::float_(advanced->beta());
  }
  bool closed() const { return buffer_ == nullptr; }

  py::dict StateDictOf() const {
    StateDict state;
    const std::shared_ptr<IBuffer> buffer = Open();
    absl::Status saved;
    {
      const py::gil_scoped_release release;
      saved = buffer->SaveState(&state);
    }
    ThrowIfError(saved);
    return StateToDict(state);
  }

  void LoadStateDict(const py::dict& dict) {
    std::vector<py::object> keep;
    StateDict state = StateOfDict(dict, &keep);
    Load([&state](IBuffer* buffer) { return buffer->LoadState(&state); });
  }

  void SaveFile(const std::string& path) const {
    const std::shared_ptr<IBuffer> buffer = Open();
    absl::Status saved;
    {
      const py::gil_scoped_release release;
      saved = SaveData(*buffer, path);
    }
    ThrowIfError(saved);
  }
  void LoadFile(const std::string& path) {
    Load([&path](IBuffer* buffer) { return LoadData(buffer, path); });
  }

 private:
  std::shared_ptr<IBuffer> Open() const {
    process_.Check(name_);
    if (buffer_ == nullptr) {
      throw std::runtime_error(absl::StrCat(name_, " is closed: make another buffer"));
    }
    return buffer_;
  }

  // Pushes wait for each other without the GIL, which the one that goes on may need.
  std::unique_lock<std::mutex> LockPushes() {
    std::unique_lock<std::mutex> lock(pushes_, std::try_to_lock);
    if (!lock.owns_lock()) {
      const py::gil_scoped_release release;
      lock.lock();
    }
    return lock;
  }

  absl::Status PushRows(IBuffer* buffer, const TransitionReading& reading,
                        const PushedColumns& pushed, absl::Span<const int64_t> stream_of,
                        int64_t envstep, bool ends) {
    reading.FindEnds(pushed, &ends_);
    if (ends && ends_.back() == SegmentEnd::kCut) ends_.back() = SegmentEnd::kTruncated;
    SegmentBatch data;
    last_rows_.clear();
    DING_RETURN_IF_ERROR(
        streams_.Cut({absl::MakeConstSpan(pushed.rows).first(pushed.next_obs.size()),
                      pushed.next_obs, reading.obs().get(), stream_of, ends_},
                     &data.segments, &last_rows_));
    if (!rows_pool_.has_value()) {
      rows_pool_.emplace(reading.rows(), /*max_free_blocks=*/1);
      obs_pool_.emplace(reading.obs(), /*max_free_blocks=*/1);
    }
    absl::Status status = reading.MakeBlocks(pushed, last_rows_, &*rows_pool_, &*obs_pool_, &data);
    if (status.ok()) status = buffer->Push(data, envstep);
    if (!status.ok()) streams_.Undo();
    return status;
  }

  // The next rows have other fields.
  void ForgetBlocks() {
    rows_pool_.reset();
    obs_pool_.reset();
  }

  // A dict of arrays that share the memory of the batch: [B, ...], or [B, T, ...] of sequences.
  py::object Columns(Batch batch) {
    const Spec& spec = batch.spec();
    if (batch.spec_ptr() != drawn_spec_) {
      drawn_spec_ = batch.spec_ptr();
      row_bytes_ = spec.row_bytes();
      drawn_keys_.clear();
      for (const FieldSpec& field : spec.fields()) {
        drawn_keys_.emplace_back(field.name == kColumnWeight ? "IS" : field.name);
      }
    }
    const int64_t length = batch.sequence_length();
    Shape shape;
    py::dict columns;
    const ColumnsView view = batch.view();
    const py::object owner = BatchOwner(batch);
    for (int i = 0; i < spec.size(); ++i) {
      const FieldSpec& field = spec.field(i);
      shape.assign(1, view.rows() / length);
      if (sequences_) shape.push_back(length);
      shape.insert(shape.end(), field.shape.begin(), field.shape.end());
      drawn_keys_[i].Set(columns, MakeArray(field.dtype, shape, view.raw_column(i), owner));
    }
    return std::move(columns);
  }

  template <typename LoadFrom>
  void Load(LoadFrom load) {
    const std::shared_ptr<IBuffer> buffer = Open();
    const std::unique_lock<std::mutex> lock = LockPushes();
    SpecKeeper keeper;
    absl::Status status;
    {
      const py::gil_scoped_release release;
      status = load(buffer.get());
      if (status.ok()) status = buffer->SaveState(&keeper);
    }
    ThrowIfError(status);
    const std::string lost = buffer->lost_rows();
    if (!lost.empty() && PyErr_WarnEx(PyExc_UserWarning, lost.c_str(), 1) != 0) {
      throw py::error_already_set();
    }
    streams_.Clear();
    reading_.reset();
    ForgetBlocks();
    if (keeper.kept.tensors().empty()) return;  // the saved buffer had no rows
    SpecPtr spec = ValueOrThrow(LoadSpec("spec", &keeper.kept));
    const int64_t obs_fields = ValueOrThrow(keeper.kept.ReadInt("obs_fields"));
    reading_.emplace(std::move(spec), static_cast<int>(obs_fields));
  }

  const std::string name_;
  const ProcessGuard process_;
  const std::shared_ptr<std::atomic<int64_t>> window_ = std::make_shared<std::atomic<int64_t>>(1);
  std::shared_ptr<IBuffer> buffer_;  // null: closed
  bool waits_ = false;               // a push or a draw may wait for another thread
  bool sequences_ = false;

  // For the rows that are pushed: under pushes_, or with the GIL.
  std::mutex pushes_;
  std::optional<TransitionReading> reading_;  // not set until the first push
  StreamTracker streams_;
  std::optional<BlockPool> rows_pool_, obs_pool_;
  std::vector<SegmentEnd> ends_;
  std::vector<int64_t> last_rows_;

  // For the batches that are drawn: with the GIL.
  SpecPtr drawn_spec_;
  std::vector<KeyPath> drawn_keys_;
  int64_t row_bytes_ = 0;  // 0 until the first draw
};

}  // namespace

void BindReplayBuffer(py::module_& module) {
  using py::arg;
  py::class_<Buffer>(module, "Buffer")
      .def(py::init<const std::string&, uint64_t, std::string, bool>(), arg("config"), arg("seed"),
           arg("name"), arg("sets_window") = false)
      .def("push", &Buffer::Push, arg("data"), arg("cur_collector_envstep") = -1, py::kw_only(),
           arg("columns") = false, arg("streams") = py::none(), arg("ends") = false,
           "Copies a transition (a dict), a list of them, or with columns=True a dict of columns.\n"
           "streams: the number of the env of each row, if several envs take turns.\n"
           "ends: the last row ends its episode, by a time limit unless it says otherwise.")
      .def("_sample", &Buffer::Sample, arg("size"), arg("cur_learner_iter"),
           arg("sample_range") = py::none(), arg("replace") = false, arg("sequence") = py::none())
      .def("_update", &Buffer::Update, arg("info"))
      .def("_set_window", &Buffer::SetWindow, arg("rows"))
      .def("clear", &Buffer::Clear, "Forgets all rows.")
      .def("close", &Buffer::Close,
           "Drops all rows. Afterwards each use is a RuntimeError; a further close() does nothing.")
      .def("count", &Buffer::Count, "The number of rows, sequences or episodes to draw from.")
      .def_property_readonly("push_count", &Buffer::PushCount)
      .def_property_readonly("_beta", &Buffer::Beta)
      .def_property_readonly("closed", &Buffer::closed)
      .def("state_dict", &Buffer::StateDictOf, "A copy of the content: numpy arrays by name.")
      .def("_load_state_dict", &Buffer::LoadStateDict, arg("state_dict"))
      .def("save_data", &Buffer::SaveFile, arg("file_name"),
           "Writes a safetensors file, which the C++ programs read, too.")
      .def("load_data", &Buffer::LoadFile, arg("file_name"));
}

}  // namespace ding
