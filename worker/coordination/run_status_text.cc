#include "ding_worker/worker/coordination/run_status_text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ding_worker/interaction/control/protocol.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kWritePeriod = 1;  // seconds, of RunRates

std::string Minutes(double seconds) {
  const int64_t whole = std::llround(std::max(0.0, seconds));
  return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
}

// Who evaluates, what workers wait for, and what is wrong.
std::string Waiting(const RunStatus& status) {
  std::vector<std::string> evaluating;
  std::vector<std::string> waiting;
  for (const WorkerStatus& worker : status.worker()) {
    if (worker.evaluates()) evaluating.push_back(worker.name());
    if (!worker.waits_for().empty()) {
      waiting.push_back(absl::StrCat(worker.name(), " waits for ", worker.waits_for()));
    }
  }
  if (!evaluating.empty()) {
    waiting.insert(waiting.begin(),
                   absl::StrCat("evaluating (", absl::StrJoin(evaluating, ", "), ")"));
  }
  return absl::StrJoin(waiting, ", ");
}

std::optional<double> DrawnPerPushed(const BufferStatus& buffer) {
  if (buffer.push_count() == 0) return std::nullopt;
  return static_cast<double>(buffer.sample_count()) / static_cast<double>(buffer.push_count());
}

std::string TaskText(const WorkerStatus& worker) {
  const std::string task = worker.task_id().empty() ? "-" : worker.task_id();
  return absl::StrCat(task, worker.evaluates() ? ", eval" : "",
                      worker.draining() ? ", leaves" : "");
}

// Returns what the worker waits for, and its other troubles.
std::string TroubleText(const WorkerStatus& worker) {
  std::string text = worker.waits_for();
  if (worker.has_stalled_seconds()) {
    absl::StrAppend(&text, " (no progress for ", Minutes(worker.stalled_seconds()), ")");
  }
  if (worker.bad_chunks() > 0) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", worker.bad_chunks(), " bad chunks");
  }
  return text;
}

std::string ResourcesText(const WorkerStatus& worker) {
  if (!worker.has_resources()) return "-";
  const Resources& has = worker.resources();
  const double gib = static_cast<double>(has.memory_bytes()) / (int64_t{1} << 30);
  std::string text = absl::StrFormat("%.4g cpus, %.3g GiB", has.cpus(), gib);
  if (has.gpus() > 0) absl::StrAppend(&text, ", ", has.gpus(), " gpus");
  return text;
}

std::string WorkerLine(const std::string& number, const std::string& name,
                       const WorkerStatus& worker) {
  const std::string lease = worker.has_lease_seconds_left()
                                ? absl::StrFormat("%.1f s", worker.lease_seconds_left())
                                : "-";
  const std::string staleness = worker.has_staleness_iterations()
                                    ? absl::StrFormat("%.0f", worker.staleness_iterations())
                                    : "-";
  return absl::StrFormat("%6s  %-14s %-10s %8d  %-27s %-25s %10.0f/s  %7s  %6s  %s\n", number, name,
                         std::string(RoleName(worker.role())), worker.pid(), ResourcesText(worker),
                         TaskText(worker), worker.steps_per_second(), lease, staleness,
                         TroubleText(worker));
}

std::string LeagueText(const LeagueStatus& league) {
  std::string text = absl::StrCat("league: ", league.player_id(), " has ",
                                  league.historical_players(), " historical players");
  if (league.has_min_win_rate()) {
    absl::StrAppend(&text, absl::StrFormat(", wins %.0f %% against the strongest",
                                           100 * league.min_win_rate()));
  }
  absl::StrAppend(&text,
                  absl::StrFormat(", rating %.2f +- %.2f", league.rating(), league.rating_sigma()),
                  ", is evaluated against ", league.eval_opponent());
  return text;
}

template <typename Value>
Json IfKnown(bool known, const Value& value) {
  return known ? Json(value) : Json();
}

