#include "ding_worker/worker/run/status_text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ding_worker/interaction/control/protocol.h"

namespace ding {
namespace {

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
  return absl::StrFormat("%6s  %-14s %-10s %8d  %-27s %-25s %10.0f/s  %s\n", number, name,
                         std::string(RoleName(worker.role())), worker.pid(), ResourcesText(worker),
                         TaskText(worker), worker.steps_per_second(), TroubleText(worker));
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
  absl::StrAppend(&text,
                  absl::StrFormat("%6s  %-14s %-10s %8s  %-27s %-25s %12s  %s\n", "worker", "name",
                                  "role", "pid", "resources", "task", "rate", "waits for"));
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

}  // namespace ding
