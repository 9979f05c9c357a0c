// Functions of the extension that train and evaluate, for ding_worker/training.py and run.py.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/log_event.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/metrics/progress.h"
#include "ding_worker/python/extension/arrays.h"
#include "ding_worker/python/extension/module.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/policy_defaults.h"
#include "ding_worker/worker/config/run_budget.h"
#include "ding_worker/worker/evaluation/evaluation.h"
#include "ding_worker/worker/evaluation/evaluation_report.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/serial_run.h"
#include "ding_worker/worker/run_folder/process_logs.h"
#include "ding_worker/worker/saved_policy/saved_policy.h"

namespace ding {
namespace {

namespace py = pybind11;

// How often a run looks for Ctrl-C, and how long it may go on with a round or an evaluation then.
constexpr absl::Duration kSignalPeriod = absl::Milliseconds(20);
constexpr absl::Duration kPatience = absl::Milliseconds(400);
// What Python is told of.
constexpr char kEvaluation[] = "evaluation";
constexpr char kCheckpoint[] = "checkpoint";
constexpr char kFault[] = "fault";
// Lines that wait for Python; more are only in the log.
constexpr size_t kMaxWaiting = 1000;

// Hands what a run reports to functions of Python, and Python's signals and wishes to the run.
//
// Threads: any thread may log and poll; what Python is told, it is told by the thread of the run.
class Listener : public LogSink {
 public:
  // `tell(kind, name, env_step, train_iter, value, text)` returns whether the run should end; the
  // text of a checkpoint is its path. `show(json)` may be None. Without `tell`, it only looks for
  // signals, and leaves the log to a run that trains.
  Listener(py::object tell, py::object show) : tell_(std::move(tell)), show_(std::move(show)) {
    if (tell_.is_none() && current != nullptr) return;
    current = this;
    ListenToLogs(this);
  }
  ~Listener() override {
    if (current != this) return;
    current = nullptr;
    ListenToLogs(nullptr);
  }

  void Send(const LogLine& line) override {
    const LogEvent* const event = CurrentLogEvent();
    const char* kind = line.severity >= LogSeverity::kWarning ? kFault : nullptr;
    if (event != nullptr && event->kind == EventKind::kEvaluation) kind = kEvaluation;
    if (event != nullptr && event->kind == EventKind::kCheckpoint) kind = kCheckpoint;
    // A hook that evaluates logs events of its own.
    if (kind == nullptr || in_hook) return;
    const MutexLock lock(&mutex_);
    if (waiting_.size() >= kMaxWaiting) return;
    waiting_.push_back({kind, event == nullptr ? LogEvent() : *event, std::string(line.message)});
    any_waiting_ = true;
  }

  std::string folder;  // of the run

  // SerialOptions::why_stop.
  std::string WhyStop() {
    if (!why_.empty() || !any_waiting_.load(std::memory_order_relaxed)) return why_;
    std::vector<Line> lines;
    {
      const MutexLock lock(&mutex_);
      lines.swap(waiting_);
      any_waiting_ = false;
    }
    const py::gil_scoped_acquire gil;
    for (const Line& line : lines) {
      Call([&] {
        const LogEvent& event = line.event;
        const py::object value =
            std::isnan(event.value) ? py::object(py::none()) : py::object(py::float_(event.value));
        const std::string path = absl::StrCat(folder, "/ckpt/", event.name);
        const py::object ends = tell_(line.kind, event.name, event.env_step, event.train_iter,
                                      value, line.kind == kCheckpoint ? path : line.text);
        if (ends.cast<bool>() && why_.empty()) {
          why_ = absl::StrCat("on_", line.kind, " returned True");
        }
      });
    }
    return why_;
  }