Json WorkerJson(const WorkerStatus& worker) {
  Json json;
  json["worker"] = worker.worker();
  json["name"] = worker.name();
  json["role"] = std::string(RoleName(worker.role()));
  json["pid"] = worker.pid();
  json["task"] = IfKnown(!worker.task_id().empty(), worker.task_id());
  json["evaluates"] = worker.evaluates();
  json["draining"] = worker.draining();
  json["alive_seconds"] = worker.alive_seconds();
  json["steps_per_second"] = worker.steps_per_second();
  json["lease_seconds_left"] =
      IfKnown(worker.has_lease_seconds_left(), worker.lease_seconds_left());
  json["staleness"] = IfKnown(worker.has_staleness_iterations(), worker.staleness_iterations());
  json["waits_for"] = IfKnown(!worker.waits_for().empty(), worker.waits_for());
  json["stalled_seconds"] = IfKnown(worker.has_stalled_seconds(), worker.stalled_seconds());
  json["bad_chunks"] = worker.bad_chunks();
  const Resources& has = worker.resources();
  json["cpus"] = IfKnown(worker.has_resources(), has.cpus());
  json["memory_bytes"] = IfKnown(worker.has_resources(), has.memory_bytes());
  json["gpus"] = IfKnown(worker.has_resources(), has.gpus());
  json["members"] = Json::array();
  for (const WorkerStatus& member : worker.member()) json["members"].push_back(WorkerJson(member));
  return json;
}

Json BufferJson(const BufferStatus& buffer) {
  Json json;
  json["buffer"] = buffer.buffer_id();
  json["rows"] = buffer.count();
  json["pushed"] = buffer.push_count();
  json["drawn"] = buffer.sample_count();
  json["removed"] = buffer.removed_count();
  json["too_old"] = buffer.too_old_count();
  json["lost"] = buffer.lost_count();
  json["chunks"] = buffer.chunks();
  json["bad_chunks"] = buffer.bad_chunks();
  json["staleness"] = IfKnown(buffer.has_staleness_iterations(), buffer.staleness_iterations());
  json["replay_ratio"] = IfKnown(buffer.has_replay_ratio(), buffer.replay_ratio());
  return json;
}

Json PolicyJson(const TrainedPolicyStatus& policy) {
  Json json;
  json["policy"] = policy.policy_id();
  json["task"] = policy.task_id();
  json["env_step"] = policy.envstep();
  json["train_iter"] = policy.train_iter();
  json["eval"] = IfKnown(policy.has_eval_value(), policy.eval_value());
  json["version"] = IfKnown(policy.has_policy_version(), policy.policy_version());
  json["converged"] = policy.converged();
  return json;
}

Json LeagueJson(const LeagueStatus& league) {
  Json json;
  json["player"] = league.player_id();
  json["historical_players"] = league.historical_players();
  json["min_win_rate"] = IfKnown(league.has_min_win_rate(), league.min_win_rate());
  json["rating"] = league.rating();
  json["rating_sigma"] = league.rating_sigma();
  json["eval_opponent"] = league.eval_opponent();
  return json;
}

}  // namespace

ProgressState ProgressOf(const RunStatus& status) {
  ProgressState state;
  state.env_step = status.envstep();
  state.train_iter = status.train_iter();
  if (status.has_eval_value()) state.last_eval = status.eval_value();
  if (status.has_best_eval_value()) state.best_eval = status.best_eval_value();
  state.detail = Waiting(status);
  return state;
}

ProgressValues ProgressValuesOf(const RunStatus& status) {
  ProgressValues values;
  for (const Setting& shown : status.shown()) values.emplace_back(shown.name(), shown.value());
  values.emplace_back("workers", status.worker_size());
  if (status.buffer_size() == 0) return values;
  const BufferStatus& buffer = status.buffer(0);
  if (buffer.has_staleness_iterations()) {
    values.emplace_back("staleness", buffer.staleness_iterations());
  }
  if (const std::optional<double> ratio = DrawnPerPushed(buffer)) {
    values.emplace_back("drawn/pushed", *ratio);
  }
  return values;
}

