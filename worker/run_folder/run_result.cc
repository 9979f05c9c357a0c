#include "ding_worker/worker/run_folder/run_result.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/worker/run_folder/paths.h"
#include "nlohmann/json.hpp"

namespace ding {

namespace {

// How far it came, and the last evaluation.
template <typename Result>
void AddProgress(const Result& result, nlohmann::ordered_json* json) {
  (*json)["stop"] = result.stop;
  (*json)["env_step"] = result.env_step;
  (*json)["train_iter"] = result.train_iter;
  (*json)["eval_value"] = result.eval_value ? nlohmann::json(*result.eval_value) : nlohmann::json();
  (*json)["eval_value_raw"] = result.eval_value_raw;
}

// A name that is not UTF-8 must not end the program.
std::string Print(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// Shortens lists of numbers.
void Shorten(nlohmann::ordered_json* json) {
  constexpr size_t kShown = 5;
  if (json->is_array() && json->size() > kShown && json->front().is_primitive()) {
    const size_t more = json->size() - kShown;
    json->erase(json->begin() + kShown, json->end());
    json->push_back(absl::StrCat("... ", more, " more"));
  } else if (json->is_structured()) {
    for (nlohmann::ordered_json& element : *json) Shorten(&element);
  }
}

// "  <name>  <command>" for the tools beside tools/train; empty without it.
std::string NextCommands(const std::string& exp_dir) {
  const char* const command = std::getenv("DING_WORKER_COMMAND");
  const absl::string_view train = command == nullptr ? "" : command;
  const size_t folder_end = train.rfind("/train");
  if (folder_end == absl::string_view::npos) return "";
  const absl::string_view folder = train.substr(0, folder_end);
  const std::string run = ShellWord(exp_dir);
  return absl::StrCat("next:\n  play it    ", folder, "/evaluate ", run, "\n  draw it    ", folder,
                      "/plot ", run, "\n  export it  ", folder, "/export ", run, "\n");
}

// A field that is no number, since it was not finite, is "none".
std::string NumberAt(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return "none";
  return found->is_number_integer() ? absl::StrCat(found->get<int64_t>())
                                    : absl::StrCat(found->get<double>());
}

std::string SummaryOf(const nlohmann::json& result) {
  std::string text =
      absl::StrCat("the run is over: ", result.value("why", ""), "\n  ",
                   NumberAt(result, "env_step"), " env steps, ", NumberAt(result, "train_iter"),
                   " train iterations, ", NumberAt(result, "wall_seconds"), " s\n");
  if (const auto returns = result.find("eval_value_raw"); returns != result.end()) {
    absl::StrAppend(&text, "  last evaluation: ", NumberAt(result, "eval_value"), " in ",
                    returns->size(), " episodes\n");
  }
  if (const auto found = result.find("best"); found != result.end()) {
    absl::StrAppend(&text, "  best evaluation: ", NumberAt(*found, "value"), " at train iteration ",
                    NumberAt(*found, "train_iter"), ", kept as ", found->value("checkpoint", ""),
                    "\n");
  }
  if (const auto found = result.find("confirmation"); found != result.end()) {
    absl::StrAppend(&text, "  confirmation: ", NumberAt(*found, "mean"), " in ",
                    NumberAt(*found, "episodes"), " fresh episodes\n");
  }
  if (result.contains("unsaved")) {
    absl::StrAppend(&text, "  not saved: ", result.value("unsaved", ""), "\n");
  }
  return text;
}

}  // namespace

std::string ToJson(const RunResult& result) {
  nlohmann::ordered_json json;
  AddProgress(result, &json);
  json["why"] = result.why;
  if (result.best.has_value()) {
    const BestEvaluation& best = *result.best;
    json["best"] = {
        {"value", best.value},
        {"train_iter", best.train_iter < 0 ? nlohmann::json() : nlohmann::json(best.train_iter)},
        {"checkpoint", best.checkpoint}};
  }
  if (!result.unsaved.empty()) json["unsaved"] = result.unsaved;
  if (result.confirmation.has_value()) {
    json["confirmation"] = {{"episodes", result.confirmation->episodes},
                            {"mean", result.confirmation->mean},
                            {"standard_error", result.confirmation->standard_error}};
  }
  for (const PolicyResult& policy : result.policies) {
    nlohmann::ordered_json of_policy = {{"policy", policy.policy_id}};
    AddProgress(policy, &of_policy);
    json["policies"].push_back(std::move(of_policy));
  }
  for (const auto& [name, value] : result.metric) json["metric"][name] = value;
  json["wall_seconds"] = result.wall_seconds;
  if (result.collecting_seconds) json["collecting_seconds"] = *result.collecting_seconds;
  json["finish_time"] =
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", result.finish_time, absl::UTCTimeZone());
  return Print(json);
}

std::string ResultText(absl::string_view json, const std::string& exp_dir, bool on_terminal) {
  const std::string line = absl::StrCat("result ", ShortenJson(json), "\n");
  if (!on_terminal) return line;
  const nlohmann::json result =
      nlohmann::json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (!result.is_object()) return line;
  return absl::StrCat(SummaryOf(result), "  folder: ", exp_dir, "\n", NextCommands(exp_dir));
}

std::string ShortenJson(absl::string_view json) {
  nlohmann::ordered_json shortened =
      nlohmann::ordered_json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (shortened.is_discarded()) return std::string(json);
  Shorten(&shortened);
  return Print(shortened);
}

}  // namespace ding