  // SerialOptions::interrupted and ::overdue.
  bool Interrupted() {
    if (interrupted_.load(std::memory_order_relaxed)) return true;
    const int64_t now = Clock::Real()->MonotonicNanos();
    int64_t next = next_look_.load(std::memory_order_relaxed);
    if (now < next ||
        !next_look_.compare_exchange_strong(next, now + absl::ToInt64Nanoseconds(kSignalPeriod))) {
      return false;
    }
    const py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() == 0) return false;
    Keep(std::make_unique<py::error_already_set>());
    Interrupt();
    return true;
  }
  bool Overdue() {
    return Interrupted() && Clock::Real()->MonotonicNanos() - interrupted_nanos_ >=
                                absl::ToInt64Nanoseconds(kPatience);
  }

  // ProgressOptions::write.
  void Show(absl::string_view json) {
    const py::gil_scoped_acquire gil;
    Call([&] { show_(py::str(json.data(), json.size())); });
  }
  bool shows() const { return !show_.is_none(); }

  // What a function has raised, or a handler of a signal; None: nothing. With the GIL.
  py::object error() const {
    return error_ == nullptr ? py::object(py::none()) : py::object(error_->value());
  }

 private:
  struct Line {
    const char* kind;
    LogEvent event;
    std::string text;
  };

  // A function that raises ends the run, which saves itself first.
  template <typename Function>
  void Call(Function function) {
    in_hook = true;
    try {
      function();
    } catch (py::error_already_set& error) {
      if (error.matches(PyExc_KeyboardInterrupt)) {
        Interrupt();
      } else {
        why_ = absl::StrCat("a hook of Python raised ", error.what());
      }
      Keep(std::make_unique<py::error_already_set>(error));
    }
    in_hook = false;
  }
  void Interrupt() {
    interrupted_nanos_ = Clock::Real()->MonotonicNanos();
    interrupted_ = true;
  }
  void Keep(std::unique_ptr<py::error_already_set> error) {
    if (error_ == nullptr) error_ = std::move(error);
  }

  static Listener* current;  // who has the log; with the GIL
  static thread_local bool in_hook;

  const py::object tell_;
  const py::object show_;
  std::string why_;                               // of the run's thread
  std::unique_ptr<py::error_already_set> error_;  // with the GIL
  std::atomic<bool> interrupted_{false};
  std::atomic<int64_t> interrupted_nanos_{0};
  std::atomic<int64_t> next_look_{0};
  std::atomic<bool> any_waiting_{false};
  Mutex mutex_;
  std::vector<Line> waiting_ ABSL_GUARDED_BY(mutex_);
};

Listener* Listener::current = nullptr;
thread_local bool Listener::in_hook = false;

// Only one run at a time may train in a process, because the runs would share its log.
class OneRun {
 public:
  OneRun() {
    if (running.exchange(true)) {
      throw std::runtime_error(
          "a run trains in this process already, expected one at a time: train in another process, "
          "or one after the other");
    }
  }
  OneRun(const OneRun&) = delete;
  OneRun& operator=(const OneRun&) = delete;
  ~OneRun() { running = false; }