std::string FormatRunStatus(const RunStatus& status) {
  std::string text =
      absl::StrCat("run ", status.run(), " for ", Minutes(status.elapsed_seconds()), "  env_step ",
                   status.envstep(), "  train_iter ", status.train_iter());
  if (status.has_eval_value()) {
    absl::StrAppend(&text, "  eval ", absl::StrFormat("%.6g", status.eval_value()));
  }
  for (const Setting& shown : status.shown()) {
    absl::StrAppend(&text, "  ", shown.name(), absl::StrFormat(" %.4g", shown.value()));
  }
  absl::StrAppend(&text, "  policy ", status.policy_version(), "  joined ", status.workers_joined(),
                  "  lost ", status.workers_lost());
  if (status.has_wanted_collectors()) {
    absl::StrAppend(&text, "  collectors wanted ", status.wanted_collectors());
  }
  absl::StrAppend(&text, status.converged() ? "  converged" : "", "\n");
  absl::StrAppend(&text, absl::StrFormat("%6s  %-14s %-10s %8s  %-27s %-25s %12s  %7s  %6s  %s\n",
                                         "worker", "name", "role", "pid", "resources", "task",
                                         "rate", "lease", "behind", "waits for"));
  for (const WorkerStatus& worker : status.worker()) {
    absl::StrAppend(&text, WorkerLine(absl::StrCat(worker.worker()), worker.name(), worker));
    // Members are numbered by their aggregator, not by the run.
    for (const WorkerStatus& member : worker.member()) {
      absl::StrAppend(&text, WorkerLine("", absl::StrCat("  ", member.name()), member));
    }
  }
  for (const std::string& warning : status.warning()) {
    absl::StrAppend(&text, "warning: ", warning, "\n");
  }
  if (status.has_league()) absl::StrAppend(&text, LeagueText(status.league()), "\n");
  for (const TrainedPolicyStatus& policy : status.trained_policy()) {
    absl::StrAppend(&text, "policy ", policy.policy_id(), ": ", policy.task_id(), "  env_step ",
                    policy.envstep(), "  train_iter ", policy.train_iter());
    if (policy.has_eval_value()) {
      absl::StrAppend(&text, "  eval ", absl::StrFormat("%.6g", policy.eval_value()));
    }
    if (policy.has_policy_version()) {
      absl::StrAppend(&text, "  version ", policy.policy_version());
    }
    absl::StrAppend(&text, policy.converged() ? "  converged" : "", "\n");
  }
  for (const BufferStatus& buffer : status.buffer()) {
    absl::StrAppend(&text, "buffer ", buffer.buffer_id(), ": ", buffer.count(), " rows of ",
                    buffer.push_count(), " pushed, ", buffer.sample_count(), " drawn, ",
                    buffer.chunks(), " chunks");
    if (const std::optional<double> ratio = DrawnPerPushed(buffer)) {
      absl::StrAppend(&text, absl::StrFormat(", %.3g drawn per row pushed", *ratio));
    }
    if (buffer.has_replay_ratio()) {
      absl::StrAppend(&text, absl::StrFormat(" (replay_ratio %.3g)", buffer.replay_ratio()));
    }
    if (buffer.has_staleness_iterations()) {
      absl::StrAppend(&text, absl::StrFormat(", drawn rows are %.0f train iterations old",
                                             buffer.staleness_iterations()));
    }
    if (buffer.too_old_count() > 0) {
      absl::StrAppend(&text, ", ", buffer.too_old_count(), " rows too old to learn from");
    }
    if (buffer.bad_chunks() > 0) absl::StrAppend(&text, ", ", buffer.bad_chunks(), " bad chunks");
    absl::StrAppend(&text, "\n");
  }
  return text;
}

std::string FoldLines(absl::string_view text, int width) {
  constexpr absl::string_view kIndent = "        ";
  const size_t most = static_cast<size_t>(std::max(width, 20));
  std::string folded;
  for (absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    absl::string_view indent;
    while (indent.size() + line.size() > most) {
      // Between two fields if there is such a place, else between two words.
      const size_t last = most - indent.size();
      size_t end = line.rfind("  ", last);
      if (end == absl::string_view::npos || end < most / 2) end = line.rfind(' ', last);
      if (end == absl::string_view::npos || end < kIndent.size()) end = last;
      absl::StrAppend(&folded, indent, absl::StripTrailingAsciiWhitespace(line.substr(0, end)),
                      "\n");
      line = absl::StripLeadingAsciiWhitespace(line.substr(end));
      indent = kIndent;
    }
    if (!line.empty() || indent.empty()) absl::StrAppend(&folded, indent, line, "\n");
  }
  return folded;
}

