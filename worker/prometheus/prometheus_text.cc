#include "ding_worker/worker/prometheus/prometheus_text.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "ding_worker/base/utf8.h"

namespace ding {
namespace {

constexpr absl::string_view kPrefix = "ding_worker_";
constexpr double kSecondsPerNano = 1e-9;

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return absl::StrFormat("%.15g", value);
}

std::string Label(absl::string_view name, absl::string_view value) {
  return absl::StrCat(name, "=\"",
                      absl::StrReplaceAll(PrintableUtf8(value), {{"\\", "\\\\"}, {"\"", "\\\""}}),
                      "\"");
}

std::string RoleName(Hello::Role role) { return absl::AsciiStrToLower(Hello::Role_Name(role)); }

void AddHead(absl::string_view name, absl::string_view type, absl::string_view help,
             std::string* text) {
  absl::StrAppend(text, "# HELP ", kPrefix, name, " ", help, "\n# TYPE ", kPrefix, name, " ", type,
                  "\n");
}

void AddSample(absl::string_view name, absl::string_view labels, double value, std::string* text) {
  absl::StrAppend(text, kPrefix, name, labels.empty() ? "" : "{", labels, labels.empty() ? "" : "}",
                  " ", Number(value), "\n");
}

// A metric of messages of one type. A name that ends in _total is a counter, others are gauges.
template <typename Message>
struct Metric {
  const char* name;
  const char* help;
  std::optional<double> (*value)(const Message&);  // none: not known
};

// What a metric is about, with its labels.
template <typename Message>
using Labelled = std::vector<std::pair<std::string, const Message*>>;

template <typename Message>
void AddMetrics(absl::Span<const Metric<Message>> metrics, const Labelled<Message>& messages,
                std::string* text) {
  for (const Metric<Message>& metric : metrics) {
    bool has_head = false;
    for (const auto& [labels, message] : messages) {
      const std::optional<double> value = metric.value(*message);
      if (!value.has_value()) continue;
      if (!has_head) {
        AddHead(metric.name, absl::EndsWith(metric.name, "_total") ? "counter" : "gauge",
                metric.help, text);
      }
      has_head = true;
      AddSample(metric.name, labels, *value, text);
    }
  }
}

using Value = std::optional<double>;

template <typename Number>
Value IfKnown(bool known, Number value) {
  if (!known) return std::nullopt;
  return static_cast<double>(value);
}

constexpr Metric<RunStatus> kOfRun[] = {
    {"run_seconds", "Seconds that the run takes so far, also before it was resumed.",
     [](const RunStatus& s) { return IfKnown(s.has_elapsed_seconds(), s.elapsed_seconds()); }},
    {"env_steps_total", "Env steps of the run.",
     [](const RunStatus& s) { return IfKnown(s.has_envstep(), s.envstep()); }},
    {"train_iterations_total", "Train iterations of the run.",
     [](const RunStatus& s) { return IfKnown(s.has_train_iter(), s.train_iter()); }},
    {"eval_return", "Mean return of the last evaluation.",
     [](const RunStatus& s) { return IfKnown(s.has_eval_value(), s.eval_value()); }},
    {"best_eval_return", "Highest mean return of an evaluation.",
     [](const RunStatus& s) { return IfKnown(s.has_best_eval_value(), s.best_eval_value()); }},
    {"converged", "Whether the run has reached its stop value.",
     [](const RunStatus& s) { return IfKnown(s.has_converged(), s.converged()); }},
    {"policy_version", "Version of the policy that collectors get.",
     [](const RunStatus& s) { return IfKnown(s.has_policy_version(), s.policy_version()); }},
    {"workers_joined_total", "Workers that joined the run.",
     [](const RunStatus& s) { return IfKnown(s.has_workers_joined(), s.workers_joined()); }},
    {"workers_lost_total", "Workers that the run lost without a goodbye.",
     [](const RunStatus& s) { return IfKnown(s.has_workers_lost(), s.workers_lost()); }},
    {"collectors_wanted", "Collectors that the run should have.",
     [](const RunStatus& s) { return IfKnown(s.has_wanted_collectors(), s.wanted_collectors()); }},
    {"coordinator_incarnation", "How often a coordinator of this run began or went on.",
     [](const RunStatus& s) { return IfKnown(s.has_incarnation(), s.incarnation()); }},
};

constexpr Metric<WorkerStatus> kOfWorker[] = {
    {"worker_steps_per_second", "Env steps, or train iterations, per second.",
     [](const WorkerStatus& w) -> Value { return w.steps_per_second(); }},
    {"worker_evaluates", "Whether the worker evaluates.",
     [](const WorkerStatus& w) -> Value { return w.evaluates() ? 1 : 0; }},
    {"worker_draining", "Whether the worker leaves after its task.",
     [](const WorkerStatus& w) -> Value { return w.draining() ? 1 : 0; }},
    {"worker_lease_seconds_left", "Seconds after which the worker is lost if nothing is heard.",
     [](const WorkerStatus& w) {
       return IfKnown(w.has_lease_seconds_left(), w.lease_seconds_left());
     }},
    {"worker_staleness_iterations",
     "Train iterations that the policy of a collector, or the rows of a learner, are behind.",
     [](const WorkerStatus& w) {
       return IfKnown(w.has_staleness_iterations(), w.staleness_iterations());
     }},
    {"worker_stalled_seconds", "Seconds without progress, if they count as a fault.",
     [](const WorkerStatus& w) { return IfKnown(w.has_stalled_seconds(), w.stalled_seconds()); }},
    {"worker_bad_chunks_total", "Chunks of the worker that could not be learned from.",
     [](const WorkerStatus& w) -> Value { return w.bad_chunks(); }},
    {"worker_cpus", "CPUs that the worker offers.",
     [](const WorkerStatus& w) { return IfKnown(w.has_resources(), w.resources().cpus()); }},
    {"worker_memory_bytes", "Memory that the worker offers.",
     [](const WorkerStatus& w) {
       return IfKnown(w.has_resources(), w.resources().memory_bytes());
     }},
    {"worker_gpus", "GPUs that the worker offers.",
     [](const WorkerStatus& w) { return IfKnown(w.has_resources(), w.resources().gpus()); }},
};

constexpr Metric<BufferStatus> kOfBuffer[] = {
    {"buffer_rows", "Rows in the buffer.",
     [](const BufferStatus& b) -> Value { return b.count(); }},
    {"buffer_rows_pushed_total", "Rows pushed into the buffer.",
     [](const BufferStatus& b) -> Value { return b.push_count(); }},
    {"buffer_rows_drawn_total", "Rows drawn from the buffer.",
     [](const BufferStatus& b) -> Value { return b.sample_count(); }},
    {"buffer_rows_removed_total", "Rows that left the buffer by its rules.",
     [](const BufferStatus& b) { return IfKnown(b.has_removed_count(), b.removed_count()); }},
    {"buffer_rows_too_old_total", "Rows that were removed because they were too old to learn from.",
     [](const BufferStatus& b) { return IfKnown(b.has_too_old_count(), b.too_old_count()); }},
    {"buffer_rows_lost_total", "Rows that were gone from the store.",
     [](const BufferStatus& b) { return IfKnown(b.has_lost_count(), b.lost_count()); }},
    {"buffer_chunks", "Chunks of the buffer in the store.",
     [](const BufferStatus& b) { return IfKnown(b.has_chunks(), b.chunks()); }},
    {"buffer_bad_chunks_total", "Chunks that could not be learned from.",
     [](const BufferStatus& b) { return IfKnown(b.has_chunks(), b.bad_chunks()); }},
    {"buffer_staleness_iterations", "Train iterations since the rows drawn last were collected.",
     [](const BufferStatus& b) {
       return IfKnown(b.has_staleness_iterations(), b.staleness_iterations());
     }},
    {"buffer_replay_ratio", "Rows drawn per row pushed, as the bounds of the buffer count them.",
     [](const BufferStatus& b) { return IfKnown(b.has_replay_ratio(), b.replay_ratio()); }},
};

constexpr Metric<TrainedPolicyStatus> kOfPolicy[] = {
    {"policy_env_steps_total", "Env steps of the policy.",
     [](const TrainedPolicyStatus& p) -> Value { return p.envstep(); }},
    {"policy_train_iterations_total", "Train iterations of the policy.",
     [](const TrainedPolicyStatus& p) -> Value { return p.train_iter(); }},
    {"policy_eval_return", "Mean return, or score, of the policy's last evaluation.",
     [](const TrainedPolicyStatus& p) { return IfKnown(p.has_eval_value(), p.eval_value()); }},
    {"policy_converged", "Whether the policy has reached its stop value.",
     [](const TrainedPolicyStatus& p) -> Value { return p.converged() ? 1 : 0; }},
};

constexpr Metric<LeagueStatus> kOfLeague[] = {
    {"league_historical_players", "Historical players of the league.",
     [](const LeagueStatus& l) -> Value { return l.historical_players(); }},
    {"league_min_win_rate", "Lowest win rate against a historical player.",
     [](const LeagueStatus& l) { return IfKnown(l.has_min_win_rate(), l.min_win_rate()); }},
    {"league_rating", "TrueSkill rating of the player that learns.",
     [](const LeagueStatus& l) -> Value { return l.rating(); }},
    {"league_rating_sigma", "Standard deviation of the rating.",
     [](const LeagueStatus& l) -> Value { return l.rating_sigma(); }},
};

constexpr Metric<Setting> kOfValue[] = {
    {"value", "Values of the progress line: the return of training episodes, the loss, epsilon.",
     [](const Setting& s) -> Value { return s.value(); }},
};

// Workers by role, and how many of them wait.
void AddWorkerCounts(const RunStatus& status, std::string* text) {
  std::map<std::string, int> workers;
  std::map<std::string, int> waiting;
  for (const Hello::Role role : {Hello::COLLECTOR, Hello::LEARNER}) {
    const std::string label = Label("role", RoleName(role));
    workers[label] = 0;
    for (const char* what : {"store", "other"}) {
      waiting[absl::StrCat(label, ",", Label("for", what))] = 0;
    }
  }
  for (const WorkerStatus& worker : status.worker()) {
    const std::string label = Label("role", RoleName(worker.role()));
    ++workers[label];
    if (worker.waits_for().empty()) continue;
    const bool store = absl::StrContains(worker.waits_for(), "the store");
    ++waiting[absl::StrCat(label, ",", Label("for", store ? "store" : "other"))];
  }
  AddHead("workers", "gauge", "Workers of the run.", text);
  for (const auto& [labels, count] : workers) AddSample("workers", labels, count, text);
  AddHead("workers_waiting", "gauge", "Workers that wait for the store or for something else.",
          text);
  for (const auto& [labels, count] : waiting) AddSample("workers_waiting", labels, count, text);
}

void AddWorkers(const RunStatus& status, std::string* text) {
  AddWorkerCounts(status, text);
  Labelled<WorkerStatus> workers;
  const auto add = [&](const WorkerStatus& worker, const std::string& number) {
    workers.emplace_back(absl::StrCat(Label("worker", number), ",", Label("name", worker.name()),
                                      ",", Label("role", RoleName(worker.role()))),
                         &worker);
  };
  for (const WorkerStatus& worker : status.worker()) {
    add(worker, absl::StrCat(worker.worker()));
    // Members have no numbers of the run.
    for (int i = 0; i < worker.member_size(); ++i) {
      add(worker.member(i), absl::StrCat(worker.worker(), ".", i));
    }
  }
  AddMetrics<WorkerStatus>(kOfWorker, workers, text);
}

void AddStages(const StageTimes& stages, std::string* text) {
  if (stages.empty()) return;
  AddHead("stage_seconds", "histogram", "How long each pass of a stage of the run takes.", text);
  for (const auto& [name, times] : stages) {
    const std::string stage = Label("stage", name);
    int64_t count = 0;
    for (size_t i = 0; i < times.counts().size(); ++i) {
      count += times.counts()[i];
      const std::string bound =
          i < TimeHistogram::kBounds.size()
              ? Number(kSecondsPerNano * static_cast<double>(TimeHistogram::kBounds[i]))
              : "+Inf";
      AddSample("stage_seconds_bucket", absl::StrCat(stage, ",", Label("le", bound)),
                static_cast<double>(count), text);
    }
    AddSample("stage_seconds_sum", stage, kSecondsPerNano * static_cast<double>(times.nanos()),
              text);
    AddSample("stage_seconds_count", stage, static_cast<double>(count), text);
  }
}

}  // namespace