 private:
  static std::atomic<bool> running;
};
std::atomic<bool> OneRun::running{false};

struct Trained {
  std::string path;
  std::string json;  // result.json
  SerialResult result;
};

absl::Status Train(const std::string& text, const std::string& source,
                   const std::vector<std::string>& settings, const std::string& exp_dir,
                   bool resume, Listener* listener, Trained* trained) {
  DING_ASSIGN_OR_RETURN(const ExperimentConfig config, LoadRunConfig(text, source, settings));
  DING_ASSIGN_OR_RETURN(
      const std::unique_ptr<SerialRun> run,
      resume ? SerialRun::Reopen(config, exp_dir) : SerialRun::Create(config, exp_dir));
  trained->path = listener->folder = run->path();
  SerialOptions options;
  options.interrupted = [listener] { return listener->Interrupted(); };
  options.overdue = [listener] { return listener->Overdue(); };
  options.why_stop = [listener] { return listener->WhyStop(); };
  std::unique_ptr<Progress> progress;
  options.progress = [&progress](const ProgressState& state) {
    if (progress != nullptr) progress->Update(state);
  };
  DING_RETURN_IF_ERROR(run->SetUp(std::move(options)));
  Pipeline* const pipeline = run->pipeline();
  if (listener->shows()) {
    ProgressOptions shown;
    if (config.max_env_step() > 0) shown.max_env_step = config.max_env_step();
    if (config.max_train_iter() > 0) shown.max_train_iter = config.max_train_iter();
    shown.has_env_steps = !IsSupervised(config);
    shown.start = pipeline->progress();
    shown.values = [pipeline] { return pipeline->progress_values(); };
    shown.style = ProgressStyle::kJson;
    shown.write = [listener](absl::string_view json) { listener->Show(json); };
    progress = std::make_unique<Progress>(std::move(shown));
  }
  SerialResult* const result = &trained->result;
  const absl::Status status = pipeline->Run(result);
  if (progress != nullptr) progress->Finish();
  listener->WhyStop();
  run->FlushLogs();
  if (!status.ok() && !result->saved_as.empty()) {
    return Annotate(
        status, absl::StrCat("the policy of train iteration ", result->train_iter,
                             " is saved as checkpoint ", result->saved_as, " in ", run->path()));
  }
  DING_RETURN_IF_ERROR(status);
  DING_ASSIGN_OR_RETURN(trained->json, run->WriteResult(*result));
  return absl::OkStatus();
}

// Returns (path, result.json, whether a signal has ended the run, whether the run has saved
// something then, what a hook or the signal has raised).
py::tuple TrainFromPython(const std::string& text, const std::string& source,
                          const std::vector<std::string>& settings, const std::string& exp_dir,
                          bool resume, const py::object& tell, const py::object& show) {
  const OneRun one;
  Listener listener(tell, show);
  Trained trained;
  absl::Status status;
  {
    const py::gil_scoped_release release;
    status = Train(text, source, settings, exp_dir, resume, &listener, &trained);
  }
  const py::object error = listener.error();
  if (error.is_none()) {
    ThrowIfError(status);
  } else if (!status.ok()) {
    tell(kFault, "", -1, -1, py::none(), std::string(status.message()));
  }
  return py::make_tuple(trained.path, trained.json, trained.result.interrupted,
                        trained.result.saved, error);
}

std::string ResolveConfig(const std::string& text, const std::string& source,
                          const std::vector<std::string>& settings) {
  return PrintConfigWithSources(ValueOrThrow(LoadRunConfig(text, source, settings)));
}

// Returns the JSON of `evaluate --json`, and what a signal has raised.
py::tuple Evaluate(const std::string& checkpoint, int64_t episodes, uint64_t seed, bool sample,
                   const std::vector<std::string>& settings) {
  ReportedEvaluation evaluated;
  evaluated.checkpoint = checkpoint;
  evaluated.options.checkpoint = checkpoint;
  evaluated.options.n_episode = episodes;
  evaluated.options.seed = seed;
  evaluated.options.sample = sample;
  evaluated.options.settings = settings;
  Listener listener{py::none(), py::none()};
  evaluated.options.cancelled = [&listener] { return listener.Interrupted(); };
  absl::StatusOr<CheckpointEvaluation> result = absl::UnknownError("");
  {
    const py::gil_scoped_release release;
    result = EvaluateCheckpoint(evaluated.options);
  }
  if (listener.error().is_none()) {
    evaluated.result = ValueOrThrow(std::move(result));
    return py::make_tuple(EvaluationJson({evaluated}), py::none());
  }
  return py::make_tuple("", listener.error());
}

}  // namespace

void BindTraining(py::module_& module) {
  using py::arg;
  module.def("train", &TrainFromPython, arg("text"), arg("source"), arg("settings"), arg("exp_dir"),
             arg("resume"), arg("tell"), arg("show"));
  module.def("resolve_config", &ResolveConfig, arg("text"), arg("source"), arg("settings"));
  module.def("find_checkpoint",
             [](const std::string& path) { return ValueOrThrow(FindCheckpoint(path)).path; });
  module.def("evaluate", &Evaluate, arg("checkpoint"), arg("episodes"), arg("seed"), arg("sample"),
             arg("settings"));
}

}  // namespace ding