std::string KeepFirstLines(absl::string_view text, int most) {
  const std::vector<absl::string_view> lines = absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
  const size_t room = static_cast<size_t>(std::max(most, 2));
  if (lines.size() <= room) return std::string(text);
  std::string kept;
  for (size_t i = 0; i + 1 < room; ++i) absl::StrAppend(&kept, lines[i], "\n");
  return absl::StrCat(kept, "... ", lines.size() - room + 1, " lines more\n");
}

std::string RunStatusToJson(const RunStatus& status) {
  Json json;
  json["run"] = status.run();
  json["elapsed_seconds"] = status.elapsed_seconds();
  json["env_step"] = status.envstep();
  json["train_iter"] = status.train_iter();
  json["eval"] = IfKnown(status.has_eval_value(), status.eval_value());
  json["best_eval"] = IfKnown(status.has_best_eval_value(), status.best_eval_value());
  json["converged"] = status.converged();
  json["policy_version"] = status.policy_version();
  json["values"] = Json::object();
  for (const Setting& shown : status.shown()) json["values"][shown.name()] = shown.value();
  json["workers_joined"] = status.workers_joined();
  json["workers_lost"] = status.workers_lost();
  json["wanted_collectors"] = IfKnown(status.has_wanted_collectors(), status.wanted_collectors());
  json["coordinator_pid"] = status.coordinator_pid();
  json["workers"] = Json::array();
  for (const WorkerStatus& worker : status.worker()) json["workers"].push_back(WorkerJson(worker));
  json["buffers"] = Json::array();
  for (const BufferStatus& buffer : status.buffer()) json["buffers"].push_back(BufferJson(buffer));
  json["policies"] = Json::array();
  for (const TrainedPolicyStatus& policy : status.trained_policy()) {
    json["policies"].push_back(PolicyJson(policy));
  }
  json["league"] = status.has_league() ? LeagueJson(status.league()) : Json();
  json["warnings"] = Json::array();
  for (const std::string& warning : status.warning()) json["warnings"].push_back(warning);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

RunRates::RunRates(const RunStatus& start, bool has_env_steps, MetricSink* metrics)
    : has_env_steps_(has_env_steps),
      metrics_(*metrics),
      elapsed_seconds_(start.elapsed_seconds()),
      env_step_(start.envstep()),
      train_iter_(start.train_iter()) {}

void RunRates::WriteIfDue(const RunStatus& status) {
  if (status.elapsed_seconds() - elapsed_seconds_ >= kWritePeriod) Write(status);
}

void RunRates::Write(const RunStatus& status) {
  const double seconds = status.elapsed_seconds() - elapsed_seconds_;
  const int64_t env_steps = status.envstep() - env_step_;
  const int64_t updates = status.train_iter() - train_iter_;
  if (seconds <= 0 || (env_steps == 0 && updates == 0)) return;
  const bool over_steps = WritesOverEnvSteps(metrics_, has_env_steps_ ? status.envstep() : -1);
  const auto write = [&](absl::string_view group, absl::string_view name, double value) {
    metrics_.Scalar(absl::StrCat(group, over_steps ? "_step/" : "_iter/", name),
                    over_steps ? status.envstep() : status.train_iter(), value);
  };
  if (has_env_steps_) {
    write("run", "env_steps_per_second", static_cast<double>(env_steps) / seconds);
  }
  write("run", "updates_per_second", static_cast<double>(updates) / seconds);
  for (const BufferStatus& buffer : status.buffer()) {
    const std::string group = status.buffer_size() == 1 ? "replay_buffer" : buffer.buffer_id();
    write(group, "rows", static_cast<double>(buffer.count()));
    if (buffer.has_staleness_iterations()) write(group, "age", buffer.staleness_iterations());
    if (const std::optional<double> ratio = DrawnPerPushed(buffer)) {
      write(group, "drawn_per_pushed", *ratio);
    }
  }
  elapsed_seconds_ = status.elapsed_seconds();
  env_step_ = status.envstep();
  train_iter_ = status.train_iter();
}

}  // namespace ding
