#include "ding_worker/worker/evaluation/evaluation_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/check.h"
#include "ding_worker/collector/core/serial_common.h"
#include "ding_worker/env/env.h"
#include "ding_worker/metrics/terminal.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using Json = nlohmann::ordered_json;  // For a reader's eyes: members in this order.

// More returns than these are left to the JSON.
constexpr size_t kMaxShownReturns = 20;

std::string Number(double value) { return absl::StrFormat("%.6g", value); }
std::string Fixed(double value) { return absl::StrFormat("%.2f", value); }

double MeanLength(const CheckpointEvaluation& result) {
  return static_cast<double>(result.envstep_count) /
         static_cast<double>(result.episode_return.size());
}

absl::string_view Actions(const EvaluationOptions& options) {
  return options.sample ? "sampled" : "greedy";
}

// The values at the ends of episodes, without the returns, which are reported as such.
std::vector<EpisodeValue> InfoOf(const CheckpointEvaluation& result) {
  std::vector<EpisodeValue> info = SummarizeEpisodeInfo(result.episode_info);
  info.erase(std::remove_if(info.begin(), info.end(),
                            [](const EpisodeValue& value) { return value.name == kEpisodeReturn; }),
             info.end());
  return info;
}

// "mean 0.5 (in 8 of 10 episodes, and not finite in 2)".
std::string InfoText(const EpisodeValue& value, size_t episodes) {
  std::string text =
      value.count > 0 ? absl::StrCat("mean ", Number(value.mean)) : std::string("no mean");
  if (value.count == static_cast<int64_t>(episodes)) return text;
  absl::StrAppend(&text, " (in ", value.count, " of ", episodes, " episodes");
  if (value.not_finite > 0) absl::StrAppend(&text, ", and not finite in ", value.not_finite);
  return absl::StrCat(text, ")");
}

// Whether the evaluator judges by something else than the mean return.
bool HasScore(const CheckpointEvaluation& result, const ReturnStatistics& statistics) {
  return std::abs(result.mean_return - statistics.mean) >
         1e-9 * std::max(1.0, std::abs(statistics.mean));
}

std::string OneAsText(const ReportedEvaluation& evaluation) {
  const CheckpointEvaluation& result = evaluation.result;
  const EvaluationOptions& options = evaluation.options;
  const ReturnStatistics statistics = Statistics(result.episode_return);
  std::string text;
  const auto line = [&text](absl::string_view name, absl::string_view value) {
    absl::StrAppendFormat(&text, "%-11s %s\n", name, value);
  };
  line("checkpoint", absl::StrCat(evaluation.checkpoint, " (train iteration ", result.train_iter,
                                  ", env step ", result.env_step, ")"));
  line("env", result.env);
  line("episodes",
       absl::StrCat(result.episode_return.size(), ", seed ", options.seed, ", ", Actions(options),
                    " actions, ", Number(MeanLength(result)), " steps on average"));
  if (result.episode_return.size() <= kMaxShownReturns) {
    line("returns", absl::StrJoin(result.episode_return, " ", [](std::string* out, double value) {
           absl::StrAppend(out, Number(value));
         }));
  }
  if (statistics.deviation.has_value()) {
    line("mean", absl::StrCat(Number(statistics.mean), " (95 % interval ",
                              Number(statistics.interval->first), " to ",
                              Number(statistics.interval->second), ")"));
    line("deviation", Number(*statistics.deviation));
  } else {
    line("mean", Number(statistics.mean));
  }
  line("range", absl::StrCat(Number(statistics.min), " to ", Number(statistics.max), ", median ",
                             Number(statistics.median)));
  for (const EpisodeValue& value : InfoOf(result)) {
    line(value.name, InfoText(value, result.episode_return.size()));
  }
  if (HasScore(result, statistics)) line("score", Number(result.mean_return));
  if (!options.record_episodes.empty()) line("recorded", options.record_episodes);
  if (result.video_return.has_value()) {
    line("video",
         absl::StrCat(options.video.path, " (the ", options.video.episode, " of the first ",
                      std::min(options.n_episode, kMaxFilmedEpisodes), " episodes, return ",
                      Number(*result.video_return), result.video_is_cut ? ", cut" : "", ")"));
  }
  return text;
}