std::string PrometheusText(const RunStatus& status, const StageTimes& stages) {
  std::string text;
  AddHead("run_info", "gauge", "The name of the run. Always 1.", &text);
  AddSample("run_info", Label("run", status.run()), 1, &text);
  AddMetrics<RunStatus>(kOfRun, {{"", &status}}, &text);
  if (status.has_workers_joined()) AddWorkers(status, &text);
  Labelled<Setting> values;
  for (const Setting& value : status.shown()) {
    values.emplace_back(Label("name", value.name()), &value);
  }
  AddMetrics<Setting>(kOfValue, values, &text);
  Labelled<BufferStatus> buffers;
  for (const BufferStatus& buffer : status.buffer()) {
    buffers.emplace_back(Label("buffer", buffer.buffer_id()), &buffer);
  }
  AddMetrics<BufferStatus>(kOfBuffer, buffers, &text);
  Labelled<TrainedPolicyStatus> policies;
  for (const TrainedPolicyStatus& policy : status.trained_policy()) {
    policies.emplace_back(Label("policy", policy.policy_id()), &policy);
  }
  AddMetrics<TrainedPolicyStatus>(kOfPolicy, policies, &text);
  if (status.has_league()) {
    AddMetrics<LeagueStatus>(
        kOfLeague, {{Label("player", status.league().player_id()), &status.league()}}, &text);
  }
  AddStages(stages, &text);
  return text;
}

std::string PrometheusGauge(absl::string_view name, absl::string_view help, double value) {
  std::string text;
  AddHead(name, "gauge", help, &text);
  AddSample(name, "", value, &text);
  return text;
}

}  // namespace ding