// Their paths without what is the same at the beginning of all, up to a slash.
std::vector<std::string> ShortPaths(const std::vector<ReportedEvaluation>& evaluations) {
  const std::string& first = evaluations[0].checkpoint;
  size_t same = first.size();
  for (const ReportedEvaluation& evaluation : evaluations) {
    const auto [a, b] = std::mismatch(
        first.begin(), first.begin() + static_cast<std::ptrdiff_t>(std::min(same, first.size())),
        evaluation.checkpoint.begin(), evaluation.checkpoint.end());
    static_cast<void>(b);
    same = static_cast<size_t>(a - first.begin());
  }
  const size_t slash = first.rfind('/', same == 0 ? 0 : same - 1);
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  std::vector<std::string> names;
  for (const ReportedEvaluation& evaluation : evaluations) {
    names.push_back(evaluation.checkpoint.substr(begin));
  }
  return names;
}

// A path that is not UTF-8 must not end the program.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Adds a value that the env gave to the members "info...", by its own name, and one of ours as a
// member.
void AddInfo(const EpisodeValue& value, Json* json) {
  const std::string prefix = EnvStatisticName("");
  if (!absl::StartsWith(value.name, prefix)) {
    (*json)[value.name] = value.mean;
    return;
  }
  const std::string name = value.name.substr(prefix.size());
  (*json)["info"][name] = value.mean;  // NaN is printed as null
  if (value.count < (*json)["episodes"].get<int64_t>()) {
    (*json)["info_count"][name] = value.count;
  }
  if (value.not_finite > 0) (*json)["info_not_finite"][name] = value.not_finite;
}

Json OneAsJson(const ReportedEvaluation& evaluation) {
  const CheckpointEvaluation& result = evaluation.result;
  const ReturnStatistics statistics = Statistics(result.episode_return);
  Json json;
  json["checkpoint"] = evaluation.checkpoint;
  json["env"] = result.env;
  json["train_iter"] = result.train_iter;
  json["env_step"] = result.env_step;
  json["actions"] = std::string(Actions(evaluation.options));
  json["seed"] = evaluation.options.seed;
  json["episodes"] = result.episode_return.size();
  json["mean"] = statistics.mean;
  json["deviation"] = nullptr;
  json["interval"] = nullptr;
  if (statistics.deviation.has_value()) {
    json["deviation"] = *statistics.deviation;
    json["interval"] = {statistics.interval->first, statistics.interval->second};
  }
  json["median"] = statistics.median;
  json["min"] = statistics.min;
  json["max"] = statistics.max;
  json["mean_length"] = MeanLength(result);
  json["returns"] = result.episode_return;
  for (const EpisodeValue& value : InfoOf(result)) AddInfo(value, &json);
  if (HasScore(result, statistics)) json["score"] = result.mean_return;
  if (result.video_return.has_value()) {
    json["video"] = {{"path", evaluation.options.video.path},
                     {"return", *result.video_return},
                     {"cut", result.video_is_cut}};
  }
  return json;
}

}  // namespace

ReturnStatistics Statistics(absl::Span<const double> returns) {
  DING_CHECK(!returns.empty());
  const auto n = static_cast<double>(returns.size());
  std::vector<double> sorted(returns.begin(), returns.end());
  // NaN, which an env may report as the return of an episode, comes first.
  std::sort(sorted.begin(), sorted.end(), [](double a, double b) {
    return std::isnan(a) || std::isnan(b) ? !std::isnan(b) && std::isnan(a) : a < b;
  });
  ReturnStatistics statistics;
  statistics.mean = std::accumulate(returns.begin(), returns.end(), 0.0) / n;
  statistics.min = sorted.front();
  statistics.max = sorted.back();
  statistics.median = (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
  if (returns.size() == 1) return statistics;
  double squares = 0;
  for (const double value : returns) squares += std::pow(value - statistics.mean, 2);
  statistics.deviation = std::sqrt(squares / (n - 1));
  const double half =
      StudentT975(static_cast<int64_t>(returns.size()) - 1) * *statistics.deviation / std::sqrt(n);
  statistics.interval = {statistics.mean - half, statistics.mean + half};
  return statistics;
}

double StudentT975(int64_t degrees) {
  constexpr std::array<double, 10> kTable = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706,
                                             2.4469,  2.3646, 2.3060, 2.2622, 2.2281};
  if (degrees <= static_cast<int64_t>(kTable.size())) {
    return kTable[static_cast<size_t>(std::max<int64_t>(degrees, 1)) - 1];
  }
  constexpr double kX = 1.959963985;  // the quantile of the normal distribution
  const auto n = static_cast<double>(degrees);
  const double x3 = std::pow(kX, 3);
  const double x5 = std::pow(kX, 5);
  const double x7 = std::pow(kX, 7);
  return kX + (x3 + kX) / 4 / n + (5 * x5 + 16 * x3 + 3 * kX) / 96 / (n * n) +
         (3 * x7 + 19 * x5 + 17 * x3 - 15 * kX) / 384 / (n * n * n);
}

std::string EvaluationText(const std::vector<ReportedEvaluation>& evaluations) {
  DING_CHECK(!evaluations.empty());
  if (evaluations.size() == 1) return OneAsText(evaluations[0]);
  const EvaluationOptions& options = evaluations[0].options;
  const std::vector<std::string> names = ShortPaths(evaluations);
  const std::string& first_env = evaluations[0].result.env;
  const bool one_env =
      std::all_of(evaluations.begin(), evaluations.end(),
                  [&](const ReportedEvaluation& other) { return other.result.env == first_env; });
  std::vector<std::string> head = {"checkpoint", "train_iter", "mean", "deviation",
                                   "low",        "high",       "min",  "max"};
  if (!one_env) head.insert(head.begin() + 1, "env");
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < evaluations.size(); ++i) {
    const CheckpointEvaluation& result = evaluations[i].result;
    const ReturnStatistics statistics = Statistics(result.episode_return);
    const bool alone = !statistics.deviation.has_value();
    rows.push_back({names[i], absl::StrCat(result.train_iter), Fixed(statistics.mean),
                    alone ? "-" : Fixed(*statistics.deviation),
                    alone ? "-" : Fixed(statistics.interval->first),
                    alone ? "-" : Fixed(statistics.interval->second), Fixed(statistics.min),
                    Fixed(statistics.max)});
    if (!one_env) rows.back().insert(rows.back().begin() + 1, result.env);
  }
  return absl::StrCat(one_env ? absl::StrCat(first_env, ", ") : "", options.n_episode,
                      " episodes each, seed ", options.seed, ", ", Actions(options),
                      " actions; low and high are the 95 % ", "interval of the mean\n",
                      FormatTable(head, rows));
}

std::string EvaluationJson(const std::vector<ReportedEvaluation>& evaluations) {
  DING_CHECK(!evaluations.empty());
  Json json = Json::array();
  for (const ReportedEvaluation& evaluation : evaluations) json.push_back(OneAsJson(evaluation));
  if (json.size() == 1) return Dump(json[0]);
  const auto best = std::max_element(json.begin(), json.end(), [](const Json& a, const Json& b) {
    return a["mean"].get<double>() < b["mean"].get<double>();
  });
  Json all;
  all["best"] = (*best)["checkpoint"];
  all["mean"] = (*best)["mean"];
  all["evaluations"] = std::move(json);
  return Dump(all);
}

}  // namespace ding
